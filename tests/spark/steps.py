"""Steps whose jobs a local Spark runs, written in a line or two."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

from lamplighter.bundles.archive import build_archive
from lamplighter.executors import Job, JobRequest, JobState
from lamplighter_local.spark.executor import LocalSparkExecutor
from tests.spark.documents import context_document


@dataclass
class Jobs:
    """An executor, and the steps whose jobs it runs."""

    executor: LocalSparkExecutor
    folder: Path
    changes: list[tuple[str, JobState]] = field(default_factory=list)
    _made: int = 0

    def submit(
        self,
        program: str,
        *,
        modules: dict[str, str] | None = None,
        seconds: float | None = None,
        spark_conf: dict[str, str] | None = None,
        **context: Any,
    ) -> str:
        """Submit `program`: the body of a job function, or a script if there is an entry point."""
        self._made += 1
        step = self.folder / f"step-{self._made}"
        step.mkdir(parents=True)
        if "entry_point" not in context:
            context["job"] = "jobs.program:run"
            body = dedent(program).replace("\n", "\n    ")
            program = f"def run(spark, context):\n    {body}\n"
        write_bundle(step, {"jobs/program.py": dedent(program), **(modules or {})})
        (step / "context.json").write_text(json.dumps(context_document(**context)))
        return self.executor.start(
            JobRequest(
                token=f"token-{self._made}",
                name=f"job-{self._made}",
                context_uri=str(step / "context.json"),
                bundle_uri=str(step / "bundle.zip"),
                spark_conf=spark_conf or {},
                timeout=timedelta(seconds=seconds) if seconds else None,
            )
        )

    def run(self, program: str, **options: Any) -> Job:
        """Submit a program and run it to its end."""
        job_run_id = self.submit(program, **options)
        assert self.executor.work()
        job = self.executor.describe(job_run_id)
        assert job is not None
        return job

    def report(self, job: Job) -> dict[str, Any]:
        """Return the report that lies beside the context now."""
        report: dict[str, Any] = json.loads(
            Path(job.context_uri).with_name("report.json").read_text()
        )
        return report

    def has_report(self, job: Job) -> bool:
        """Return whether a report lies beside the context."""
        return Path(job.context_uri).with_name("report.json").exists()

    def facts(self, job: Job) -> dict[str, Any]:
        """Return what the job stated about its outlet."""
        assert job.state is JobState.SUCCESS, job.details
        facts: dict[str, Any] = self.report(job)["outlets"]["orders"]
        return facts

    def log(self, job: Job) -> str:
        """Return all that the job has printed."""
        return (self.executor.folder_of(job.job_run_id) / "log.txt").read_text()


@contextmanager
def jobs_in(folder: Path) -> Iterator[Jobs]:
    """Yield the jobs of a new executor, which keeps its files in a folder."""
    changes: list[tuple[str, JobState]] = []
    with LocalSparkExecutor(
        folder / "jobs", on_change=lambda *change: changes.append(change)
    ) as executor:
        yield Jobs(executor, folder, changes)


def write_bundle(folder: Path, files: dict[str, str]) -> bytes:
    """Write the archive of a bundle with these files into a folder, and return it."""
    root = folder / "bundle"
    (root / "dags").mkdir(parents=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    data = build_archive(root).data
    (folder / "bundle.zip").write_bytes(data)
    return data
