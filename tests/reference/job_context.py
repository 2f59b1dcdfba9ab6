"""The page about what runs beside a job: `lamplighter_job`."""

from tests.reference.markdown import Page, code, paragraphs
from tests.reference.source import definition
from tests.reference.tables_of_definitions import fields, methods

_CONTEXT = "lamplighter_job.context"


def page() -> Page:
    """Return the page."""
    made = Page(
        "Job context",
        "Every name of `from lamplighter_job import …`, the package that is shipped with every"
        " job. A function that"
        " `job=` names is given the context; a script asks for it.",
    )
    for path, has_methods in (
        (f"{_CONTEXT}.Context", True),
        (f"{_CONTEXT}.TriggeringEvent", False),
        (f"{_CONTEXT}.Inlet", False),
        ("lamplighter_job.outlets.Outlet", True),
    ):
        found = definition(path)
        made.heading(found.name)
        made.text(paragraphs(found.doc))
        fields(made, found.arguments())
        if has_methods:
            methods(made, found, skip=("facts", "additions"))
    for path in (
        f"{_CONTEXT}.current_context",
        f"{_CONTEXT}.secret",
        "lamplighter_job.errors.SkipStep",
    ):
        found = definition(path)
        made.heading(found.name)
        made.text(code(found.signature))
        made.text(paragraphs(found.doc))
    return made
