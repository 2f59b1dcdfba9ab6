"""The bill: counted units times prices, as lines, as JSON, and as the tables of docs/costs.md.

Owns: how dollars are added up and shown.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lamplighter import PythonTask
from lamplighter.store.models import TABLES
from lamplighter.topology import QUEUES
from tests.costs.prices import (
    AS_OF,
    KEY_REUSE_MINUTES,
    KEYS_OF_A_QUEUE,
    KEYS_OF_A_TABLE,
    MILLION,
    MINUTES_A_MONTH,
    POLLERS,
    POLLS_A_MINUTE,
    PRICES,
    REGION,
)
from tests.costs.stories import (
    AT_ONCE,
    Counted,
    asset_triggered,
    idle_month,
    idle_units,
    timed,
)

PAGE = Path(__file__).parents[2] / "docs" / "costs.md"
_BEGIN, _END = "<!-- costs: written by `make costs WRITE=1` -->", "<!-- end of costs -->"
_LOGS = "logs of jobs in S3"


def count_runs() -> list[Counted]:
    """Count all stories, for one run each."""
    idle = idle_units()
    stories = [story(dags, idle) for story in (timed, asset_triggered) for dags in (1, AT_ONCE)]
    return [*stories, timed(1, idle, kind=PythonTask)]


def count_months() -> list[Counted]:
    """Count what a deployment uses in a month without a run."""
    polls = len(QUEUES) * POLLERS * POLLS_A_MINUTE * MINUTES_A_MONTH
    keys = len(QUEUES) * KEYS_OF_A_QUEUE + len(TABLES) * KEYS_OF_A_TABLE
    return [
        Counted("Lambda polls idle queues", {"SQS requests": polls}, {}, {}),
        idle_month(idle_units()),
        Counted(
            "KMS, if every queue and table is in use all the time",
            {"KMS requests": keys * MINUTES_A_MONTH / KEY_REUSE_MINUTES},
            {},
            {},
        ),
    ]


def dollars(units: Mapping[str, float], *, times: float) -> dict[str, float]:
    """Return the dollars for units, so many times, by the names of the prices."""
    return {
        name: count * times * PRICES[name].dollars / PRICES[name].per
        for name, count in units.items()
    }


def by_service(units: Mapping[str, float]) -> dict[str, float]:
    """Return the dollars of a million runs by service; what only jobs cause comes last."""
    found: dict[str, float] = {}
    for name, each in dollars(units, times=MILLION).items():
        service = _LOGS if "logs" in name else _service(name)
        found[service] = found.get(service, 0) + each
    return {name: found[name] for name in sorted(found, key=lambda name: (name == _LOGS, name))}


def _service(name: str) -> str:
    return "CloudWatch Logs" if name.startswith("CloudWatch") else name.partition(" ")[0]


# For people.


def as_lines(runs: Sequence[Counted], months: Sequence[Counted]) -> Iterator[str]:
    """Yield the whole bill, item by item."""
    yield f"List prices of {REGION}, {AS_OF}; not verified on a bill."
    for story in runs:
        yield ""
        yield f"A million runs of one step, {story.name}"
        yield from _items(story, times=MILLION)
        yield "  calls of one run"
        for (function, service, operation), count in sorted(story.calls.items()):
            yield f"    {function:<10}{service:<16}{operation:<26}{count:>8.2f}"
    for month in months:
        yield ""
        yield f"A month: {month.name}"
        yield from _items(month, times=1)


def _items(counted: Counted, *, times: float) -> Iterator[str]:
    found = dollars(counted.units, times=times)
    for name in sorted(found):
        yield f"  {name:<30}{counted.units[name]:>16,.2f}{found[name]:>12,.2f} $"
    yield f"  {'total':<46}{sum(found.values()):>12,.2f} $"


def as_json(runs: Sequence[Counted], months: Sequence[Counted]) -> dict[str, Any]:
    """Return the whole bill for programs."""
    return {
        "region": REGION,
        "prices_as_of": AS_OF,
        "million_runs": {each.name: _story(each, times=MILLION) for each in runs},
        "month": {each.name: _story(each, times=1) for each in months},
    }


def _story(counted: Counted, *, times: float) -> dict[str, Any]:
    found = dollars(counted.units, times=times)
    return {
        "units": dict(counted.units),
        "dollars": found,
        "total": sum(found.values()),
        "calls": {" ".join(call): count for call, count in counted.calls.items()},
        "invocations": dict(counted.invocations),
    }


# For docs/costs.md.


def table(runs: Sequence[Counted]) -> list[list[str]]:
    """Return the table of a million runs, its head included: services, and a column per story."""
    columns = [by_service(story.units) for story in runs]
    own = [service for service in columns[0] if service != _LOGS]

    def row(title: str, services: Sequence[str]) -> list[str]:
        return [title, *(_money(sum(each.get(name, 0) for name in services)) for each in columns)]

    return [
        ["a million runs of one step, dollars", *(story.name for story in runs)],
        *(row(service, [service]) for service in own),
        row("**together**", own),
        row(_LOGS, [_LOGS]),
        row("**with logs of jobs**", [*own, _LOGS]),
    ]


def _money(amount: float) -> str:
    return f"{amount:.1f}"


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---|" + "---:|" * (len(rows[0]) - 1), *body])


def written_table() -> list[list[str]]:
    """Return the table that the page has."""
    text = PAGE.read_text()
    lines = text[text.index(_BEGIN) + len(_BEGIN) : text.index(_END)].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if not re.fullmatch("[-:]+", row[0])]


def write_table(rows: Sequence[Sequence[str]]) -> None:
    """Put the table where the page has its own."""
    text = PAGE.read_text()
    before, after = text[: text.index(_BEGIN) + len(_BEGIN)], text[text.index(_END) :]
    PAGE.write_text(f"{before}\n{as_markdown(rows)}\n{after}")
