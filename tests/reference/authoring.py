"""The page about what DAG files are made of."""

from dataclasses import replace

from lamplighter.dags.arguments import TRIGGER_RULES
from lamplighter.dags.kinds import KINDS
from lamplighter.dags.task import COMMON_OPTIONS
from lamplighter.identifiers import RUN_TYPES
from tests.reference.markdown import Page, code, paragraphs
from tests.reference.source import Entry, definition, shown
from tests.reference.tables_of_definitions import arguments, class_section

_KINDS = "lamplighter.dags.kinds"
_ASSETS = "lamplighter.assets.asset"
_OF_ALL = {
    "task_id": "Its id in the DAG: up to 200 letters, digits and `. _ ~ -`",
    "dag": "Its DAG; the one whose block is open by default",
}


def page() -> Page:
    """Return the page."""
    made = Page(
        "Authoring",
        "Every name of `from lamplighter import …` with its arguments. Give all of them by name,"
        " apart from ids and names.",
    )
    class_section(made, "lamplighter.dags.dag.DAG")
    made.text(f"Run types: {', '.join(map(code, sorted(RUN_TYPES)))}.")
    made.heading("The decorator dag")
    made.text(paragraphs(definition("lamplighter.dags.dag.dag").doc))
    _tasks(made)
    class_section(made, "lamplighter.dags.groups.TaskGroup")
    class_section(made, "lamplighter.dags.params.Param")
    _function(made, "lamplighter.dags.links.chain")
    class_section(made, f"{_ASSETS}.Asset")
    made.heading("Asset.ref", level=3)
    made.text(paragraphs(definition(f"{_ASSETS}.AssetRef").doc))
    arguments(made, definition(f"{_ASSETS}.AssetRef").arguments(), needed=False)
    for name in ("Dataset", "AssetAlias", "AssetWatcher"):
        class_section(made, f"{_ASSETS}.{name}")
    for name in ("AssetAll", "AssetAny"):
        class_section(made, f"lamplighter.assets.condition.{name}")
    return made


def _tasks(made: Page) -> None:
    made.heading("Options of all tasks")
    made.text("Every kind of task has these, and `default_args` of a DAG or a group may hold them.")
    arguments(made, options(f"{_KINDS.replace('kinds', 'task')}.CommonOptions", common=True))
    rules = ", ".join(map(code, TRIGGER_RULES))
    made.text(f"Trigger rules: {rules}.")
    for kind in KINDS.values():
        found = definition(f"{_KINDS}.{kind.__name__}")
        made.heading(kind.__name__)
        made.text(paragraphs(found.doc))
        made.text(code(f"from lamplighter import {kind.__name__}"))
        given = [
            replace(each, meaning=_OF_ALL[each.name])
            for each in found.arguments()
            if not each.name.startswith("*")
        ]
        own = options(f"{_KINDS}.{kind.__name__.replace('Task', 'Options')}")
        arguments(made, [*given, *own])
        made.text("And the [options of all tasks](#options-of-all-tasks).")


def options(path: str, *, common: bool = False) -> list[Entry]:
    """Return the options of a kind of task, with the defaults that are used."""
    kinds = [COMMON_OPTIONS] if common else [kind.OPTIONS for kind in KINDS.values()]
    known = {name: option for kind in kinds for name, option in kind.items()}
    return [
        Entry(each.name, each.type, shown(known[each.name].default), each.meaning)
        for each in definition(path).fields()
    ]


def _function(made: Page, path: str) -> None:
    found = definition(path)
    made.heading(found.name)
    made.text(paragraphs(found.doc))
    arguments(made, found.arguments())
