"""The page about triggers: the built-in ones, and what an own one is made of."""

from tests.reference import examples
from tests.reference.code_of import block_of
from tests.reference.markdown import Page, paragraphs
from tests.reference.source import definition
from tests.reference.tables_of_definitions import arguments, fields, methods

_ROOT = "lamplighter.triggers"
_SOURCES = f"{_ROOT}.sources"
_STREAM = f"{_ROOT}.shared_stream.producer"


def page() -> Page:
    """Return the page."""
    made = Page(
        "Triggers",
        "What an [AssetWatcher](authoring.md#assetwatcher) watches a source with. Each event of"
        " a trigger becomes an"
        " event of the asset, with the payload in its `extra`.",
    )
    for example in examples.TRIGGERS:
        trigger = type(example().trigger)
        found = definition(f"{_ROOT}.aws.{trigger.__name__}")
        made.heading(found.name)
        made.text(paragraphs(found.doc))
        has_own = not found.name.startswith("S3")
        described = found if has_own else definition(f"{_ROOT}.aws._ObjectTrigger")
        arguments(made, described.arguments())
        made.text(example.__doc__ or "")
        made.block("python", block_of(example, "watcher"))
    made.heading("Writing your own")
    made.text(
        "Subclass one of these in the bundle. All arguments of a trigger must be JSON values."
    )
    for path in (
        f"{_SOURCES}.PollingTrigger",
        f"{_SOURCES}.QueueTrigger",
        f"{_ROOT}.base.BaseEventTrigger",
    ):
        found = definition(path)
        made.heading(found.name)
        made.text(paragraphs(found.doc))
        methods(made, found)
    made.text("Queue and polling triggers also have:")
    methods(made, definition(f"{_SOURCES}._FedTrigger"))
    for name in ("SourceItem", "QueueMessage"):
        found = definition(f"{_SOURCES}.{name}")
        made.heading(name)
        made.text(paragraphs(found.doc))
        fields(made, found.fields())
    found = definition(f"{_ROOT}.base.TriggerEvent")
    made.heading(found.name)
    made.text(paragraphs(found.doc))
    _shared_streams(made)
    return made


def _shared_streams(made: Page) -> None:
    found = definition(f"{_STREAM}.SharedStreamProducer")
    made.heading(found.name)
    made.text(paragraphs(found.doc))
    methods(made, found)
    for name in ("AdvanceItem", "AdvanceOutcome"):
        found = definition(f"{_STREAM}.{name}")
        made.heading(name)
        made.text(paragraphs(found.doc))
        fields(made, found.fields())
    found = definition(f"{_ROOT}.shared_stream.subscriber.reject_shared_stream_event")
    made.heading(found.name)
    made.text(paragraphs(found.doc))
