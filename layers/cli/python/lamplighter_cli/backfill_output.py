"""Backfills and their plans as JSON and as tables."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from lamplighter.backfill.estimates import consumers, expect, total_seconds
from lamplighter.backfill.plan import Act, Plan
from lamplighter.store.dags import newest_document
from lamplighter.zones import Zone
from lamplighter_cli import console
from lamplighter_cli.console import Rows, instant, instant_json, view_json
from lamplighter_operations.views import Backfill

if TYPE_CHECKING:
    from lamplighter.store.models import Dags


def backfill_json(backfill: Backfill) -> dict[str, Any]:
    """Return a backfill as JSON."""
    found = view_json(backfill, without={"run_backwards"})
    return found | {"backwards": backfill.run_backwards}


def progress_text(backfill: Backfill) -> str:
    """Return the progress of a backfill in words."""
    done, total = backfill.done, backfill.total
    parts = [
        f"{done:,} of {total:,} ({100 * done // total}%)",
        f"{len(backfill.active)} running" if backfill.active else "",
        f"{backfill.failed} failed" if backfill.failed else "",
        f"{backfill.cancelled} cancelled" if backfill.cancelled else "",
        f"{backfill.passed} already had a run" if backfill.passed else "",
        _cost(backfill),
        f"about {console.duration(backfill.seconds_left)} left" if backfill.seconds_left else "",
    ]
    return ", ".join(part for part in parts if part)


def _cost(backfill: Backfill) -> str:
    if backfill.cost is None and not backfill.unbilled_runs:
        return ""
    known = "unknown cost" if backfill.cost is None else f"${backfill.cost:,.2f}"
    limit = f" of ${backfill.max_cost:,.2f}" if backfill.max_cost else ""
    missing = f" ({backfill.unbilled_runs:,} not billed yet)" if backfill.unbilled_runs else ""
    return f"{known}{limit}{missing}"


def backfill_table(backfill: Backfill, zone: Zone | None) -> Table:
    """Return the fields of a backfill as a table."""
    return console.details(
        {
            "backfill": Text(backfill.backfill_id, "bold"),
            "DAG": backfill.dag_id,
            "state": console.state(backfill.state),
            "reason": backfill.reason,
            **_range(backfill, zone),
            "reprocess": backfill.reprocess,
            "order": "newest first" if backfill.run_backwards else "oldest first",
            "at a time": backfill.max_active_runs,
            "progress": progress_text(backfill),
            "active runs": ", ".join(backfill.active),
            "created": instant(backfill.created_at, zone),
            "ended": instant(backfill.ended_at, zone),
        }
    )


def backfills_table(backfills: Iterable[Backfill]) -> Rows:
    """Return a list of backfills as a table."""
    table = Rows("backfill", "state", "from", "to (not included)", "progress")
    for each in backfills:
        instants = (instant(each.start), instant(each.end))
        table.add(each.backfill_id, console.state(each.state), *instants, progress_text(each))
    return table


# Plans.


def plan_table(dag: "Dags", plan: Plan, zone: Zone) -> Table:
    """Return what a backfill would do as a table."""
    request, counts, todo = plan.request, plan.counts(), plan.todo
    dates = [each.info.logical_date or each.info.run_after for each in todo]
    return console.details(
        {
            "DAG": Text(dag.dag_id, "bold"),
            **_range(request, zone),
            "runs": _runs_text(counts, len(todo)),
            "skipped": _skipped_text(counts),
            "first": instant(dates[0], zone) if dates else None,
            "last": instant(dates[-1], zone) if len(dates) > 1 else None,
            "at a time": request.max_active_runs if todo else None,
            "expected": _expected_text(plan) if todo else None,
            "triggers": _triggered_text(dag, len(todo)) if todo else None,
            "paused": "yes: the backfill starts when the DAG is unpaused"
            if dag.is_paused
            else None,
        }
    )


def _range(about: Any, zone: Zone | None) -> dict[str, str]:
    return {
        "from": f"{instant(about.start, zone)}, included",
        "to": f"{instant(about.end, zone)}, not included",
    }


def _runs_text(counts: dict[Act, int], todo: int) -> str:
    if not todo:
        return "none"
    again = counts.get(Act.REDO, 0)
    return f"{todo:,}" + (f", of which {again:,} exist and run again" if again else "")


def _skipped_text(counts: dict[Act, int]) -> str:
    kinds = ((Act.EXISTS, "have a run"), (Act.IN_FLIGHT, "have a run in progress"))
    return ", ".join(f"{counts[act]:,} {words}" for act, words in kinds if counts.get(act))


def _expected_text(plan: Plan) -> str:
    """Return the expected cost and duration in words."""
    known, todo = expect(plan.request.dag_id), len(plan.todo)
    seconds = total_seconds(todo, plan.request.max_active_runs, known.seconds)
    cost = None if known.cost is None else f"${known.cost * todo:,.2f}"
    parts = " and ".join(filter(None, (cost, console.duration(seconds))))
    return f"about {parts}, based on its last {known.runs} runs" if parts else "no runs to go by"


def _triggered_text(dag: "Dags", todo: int) -> str:
    return "; ".join(
        f"{dag_id} (through {', '.join(names)}), up to {todo:,} runs"
        for dag_id, names in consumers(newest_document(dag)).items()
    )


def dates_table(plan: Plan, zone: Zone) -> Rows:
    """Return every date of a plan as a table."""
    table = Rows("date", "run", "action")
    for each in plan.dates:
        date = instant(each.info.logical_date or each.info.run_after, zone)
        table.add(date, each.run_key, each.act.value)
    return table


def plan_json(dag: "Dags", plan: Plan) -> dict[str, Any]:
    """Return what a backfill would do as JSON."""
    known, request, todo = expect(dag.dag_id), plan.request, len(plan.todo)
    return {
        "dag_id": dag.dag_id,
        "start": instant_json(request.start),
        "end": instant_json(request.end),
        "reprocess": request.reprocess,
        "backwards": request.run_backwards,
        "max_active_runs": request.max_active_runs,
        "runs": todo,
        "expected_cost": None if known.cost is None else known.cost * todo,
        "expected_seconds": total_seconds(todo, request.max_active_runs, known.seconds),
        "judged_by_runs": known.runs,
        "consumers": consumers(newest_document(dag)),
        "dates": [
            {
                "run_key": each.run_key,
                "logical_date": instant_json(each.info.logical_date),
                "run_after": instant_json(each.info.run_after),
                "then": each.act.value,
            }
            for each in plan.dates
        ],
    }
