"""Seen items of a source: what was there does not fire again, what is new does."""

import pytest
from pendulum import DateTime, datetime

from lamplighter.errors import DefinitionError
from lamplighter.streams import polling
from lamplighter.streams.outside import MAX_ITEMS
from lamplighter.streams.polling import new_items, to_bytes
from lamplighter.triggers.sources import SourceItem

SINCE = datetime(2026, 1, 1, 12, 0, 5, 400_000)


def seen(name: str, version: str = "1", modified_at: DateTime | None = None) -> SourceItem:
    """Return something that was there."""
    return SourceItem(name, version, modified_at=modified_at)


def news(remembered: bytes | None, *items: SourceItem) -> list[str]:
    """Return the names of what is new."""
    return [one.name for one in new_items(items, remembered, since=SINCE)]


def test_first_look_finds_what_came_since_the_watcher() -> None:
    """What was there before is no news, and neither is what does not say when it came."""
    before, after = SINCE.subtract(seconds=1), SINCE.add(seconds=1)
    things = [seen("old", modified_at=before), seen("new", modified_at=after), seen("silent")]
    assert news(None, *things) == ["new"]


def test_first_look_counts_the_second_in_which_the_watcher_came() -> None:
    """A source that tells whole seconds means any instant of that second."""
    assert news(None, seen("a", modified_at=SINCE.start_of("second"))) == ["a"]


def test_thing_that_stays_is_known() -> None:
    """The same name with the same version fires once."""
    assert news(to_bytes([seen("a"), seen("b")]), seen("b"), seen("a")) == []


def test_thing_that_changes_is_new() -> None:
    """Another version is another item."""
    assert news(to_bytes([seen("a", "1")]), seen("a", "2"), seen("b")) == ["a", "b"]


def test_thing_that_was_not_stored_is_new_again() -> None:
    """What someone failed at is left out, and told the next time."""
    assert news(to_bytes([seen("a")]), seen("a"), seen("failed")) == ["failed"]


def test_thing_that_went_away_is_forgotten() -> None:
    """What is stored is what is there, so that it does not grow, and what comes back is new."""
    assert news(to_bytes([seen("b")]), seen("a"), seen("b")) == ["a"]


def test_nothing_there_is_remembered_as_such() -> None:
    """A source that was empty is not one that was never polled: whatever comes then is new."""
    assert news(to_bytes([]), seen("a")) == ["a"]


def test_most_items_fit_into_a_row() -> None:
    """As much as may be there takes less than DynamoDB's 400 KB."""
    assert MAX_ITEMS * polling._HASH_BYTES < 390_000


def test_more_than_the_most_is_refused() -> None:
    """Beyond that a source cannot be remembered; the error says what to do."""
    too_many = [seen("a")] * (MAX_ITEMS + 1)
    with pytest.raises(DefinitionError, match=r"40,001 items, .* watch a narrower prefix"):
        news(None, *too_many)
    assert news(None, *too_many[1:]) == []
