"""`lamplighter runs logs`: the logs of the jobs of a run."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lamplighter import clock, settings
from lamplighter.errors import RefusedError
from lamplighter.executors import named
from lamplighter.executors.emr import EmrServerless
from lamplighter.safe_text import masked_lines, masked_text
from lamplighter.store.runs import FINISHED
from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.lookup import find_run
from lamplighter_cli.options import AsJson, RunName
from lamplighter_cli.runs_jobs import RunJob, jobs_of
from lamplighter_operations.views import steps_of

if TYPE_CHECKING:
    from lamplighter.store.models import Runs

_FOLLOW_SECONDS = 5.0
# The last lines of a log are written after its job has ended.
_POLLS_AFTER_THE_END = 24


@on_deployment
def logs(
    run: RunName,
    *,
    task: Annotated[str, typer.Option(help="Only this task. Default: all tasks.")] = "",
    try_number: Annotated[
        int | None, typer.Option("--try", min=1, help="Only this attempt. Default: the last one.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until the run has ended.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the logs of a run's jobs, of Spark those of drivers. Exit code 1 if there are none."""
    row = find_run(run)
    if not settings.current().job_logs_uri and not _has_other_logs(row):
        raise RefusedError(
            "this deployment does not store logs in S3: set job_logs_uri, such as s3://bucket/logs,"
            " for future runs; for this one, see the console of EMR Serverless"
        )
    if follow and (as_json or try_number):
        raise RefusedError("--follow prints the lines of the last attempts: omit --json and --try")
    if follow:
        _Follower().follow(row, run, task)
        return
    _print_all(jobs_of(steps_of(row), task, try_number, run=f"run {row.run_id}"), as_json=as_json)


def _has_other_logs(row: "Runs") -> bool:
    """Return whether a step has a log that is not in the place for those of Spark."""
    return any(step.executor not in {None, EmrServerless.name} for step in steps_of(row))


def _print_all(jobs: Iterable[RunJob], *, as_json: bool) -> None:
    found: list[dict[str, Any]] = []
    missing: list[str] = []
    for job in jobs:
        executor = named(job.executor)
        for stream in executor.streams:
            uri = executor.log_uri(job.job_run_id, stream)
            lines = executor.read_log(job.job_run_id, stream)
            if lines is None:
                missing.append(uri or f"{executor.name}, which keeps none of job {job.job_run_id}")
            elif as_json:
                text = masked_text("".join(lines))
                found.append({**job._asdict(), "stream": stream, "uri": uri, "text": text})
            else:
                found.append({"uri": uri})
                _write(job, stream, lines)
    if as_json:
        console.print_json(found)
    for uri in missing:
        console.err().print(Text(f"no log at {uri}"))
    if not found:
        raise RefusedError("logs appear some time after a job has started: try again later")


def _write(job: RunJob, stream: str, lines: Iterator[str]) -> None:
    console.print_line(f"==> {job.task_id}, try {job.try_number}, {stream} <==")
    for line in masked_lines(lines):
        _write_line(line)


def _write_line(line: str) -> None:
    # Without the end of the line, and without that of progress bars that return to its start.
    console.print_line(line.rstrip("\r\n"))


class _Follower:
    """Prints what has been added to the logs of a run since it last looked."""

    def __init__(self) -> None:
        # How many lines were printed, by job and stream.
        self.printed: Counter[tuple[str, str]] = Counter()
        self.last: tuple[str, str] | None = None

    def follow(self, row: "Runs", name: str, task: str) -> None:
        """Print lines until the run has ended and its logs are complete."""
        polls_left = _POLLS_AFTER_THE_END
        while polls_left:
            jobs = _jobs_so_far(row, task)
            is_new = self._print_new(jobs)
            if row.state in FINISHED:
                polls_left = 0 if self._has_all(jobs) and not is_new else polls_left - 1
            if polls_left:
                clock.sleep(_FOLLOW_SECONDS)
                row = find_run(name)

    def _has_all(self, jobs: Iterable[RunJob]) -> bool:
        with_lines = {job_run_id for job_run_id, _ in self.printed}
        return all(job.job_run_id in with_lines for job in jobs)

    def _print_new(self, jobs: Iterable[RunJob]) -> bool:
        before = self.printed.total()
        for job in jobs:
            executor = named(job.executor)
            for stream in executor.streams:
                key = job.job_run_id, stream
                lines = executor.read_log(*key) or iter(())
                for number, line in enumerate(masked_lines(lines)):
                    # The end of a line may still follow.
                    if number >= self.printed.get(key, 0) and line.endswith("\n"):
                        self._print(job, key, line)
        return self.printed.total() > before

    def _print(self, job: RunJob, key: tuple[str, str], line: str) -> None:
        if key != self.last:
            console.print_line(f"==> {job.task_id}, try {job.try_number}, {key[1]} <==")
        _write_line(line)
        self.printed[key] += 1
        self.last = key


def _jobs_so_far(row: "Runs", task: str) -> list[RunJob]:
    steps = [step for step in steps_of(row) if task in {"", step.task_id} and step.submission]
    if not any(step.job_run_id or step.tries for step in steps):
        return []
    return jobs_of(steps, task, None, run=f"run {row.run_id}")
