"""What is said of pushes, given the rows of a bundle; and what differs between two archives."""

from typing import Any

import pytest

from lamplighter.store.models import Catalog
from lamplighter_operations import push_history
from lamplighter_operations.bundle_objects import Changes, Manifest, changes_between
from lamplighter_operations.push_history import BundleHistory, PushRecord
from lamplighter_operations.push_notes import Origin


def state(number: int, bundle: dict[str, int], *, outcome: str | None = None) -> str:
    """Return the state of a push of a bundle with these columns."""
    columns: dict[str, Any] = dict(bundle)
    record = Catalog("pushes#shop", "01", push=number, outcome=outcome, bundle_version="a")
    return push_history._view(record, Catalog("bundle", "shop", **columns)).state


@pytest.mark.parametrize(
    ("number", "bundle", "expected"),
    [
        (1, {"pushed": 1}, "announced"),
        (1, {"pushed": 1, "registering": 1}, "registering"),
        (1, {"pushed": 1, "registering": 1, "registered": 1}, "registered"),
        (1, {"pushed": 2, "registering": 2}, "superseded"),
        (2, {"pushed": 2, "registering": 1, "registered": 1}, "announced"),
    ],
)
def test_state_without_an_outcome_is_that_of_the_bundle(
    number: int, bundle: dict[str, int], expected: str
) -> None:
    """Until `register` has noted an outcome, numbers tell."""
    assert state(number, bundle) == expected


@pytest.mark.parametrize("outcome", ["registered", "unreadable"])
def test_outcome_that_was_noted_stays(outcome: str) -> None:
    """Whatever came after it."""
    assert state(1, {"registering": 3, "registered": 3}, outcome=outcome) == outcome


def pushed(number: int, version: str, state: str = "registered", current: int = 0) -> PushRecord:
    """Return a push."""
    return PushRecord(
        bundle="shop", push=number, state=state, is_current=number == current, version=version
    )


def history(*versions: str, unreadable: int = 0, current: int = 0) -> BundleHistory:
    """Return a history of pushes of these archives, the last of which is in force by default."""
    current = current or len(versions)
    found = [
        pushed(at, version, "unreadable" if at == unreadable else "registered", current)
        for at, version in enumerate(versions, start=1)
    ]
    return BundleHistory(bundle="shop", newest=len(versions), pushes=found[::-1])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (history("a"), None),
        (history("a", "b"), 1),
        (history("a", "b", "b"), 1),
        (history("a", "b", "a"), 2),
        (history("a", "b", "c", unreadable=2), 1),
        (history("a", "b", "c", current=2), 1),
        (history(), None),
    ],
)
def test_push_before_is_the_newest_with_another_archive(
    given: BundleHistory, expected: int | None
) -> None:
    """Only pushes that were registered before the current one are candidates."""
    found = given.before_current()
    assert (None if found is None else found.push) == expected


def test_changes_between_archives_are_sorted_names() -> None:
    """Files are compared by digest, DAGs by schedule."""
    before = Manifest({"b": "1", "c": "1", "a": "1"}, {"x": "@daily", "y": "@daily", "z": "None"})
    after = Manifest({"c": "2", "d": "1", "a": "1"}, {"x": "@hourly", "w": "None", "z": "None"})
    assert changes_between(before, after) == Changes(
        dags_added={"w": "None"},
        dags_removed={"y": "@daily"},
        schedules_changed={"x": ("@daily", "@hourly")},
        files_added=["d"],
        files_removed=["b"],
        files_changed=["c"],
    )
    assert changes_between(before, before) == Changes(
        files_added=[], files_removed=[], files_changed=[]
    )


def test_origin_is_stored_without_what_it_does_not_have() -> None:
    """Columns that a newer version may add are ignored."""
    origin = Origin("rollback", 3)
    assert origin.as_json() == {"kind": "rollback", "push": 3}
    assert Origin.from_json({**origin.as_json(), "planet": "earth"}) == origin
    assert Origin.from_json(None) == Origin()
    assert [each.describe() for each in (Origin(), origin, Origin("promotion", 2, "dev"))] == [
        "pushed",
        "rolled back to push 3",
        "promoted from dev, push 2",
    ]
