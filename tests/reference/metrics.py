"""The page about metrics, from the reports that handlers publish."""

from lamplighter.backfill.advance import AdvanceReport
from lamplighter.entry import NAMESPACE, BatchReport
from lamplighter.events.ingest import IngestReport
from lamplighter.registry.register import RegisterReport
from lamplighter.runs.decision import RunsReport
from lamplighter.scheduler.claim import ClaimReport
from lamplighter.scheduler.tick import TickReport
from lamplighter.streams.delivery_rounds import WatchReport
from lamplighter.sweep import SweepReport
from tests.reference.markdown import Page, code, sentence
from tests.reference.source import Entry, definition

PUBLISHED: dict[str, tuple[type, ...]] = {
    "tick": (TickReport,),
    "claim": (ClaimReport, AdvanceReport, BatchReport),
    "ingest": (IngestReport,),
    "watch": (WatchReport,),
    "register": (RegisterReport, BatchReport),
    "submit": (RunsReport, BatchReport),
    "settle": (RunsReport, BatchReport),
    "sweep": (SweepReport,),
}
"""What each function publishes; a test holds it against the handlers."""


def page() -> Page:
    """Return the page."""
    made = Page(
        "Metrics",
        f"Functions publish these to CloudWatch in the namespace {code(NAMESPACE)}, with the"
        " dimensions `service`, the"
        " function, and `stack`, the `name` of the deployment. A metric is the sum of a minute;"
        " one that ends in"
        " `Seconds` is a distribution, and is the only kind that is published when it is zero.",
    )
    for report, functions in _by_report().items():
        found = definition(f"{report.__module__}.{report.__name__}")
        made.heading(report.__name__.removesuffix("Report"))
        made.text(f"{sentence(found.doc)} From {', '.join(map(code, functions))}.")
        metrics = [row_of(each) for each in found.fields() if each.type != "Push"]
        made.table(("metric", "unit", "meaning"), metrics)
    return made


def _by_report() -> dict[type, list[str]]:
    """Return which functions publish each report, those that a report inherits from too."""
    found: dict[type, list[str]] = {}
    for function, reports in PUBLISHED.items():
        for report in reports:
            for kind in report.__mro__[:-1]:
                found.setdefault(kind, []).append(function)
    return found


def row_of(each: Entry) -> tuple[str, str, str]:
    """Return the row of a field."""
    name = each.name.title().replace("_", "")
    unit = "seconds" if name.endswith("Seconds") else "count"
    if each.type.startswith("Counter"):
        name = f"{name}: <reason>"
    return code(name), unit, sentence(each.meaning)
