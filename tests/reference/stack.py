"""The page about the construct: its props, what it offers to an app, and the stack's outputs."""

from dataclasses import fields

from lamplighter.settings import ChosenSettings, Settings, output_key
from lamplighter.topology import URL_SETTINGS
from tests.reference.markdown import Page, code, paragraphs, sentence
from tests.reference.settings import meaning_of_flag
from tests.reference.source import definition
from tests.reference.tables_of_definitions import arguments
from tests.reference.tables_of_docs import table_with

PROPS_HEADER = "| prop | flag | |"
_CONSTRUCT = "lamplighter_infra.construct.Lamplighter"
_FLAG_OF = {"vpc": "vpc_id", "key": "kms_key_arn"}


def page() -> Page:
    """Return the page."""
    made = Page(
        "Stack",
        "The construct, what it offers to the rest of an app, and the outputs of its stack.",
    )
    construct = definition(_CONSTRUCT)
    made.heading(construct.name)
    made.text(paragraphs(construct.doc))
    made.text(code("from lamplighter_infra import Lamplighter"))
    arguments(
        made,
        (each for each in construct.arguments() if each.name in {"stage", "config", "has_layers"}),
    )
    _props(made)
    made.heading("Attributes", level=3)
    found = list(construct.methods())
    made.table(
        ("attribute", "meaning"),
        ((code(each.name), sentence(each.doc)) for each in found if each.is_property),
    )
    made.heading("Grants", level=3)
    made.table(
        ("method", "meaning"),
        ((code(each.signature), sentence(each.doc)) for each in found if not each.is_property),
    )
    stack = definition("lamplighter_infra.stack.LamplighterStack")
    made.heading(stack.name)
    made.text(paragraphs(stack.doc))
    _outputs(made)
    return made


def _props(made: Page) -> None:
    made.heading("Props", level=3)
    made.text("All are optional, and have the defaults of the [flags](settings.md#flags).")
    special = table_with(PROPS_HEADER).meanings()
    rows = []
    for each in definition("lamplighter_infra.props.Props").fields():
        is_mapping = each.name == "settings"
        meaning = "" if is_mapping else meaning_of_flag(_FLAG_OF.get(each.name, each.name))
        note = special.get(each.name, "")
        said = " ".join(filter(None, (meaning, note)))
        rows.append((code(each.name), code(each.type), said))
    made.table(("prop", "type", "meaning"), rows)


def _outputs(made: Page) -> None:
    made.heading("Outputs")
    made.text(
        "The command line finds a deployment by them. Besides these, every"
        " [setting](settings.md#settings) is an"
        f" output, such as {code(output_key('run_retention_days'))}. An output without a value"
        " is left out."
    )
    said = {
        each.name: each.meaning for each in definition("lamplighter.settings.Settings").fields()
    }
    own = {each.name for each in fields(Settings)} - {each.name for each in fields(ChosenSettings)}
    made.table(
        ("output", "meaning"),
        (
            *(
                (code(output_key(each.name)), sentence(said[each.name]))
                for each in fields(Settings)
                if each.name in own - {"queue_urls"}
            ),
            *(
                (code(output_key(name)), f"The URL of the queue {code(queue)}.")
                for queue, name in URL_SETTINGS.items()
            ),
        ),
    )
