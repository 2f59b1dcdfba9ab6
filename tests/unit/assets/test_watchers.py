"""Watchers and triggers: who may watch an asset, and the contract of a trigger."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from lamplighter import Asset, AssetWatcher
from lamplighter.errors import DefinitionError
from lamplighter.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent


class InboxTrigger(BaseEventTrigger):
    """A trigger that reports events."""

    def __init__(self, *, folder: str = "in", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = folder

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "timetables.inbox.InboxTrigger", {"folder": self.folder}


class StateTrigger(BaseTrigger):
    """A trigger that reports a state: a file that is there stays there."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "timetables.state.StateTrigger", {}


@pytest.mark.parametrize(
    "trigger",
    [StateTrigger(), InboxTrigger, None, "inbox", object()],
    ids=lambda t: type(t).__name__,
)
def test_watcher_with_other_trigger_is_refused(trigger: Any) -> None:
    """Only event triggers watch assets; the error names the watcher and is a ValueError."""
    with pytest.raises(ValueError, match=r"watcher 'inbox'.*BaseEventTrigger"):
        AssetWatcher("inbox", trigger)


@pytest.mark.parametrize("name", ["", "  ", None, 5], ids=repr)
def test_watcher_without_name_is_refused(name: Any) -> None:
    """A watcher has a name."""
    with pytest.raises(DefinitionError, match="watcher: the name"):
        AssetWatcher(name, InboxTrigger())


def test_watcher_with_event_trigger_is_kept() -> None:
    """An asset keeps its watchers, in order."""
    first, second = AssetWatcher("a", InboxTrigger()), AssetWatcher("b", InboxTrigger())
    assert Asset("orders", watchers=[first, second]).watchers == (first, second)


@pytest.mark.parametrize("watcher", [InboxTrigger(), "inbox", None], ids=lambda w: type(w).__name__)
def test_asset_watched_by_other_thing_is_refused(watcher: Any) -> None:
    """A watcher is an AssetWatcher, not the trigger alone; the error names the asset."""
    with pytest.raises(DefinitionError, match=r"asset 'orders'.*AssetWatcher"):
        Asset("orders", watchers=[watcher])


def test_equality_of_watchers_is_by_content() -> None:
    """Two watchers are equal when name, kind of trigger and its arguments are."""
    watcher = AssetWatcher("inbox", InboxTrigger(folder="in"))
    assert watcher == AssetWatcher("inbox", InboxTrigger(folder="in"))
    assert hash(watcher) == hash(AssetWatcher("inbox", InboxTrigger(folder="in")))
    assert watcher != AssetWatcher("inbox", InboxTrigger(folder="out"))
    assert watcher != AssetWatcher("outbox", InboxTrigger(folder="in"))


def test_equality_of_triggers_needs_type() -> None:
    """Triggers of two types are not equal."""
    assert InboxTrigger() != StateTrigger()
    assert InboxTrigger() != "inbox"


def test_trigger_takes_arguments_of_subclasses() -> None:
    """A subclass may pass any keyword on to the base class, as in Airflow."""
    assert InboxTrigger(folder="in", poke_interval=5).folder == "in"


@pytest.mark.parametrize("method", ["serialize", "run"])
def test_trigger_without_method_names_class(method: str) -> None:
    """What a subclass must define is named together with the subclass."""

    class EmptyTrigger(BaseEventTrigger):
        pass

    with pytest.raises(NotImplementedError, match=f"EmptyTrigger.*{method}"):
        getattr(EmptyTrigger(), method)()


def test_trigger_shares_no_stream_at_first() -> None:
    """A trigger has a source of its own unless it says otherwise."""
    assert InboxTrigger().shared_stream_key() is None


async def nothing() -> AsyncIterator[Any]:
    """Yield nothing: a stream without events."""
    for event in list[Any]():
        yield event


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: InboxTrigger.open_shared_stream({}),
        lambda: InboxTrigger.create_shared_stream_producer({}),
        lambda: InboxTrigger().filter_shared_stream(nothing()),
    ],
    ids=["open", "produce", "filter"],
)
def test_trigger_without_shared_stream_says_so(attempt: Any) -> None:
    """Parts of a shared stream that a trigger lacks are named together with its class."""
    with pytest.raises(NotImplementedError, match="InboxTrigger"):
        attempt()


def test_equality_of_events_is_by_payload() -> None:
    """Two events with one payload are equal, and can be told apart from other things."""
    assert TriggerEvent({"key": [1]}) == TriggerEvent({"key": [1]})
    assert hash(TriggerEvent({"key": [1]})) == hash(TriggerEvent({"key": [1]}))
    assert TriggerEvent(1) != TriggerEvent(2)
    assert TriggerEvent(1) != 1
