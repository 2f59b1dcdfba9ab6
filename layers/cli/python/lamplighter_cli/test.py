"""`lamplighter test`: one run of one DAG on this machine, with the input and logs of its steps."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from lamplighter import clock
from lamplighter.safe_text import masked, masked_text
from lamplighter_cli import console
from lamplighter_cli.extras import needing
from lamplighter_cli.options import (
    AsJson,
    Conf,
    DagId,
    DagsDir,
    PollRealSources,
    Secrets,
    Variables,
    read_conf,
    read_secrets,
    read_time,
    read_variables,
)
from lamplighter_cli.runs_output import last_line
from lamplighter_operations.views import Step

if TYPE_CHECKING:
    from lamplighter_local.try_run import Tried


def run_test(
    dag_id: DagId,
    *,
    at: Annotated[
        str,
        typer.Option(
            help="The logical date, in the DAG's time zone if it has no offset. Default: now."
        ),
    ] = "",
    spark: Annotated[
        bool, typer.Option("--spark", help="Execute the steps, with Spark on this machine.")
    ] = False,
    dags: DagsDir = Path(),
    conf: Conf = "",
    var: Variables = None,
    secrets: Secrets = None,
    poll_real_sources: PollRealSources = False,
    as_json: AsJson = False,
) -> None:
    """Run a DAG once on this machine; show its steps and logs. Exit code 1 if the run failed."""
    date = read_time("--at", at) if at else clock.now().replace(microsecond=0)
    params, variables, given = read_conf(conf), read_variables(var), read_secrets(secrets)
    with needing("local"):
        from lamplighter_local.try_run import try_run  # noqa: PLC0415 - only where it is needed
    with console.exit_on_ctrl_c():
        tried = try_run(
            dags,
            dag_id,
            at=date,
            on_spark=spark,
            conf=params,
            variables=variables,
            secrets=given,
            poll_real_sources=poll_real_sources,
        )
    if as_json:
        console.print_json(_as_json(tried, is_executed=spark))
    else:
        _show(console.out(), tried, is_executed=spark)
    if tried.run.state != "success":
        raise typer.Exit(1)


def _as_json(tried: "Tried", *, is_executed: bool) -> dict[str, Any]:
    run = tried.run
    instants = ("logical_date", "data_interval_start", "data_interval_end", "run_after")
    return {
        **{name: getattr(run, name) for name in ("dag_id", "run_id", "state")},
        **{name: console.instant_json(getattr(run, name)) for name in instants},
        "conf": run.conf,
        "is_executed": is_executed,
        "steps": [_step_as_json(tried, step) for step in run.steps],
    }


def _step_as_json(tried: "Tried", step: Step) -> dict[str, Any]:
    context = masked(tried.contexts.get(step.task_id, {}))
    own = [attempt for attempt in tried.attempts if attempt.task_id == step.task_id]
    return {
        "task_id": step.task_id,
        "state": step.state,
        "tries": step.try_number,
        "error": step.error,
        **{name: context.get(name) for name in ("job", "entry_point", "arguments", "params")},
        "attempts": [
            {"seconds": round(each.seconds, 3), "log": masked_text(each.log)} for each in own
        ],
    }


def _show(out: Console, tried: "Tried", *, is_executed: bool) -> None:
    run = tried.run
    interval = console.interval(run.data_interval_start, run.data_interval_end, tried.zone)
    out.print(
        console.details(
            {
                "run": f"{run.dag_id}/{run.run_id}",
                "state": console.state(run.state),
                "logical date": console.instant(run.logical_date, tried.zone),
                "data interval": interval,
                "conf": json.dumps(run.conf) if run.conf else None,
            }
        )
    )
    out.print()
    out.print(_steps(tried, is_executed=is_executed))
    if not is_executed:
        would = "; with --spark, these jobs would be started:" if tried.contexts else ""
        out.print(Text(f"\nno step was executed{would}"), soft_wrap=True)
        for task_id, context in tried.contexts.items():
            out.print(Text.assemble("  ", (task_id, "bold"), f": {_call(context)}"), soft_wrap=True)
    elif machines := [name for name, each in tried.contexts.items() if "state_machine" in each]:
        out.print(Text(f"\nnot executed, and taken for a success: {', '.join(machines)}"))
    for number, attempt in enumerate(tried.attempts, start=1):
        title = f"==> job {number}: {attempt.task_id}, {attempt.seconds:.1f} s <=="
        out.print(Text(f"\n{title}", "bold"))
        out.print(Text(masked_text(attempt.log.rstrip("\n")) or "(no output)"), soft_wrap=True)


def _steps(tried: "Tried", *, is_executed: bool) -> console.Rows:
    timed = ("seconds",) if is_executed else ()
    rows = console.Rows("task", "state", "tries", *timed, "error")
    for step in tried.run.steps:
        own = [each.seconds for each in tried.attempts if each.task_id == step.task_id]
        took = (f"{sum(own):.1f}" if own else "",) if is_executed else ()
        tries = str(step.try_number)
        error = last_line(step.error)
        rows.add(step.task_id, console.state(step.state), tries, *took, error)
    return rows


def _call(context: Mapping[str, Any]) -> str:
    """Return the job of a step as a command line."""
    context = masked(context)
    if "state_machine" in context:
        return f"state machine {context['state_machine']} with {json.dumps(context['input'])}"
    program = context["job"] or context["entry_point"]
    parts = [str(program), *(shlex.quote(text) for text in context["arguments"])]
    params = f"  params {json.dumps(context['params'])}" if context["params"] else ""
    return " ".join(parts) + params
