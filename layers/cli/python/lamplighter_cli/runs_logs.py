"""`lamplighter runs logs`: the logs of the Spark drivers of a run."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from lamplighter import settings
from lamplighter.errors import RefusedError
from lamplighter.executors import named
from lamplighter.views import Step, steps_of
from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.lookup import find_run
from lamplighter_cli.options import AsJson, RunName

_STREAMS = ("stdout", "stderr")


class _Job(NamedTuple):
    """One attempt of a step."""

    task_id: str
    try_number: int
    job_run_id: str
    executor: str | None


@on_deployment
def logs(
    run: RunName,
    *,
    task: Annotated[str, typer.Option(help="Only this task. Default: all tasks.")] = "",
    try_number: Annotated[
        int | None, typer.Option("--try", min=1, help="Only this attempt. Default: the last one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the driver logs of a run's jobs. Exit code 1 if there are none (yet)."""
    if not settings.current().job_logs_uri:
        raise RefusedError(
            "this deployment does not store logs in S3: set job_logs_uri, such as s3://bucket/logs,"
            " for future runs; for this one, see the console of EMR Serverless"
        )
    row = find_run(run)
    jobs = _jobs(steps_of(row), task, try_number, f"run {row.run_id}")
    found: list[dict[str, Any]] = []
    missing: list[str] = []
    for job in jobs:
        executor = named(job.executor)
        for stream in _STREAMS:
            uri = executor.log_uri(job.job_run_id, stream)
            lines = executor.read_log(job.job_run_id, stream)
            if lines is None:
                missing.append(uri or f"{executor.name}, which keeps none of job {job.job_run_id}")
            elif as_json:
                text = "".join(lines)
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


def _jobs(steps: Sequence[Step], task: str, try_number: int | None, run: str) -> list[_Job]:
    if task and task not in {step.task_id for step in steps}:
        started = ", ".join(step.task_id for step in steps) or "none"
        raise RefusedError(f"{run} has not started a step {task!r} (started: {started})")
    attempts = [_attempts(step) for step in steps if task in {"", step.task_id}]
    if try_number is None:
        jobs = [each[-1] for each in attempts if each]
    else:
        jobs = [job for each in attempts for job in each if job.try_number == try_number]
    if not jobs:
        which = f" of try {try_number}" if try_number else ""
        raise RefusedError(
            f"{run} has no job{which}, so there is no log: see `lamplighter runs show`"
        )
    return jobs


def _attempts(step: Step) -> list[_Job]:
    """Return the known jobs of a step, oldest first."""
    jobs = {
        job_run_id: _Job(
            step.task_id, int(attempt["try_number"]), job_run_id, attempt.get("executor")
        )
        for attempt in step.tries
        if (job_run_id := attempt["job_run_id"])
    }
    if step.job_run_id:
        newest = _Job(step.task_id, step.try_number, step.job_run_id, step.executor)
        jobs.setdefault(step.job_run_id, newest)
    return list(jobs.values())


def _write(job: _Job, stream: str, lines: Iterator[str]) -> None:
    typer.echo(f"==> {job.task_id}, try {job.try_number}, {stream} <==")
    ending = "\n"
    for line in lines:
        typer.echo(line, nl=False)
        ending = line[-1:]
    if ending != "\n":
        typer.echo()
