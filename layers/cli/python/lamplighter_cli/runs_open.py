"""`lamplighter runs open`: the UI of a job."""

from typing import Annotated

import typer

from lamplighter.errors import RefusedError
from lamplighter.executors import named
from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.lookup import find_run
from lamplighter_cli.options import AsJson, RunName
from lamplighter_cli.runs_jobs import jobs_of
from lamplighter_operations.views import steps_of


@on_deployment
def open_ui(
    run: RunName,
    *,
    task: Annotated[str, typer.Option(help="The task; needed if the run has several.")] = "",
    try_number: Annotated[
        int | None, typer.Option("--try", min=1, help="An attempt. Default: the last one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the address of a job's UI. That of Spark can be opened by anyone, for one hour."""
    row = find_run(run)
    jobs = jobs_of(steps_of(row), task, try_number, run=f"run {row.run_id}")
    if len(jobs) > 1:
        names = ", ".join(job.task_id for job in jobs)
        raise RefusedError(f"run {row.run_id} has several jobs: add --task (one of {names})")
    (job,) = jobs
    executor = named(job.executor)
    url = executor.ui_url(job.job_run_id)
    if url is None:
        raise RefusedError(f"{executor.name} has no UI of job {job.job_run_id}")
    if as_json:
        console.print_json({**job._asdict(), "url": url})
    else:
        console.print_line(url)
