"""`lamplighter runs logs`: what the Spark drivers of a run wrote."""

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from lamplighter import settings
from lamplighter.errors import RefusedError
from lamplighter.executors.current import named
from lamplighter.store.models import Steps
from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.finding import find_run
from lamplighter_cli.options import AsJson
from lamplighter_cli.run_facts import steps_of

_STREAMS = ("stdout", "stderr")


class _Job(NamedTuple):
    """A job of a step, and which attempt it was."""

    task_id: str
    try_number: int
    job_run_id: str
    executor: str | None


@on_deployment
def logs(
    run: Annotated[str, typer.Argument(help="The run, as DAG/RUN.")],
    *,
    task: Annotated[str, typer.Option(help="Only this task. Default: all.")] = "",
    try_number: Annotated[
        int | None, typer.Option("--try", min=1, help="Only this attempt. Default: the last.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write what the drivers of a run's jobs wrote. Exit 1 if there is no log (yet)."""
    if not settings.current().job_logs_uri:
        raise RefusedError(
            "this deployment keeps no logs in S3: set job_logs_uri, such as s3://bucket/logs, and"
            " runs from then on have them; until then, look in the console of EMR Serverless"
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
        raise RefusedError("logs appear some time after their job has begun: try again later")


def _jobs(steps: list[Steps], task: str, try_number: int | None, run: str) -> list[_Job]:
    if task and task not in {step.step_id for step in steps}:
        begun = ", ".join(step.step_id for step in steps) or "none"
        raise RefusedError(f"{run} has no step {task!r} that has begun; those are: {begun}")
    attempts = [_attempts(step) for step in steps if task in {"", step.step_id}]
    if try_number is None:
        jobs = [each[-1] for each in attempts if each]
    else:
        jobs = [job for each in attempts for job in each if job.try_number == try_number]
    if not jobs:
        which = f" of try {try_number}" if try_number else ""
        raise RefusedError(f"{run} has no job{which}, and so no log: see `lamplighter runs show`")
    return jobs


def _attempts(step: Steps) -> list[_Job]:
    """Return the jobs of a step that are known, oldest first."""
    jobs = {
        job_run_id: _Job(
            step.step_id, int(attempt["try_number"]), job_run_id, attempt.get("executor")
        )
        for attempt in step.tries or ()
        if (job_run_id := attempt["job_run_id"])
    }
    if step.job_run_id:
        newest = _Job(step.step_id, int(step.try_number), step.job_run_id, step.executor)
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
