"""How many modules a reader crosses who follows a run: a number that must not grow unnoticed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from pendulum import datetime

import lamplighter
from lamplighter import DAG, Asset, SparkTask
from lamplighter_local import LocalDeployment, handlers

CORE = Path(lamplighter.__file__).parent
FUNCTIONS = frozenset({"tick", "claim", "submit", "settle", "ingest"})
# Three keep bundles apart: policies of jobs, rules of templates, proofs of events.
LIMIT = 68

ORDERS = Asset("orders")
with DAG("hourly", schedule="0 * * * *", start_date=datetime(2026, 1, 1)) as HOURLY:
    SparkTask("load", entry_point="jobs/load.py", arguments=["{{ ds }}"], outlets=[ORDERS])
with DAG("consumer", schedule=ORDERS) as CONSUMER:
    SparkTask("use", entry_point="jobs/use.py")


@contextmanager
def noting_modules(modules: set[str]) -> Iterator[None]:
    """Note the modules of the core in which something is called while a function is invoked."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(CORE):
                modules.add(str(path.relative_to(CORE)))

    real = handlers.handler_of

    def handler_of(function: str) -> Callable[..., Any]:
        handler = real(function)

        def invoke(*arguments: Any) -> Any:
            sys.setprofile(note)
            try:
                return handler(*arguments)
            finally:
                sys.setprofile(None)

        return invoke if function in FUNCTIONS else handler

    with patch.object(handlers, "handler_of", handler_of):
        yield


def test_timed_and_asset_run_cross_few_modules() -> None:
    """From the tick to the end of the consumer's run, a reader crosses at most 68 modules."""
    crossed: set[str] = set()
    with (
        noting_modules(crossed),
        LocalDeployment([HOURLY, CONSUMER], at="2026-01-01T00:00:00Z") as lamp,
    ):
        lamp.advance(hours=1, minutes=10)
        ended = [run.state for dag in ("hourly", "consumer") for run in lamp.runs(dag)]
    assert ended == ["success", "success"]
    # The models have no functions of their own; their columns are read all the same.
    crossed |= {str(path.relative_to(CORE)) for path in (CORE / "store/models").glob("[a-z]*.py")}

    assert len(crossed) <= LIMIT, sorted(crossed)
