"""A Spark that only pretends: each job ends as a function says, at once."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lamplighter_local import demo, try_run
from lamplighter_local.spark import executor as spark_executor
from lamplighter_local.spark.process import Answer

# Given a job's context file, says whether it succeeds.
Outcome = Callable[[Path], bool]


def pretend(monkeypatch: pytest.MonkeyPatch, outcome: Outcome) -> None:
    """Let jobs end as `outcome` says until the test is over, on a machine that has Java."""

    class Process:
        is_alive = True

        def __init__(self, folder: Path, **_: object) -> None:
            self.log = folder / "spark.log"
            self.log.touch()

        def ask(self, request: Mapping[str, Any], **_: object) -> Answer:
            """Write a line to the job's log, and answer."""
            context = Path(request["context"])
            is_success = outcome(context)
            Path(request["log"]).write_text(f"pretended {context.parent.name}\n")
            summary = "" if is_success else "ValueError: no orders"
            answer = {"exit_code": int(not is_success), "summary": summary, "is_reusable": True}
            return Answer(answer)

        def end(self) -> None:
            """Do nothing: no process was started."""

    monkeypatch.setattr(spark_executor, "SparkProcess", Process)
    for module in (demo, try_run):
        monkeypatch.setattr(module, "find_java_home", lambda: Path("/java"))
