"""`lamplighter doctor`: reports what is wrong with a deployment, and how to fix it."""

import platform
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, TypeVar

import typer
from rich.text import Text

import lamplighter
from lamplighter import aws, settings
from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.doctor_checks import (
    ERROR,
    OK,
    WARNING,
    Finding,
    check_activity,
    check_resources,
)
from lamplighter_cli.options import AsJson
from lamplighter_operations import repair as slot_repair
from lamplighter_operations.repair import Drift

T = TypeVar("T")

_DRIFT = "drift"
_WOULD_CHANGE = 3
_STYLES = {OK: "green", WARNING: "yellow", ERROR: "bold red", _DRIFT: "yellow"}


@on_deployment
def doctor(
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Correct slots that do not match their runs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a deployment. Exit code 1 if there are errors, 3 if --repair can fix everything."""
    found: list[Finding] = []
    if not as_json:
        console.out().print(Text(_headline()), soft_wrap=True)
    for finding in _all(repair=repair):
        found.append(finding)
        if not as_json:
            _show(finding)
    if as_json:
        about = {"version": lamplighter.__version__, "python": platform.python_version()}
        console.print_json({**about, "findings": [finding._asdict() for finding in found]})
    levels = {finding.level for finding in found}
    if ERROR in levels:
        raise typer.Exit(1)
    if _DRIFT in levels:
        raise typer.Exit(_WOULD_CHANGE)


def _headline() -> str:
    versions = f"lamplighter {lamplighter.__version__}, Python {platform.python_version()}"
    return f"{versions}, tables {settings.current().table_prefix}… in {_region()}"


def _region() -> str:
    return str(aws.client("dynamodb").meta.region_name)


def _all(*, repair: bool) -> Iterator[Finding]:
    there = list(check_resources())
    yield from there
    if any(
        finding.level == ERROR and finding.check in {"credentials", "tables"} for finding in there
    ):
        return  # the other checks need both
    yield from check_activity()
    yield from _slots(repair=repair)


def _slots(*, repair: bool) -> Iterator[Finding]:
    found = [
        *_drift(slot_repair.find_drift(), slot_repair.repair_dag, _described, repair=repair),
        *_drift(
            slot_repair.find_backfill_drift(),
            slot_repair.repair_backfill,
            _of_backfill,
            repair=repair,
        ),
        *_drift(slot_repair.find_limit_drift(), slot_repair.repair_limit, _of_limit, repair=repair),
    ]
    yield from found or [Finding("slots", OK, "slots match the runs")]


def _drift(
    drifts: Iterable[T],
    mend: Callable[[T], T | None],
    describe: Callable[[T], str],
    *,
    repair: bool,
) -> Iterator[Finding]:
    for drift in drifts:
        if not repair:
            yield Finding("slots", _DRIFT, describe(drift), "lamplighter doctor --repair")
        elif (repaired := mend(drift)) is not None:
            yield Finding("slots", OK, f"repaired: {describe(repaired)}")


def _of_backfill(drift: slot_repair.BackfillDrift) -> str:
    keys = ", ".join(drift.dead)
    return f"backfill {drift.backfill_id}: {keys} has a slot, but is finished or deleted"


def _of_limit(drift: slot_repair.LimitDrift) -> str:
    parts = (
        f"{drift.recorded[each]:g} of {actual:g} {each}" for each, actual in drift.actual.items()
    )
    return f"{drift.limit_id}: {', '.join(parts)} are recorded as free"


def _described(drift: Drift) -> str:
    parts = [
        f"{', '.join(keys)} {what}"
        for keys, what in (
            (drift.dead, "has a slot, but is finished or deleted"),
            (drift.lost, "is not finished, but has no slot"),
        )
        if keys
    ]
    return f"DAG {drift.dag_id}: {'; '.join(parts)}"


def _show(finding: Finding) -> None:
    fix = f" → {finding.fix}" if finding.fix else ""
    level = (f"{finding.level:<8}", _STYLES[finding.level])
    line = Text.assemble(level, f"{finding.check}: {finding.text}{fix}")
    console.out().print(line, soft_wrap=True)
