"""The page about tests of DAGs: the local deployment, the fixture, and what can go wrong."""

from dataclasses import replace

from lamplighter.store import models
from tests.reference.markdown import Page, code, paragraphs
from tests.reference.source import definition
from tests.reference.tables import comments_of
from tests.reference.tables_of_definitions import arguments, class_section, fields, methods

_LOCAL = "lamplighter_local"
_VIEWS = "lamplighter_operations.views"
# What a view shows is what its columns mean.
_MODELS = {
    "Run": "Runs",
    "Step": "Steps",
    "Event": "AssetEvents",
    "Dag": "Dags",
    "Backfill": "Backfills",
}


def page() -> Page:
    """Return the page."""
    made = Page(
        "Testing",
        "The pytest fixture, and what it returns. `pip install 'lamplighter[local]'` brings both.",
    )
    made.heading("Fixtures")
    plugin = f"{_LOCAL}.pytest_plugin"
    made.table(
        ("fixture", "meaning"),
        (
            (code(name), paragraphs(definition(f"{plugin}.{name}").doc))
            for name in ("lamplighter", "frozen")
        ),
    )
    made.text("The function that `lamplighter` yields takes:")
    (call,) = (
        each for each in definition(f"{plugin}.Deploy").all_methods() if each.name == "__call__"
    )
    arguments(made, call.arguments())
    class_section(made, f"{_LOCAL}.deployment.LocalDeployment", has_methods=True)
    made.heading("GivenSource")
    made.text(paragraphs(definition(f"{_LOCAL}.given_sources.GivenSource").doc))
    methods(made, definition(f"{_LOCAL}.given_sources.GivenSource"))
    _faults(made)
    class_section(made, f"{_LOCAL}.emr.behaviour.EmrBehaviour")
    made.heading("check_timetable")
    found = definition("lamplighter.timetables.testing.check_timetable")
    made.text(paragraphs(found.doc))
    arguments(made, found.arguments())
    made.heading("What the deployment returns")
    for name in ("Run", "Step", "Event", "Dag", "Backfill"):
        found = definition(f"{_VIEWS}.{name}")
        made.heading(name)
        made.text(paragraphs(found.doc))
        columns = comments_of(getattr(models, _MODELS[name]))
        fields(
            made,
            (
                replace(each, meaning=each.meaning or columns.get(each.name, ""))
                for each in found.fields()
            ),
        )
        methods(made, found)
    return made


def _faults(made: Page) -> None:
    made.heading("Faults")
    made.text("`lamp.faults` makes the functions of a deployment fail.")
    own = definition(f"{_LOCAL}.faults.deployment_faults.DeploymentFaults")
    fields(made, own.attributes())
    methods(
        made, definition(f"{_LOCAL}.faults.call_faults.CallFaults"), skip=("pass_on", "pending")
    )
    methods(made, own, skip=("injected_into", "pending"))
