"""Watchers as their rows say: which are the same, and who shares a source."""

from typing import Any

from pendulum import DateTime, datetime

from lamplighter.store.models import Catalog
from lamplighter.streams.watchers import by_stream, watchers_in

NOON = datetime(2026, 1, 1, 12)


def row(
    dag_id: str, name: str = "w", *, since: DateTime = NOON, stream: str | None = None, **data: Any
) -> Catalog:
    """Return the row of a watcher of the asset `a`."""
    trigger = {"type": "my.Trigger", "data": data, "stream": stream}
    return Catalog(
        "watchers#raw",
        f"{dag_id}/a/{name}",
        watcher={"asset": "a", "name": name, "trigger": trigger},
        bundle="bundle",
        bundle_version="v1",
        created_at=since,
    )


def test_watcher_that_two_dags_declare_is_one() -> None:
    """It fires once for both, and has watched since the first of them came."""
    (one,) = watchers_in([row("y", since=NOON.subtract(hours=1), n=1), row("x", n=1)])
    assert (one.dag_ids, one.created_at) == (("x", "y"), NOON.subtract(hours=1))
    assert one.title == "watcher 'w' of asset 'a'"


def test_watchers_with_other_triggers_are_two() -> None:
    """The same name does not make them one: each makes its own events."""
    first, second = watchers_in([row("x", n=1), row("y", n=2)])
    assert first.id != second.id
    assert {first.dag_ids, second.dag_ids} == {("x",), ("y",)}


def test_watcher_id_does_not_depend_on_the_bundles_version() -> None:
    """A push of something else lets no event fire twice."""
    later = row("x", n=1)
    later.bundle_version = "v2"
    (one,), (other,) = watchers_in([row("x", n=1)]), watchers_in([later])
    assert one.id == other.id


def test_watchers_of_one_stream_are_together() -> None:
    """Equal keys share a source; whoever has none reads by itself."""
    rows = [row("x", "1", stream="s"), row("x", "2", stream="s"), row("x", "3"), row("x", "4")]
    together = sorted(
        [one.name for one in group] for group in by_stream(watchers_in(rows)).values()
    )
    assert together == [["1", "2"], ["3"], ["4"]]
