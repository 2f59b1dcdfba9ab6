"""The checker of promises about asset events finds each that is broken, and no other."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, AssetAlias
from lamplighter.store.models import AssetEvents, AssetQueue, Assets, Dags, Runs
from lamplighter.store.models.assets import ITSELF
from lamplighter.store.slots import shard_of
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.pause import pause, unpause
from tests.integration.local.planted import plant, pretend_ticks
from tests.tools.definitions import register_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound, violations
from tests.tools.snapshot import Snapshot

NOON = datetime(2026, 1, 5, 12, 0, 5)
A, B = Asset("a", "s3://lake/a"), Asset("b")
X, BY_URI = AssetAlias("x"), Asset.ref(uri="s3://lake/a")
DAGS = (
    DAG("one", schedule=[A]),
    DAG("either", schedule=(A | X)),
    DAG("both", schedule=(A & B)),
    DAG("uri", schedule=[BY_URI]),
)


@pytest.fixture(name="sound", scope="module")
def make_sound() -> Iterator[Snapshot]:
    """Yield a deployment in which two events have reached all who wait for them."""
    with local_stack(at=NOON) as stack:
        register_dags(*DAGS)
        for event_id, aliases in (("e1", ["x"]), ("e2", [])):
            stack.emit("a", event_id=event_id, aliases=aliases)
            stack.run_until_idle()
            stack.clock.advance(timedelta(seconds=1))
        yield Snapshot(stack)


@pytest.fixture(name="stack")
def put_back(sound: Snapshot) -> LocalStack:
    """Return the deployment as it was."""
    return sound.put_back()


def first_run(dag_id: str) -> Runs:
    """Return a run that has events."""
    return min(Runs.query(dag_id), key=lambda run: run.created_at)


def uri_key() -> str:
    """Return the id of the URI that a DAG waits for."""
    (key,) = Assets.get("a", ITSELF).mirrored_uris
    return str(key)


def test_whole_story_is_sound(stack: LocalStack) -> None:
    """Events through an asset, an alias and a URI, runs that ended: nothing is wrong."""
    stack.emit("b", event_id="e3")
    stack.run_until_idle()
    finish_run("one", first_run("one").run_key, state="success")
    assert violations() == []
    require_sound(is_idle=False)


BROKEN: dict[str, tuple[Callable[[], object], str]] = {
    "gap": (
        lambda: AssetEvents("a", "e1").delete(),
        "asset a: no event has the number [1], though 2 were given",
    ),
    "newest event is missing": (
        lambda: AssetEvents("a", "e2").delete(),
        "asset a: no event has the number [2], though 2 were given",
    ),
    "number given twice": (
        lambda: plant(AssetEvents("a", "e2"), seq=1),
        "asset a: several events have the number [1]",
    ),
    "number not given": (
        lambda: plant(AssetEvents("a", "e2"), seq=7),
        "asset a: its numbers go from 1 to 2, but there are events [7]",
    ),
    "event without a number": (
        lambda: plant(AssetEvents("a", "e2"), seq=None),
        "asset a: its numbers go from 1 to 2, but there are events [0]",
    ),
    "asset is gone": (
        lambda: Assets("a", ITSELF).delete(),
        "asset a: there are 2 events of it, but it is not there",
    ),
    "asset without a time": (
        lambda: plant(Assets("a", ITSELF), recorded_at=None),
        "asset a: it does not say when its newest event was recorded",
    ),
    "copy of nothing": (
        lambda: AssetEvents("a", "e1").delete(),
        "asset alias:x: it has copies of events that asset a never had: ['e1']",
    ),
    "reference without a position": (
        lambda: AssetQueue("one", "a").delete(),
        "DAG one has only half a reference to asset a",
    ),
    "position without a reference": (
        lambda: Assets("a", "dag#one").delete(),
        "DAG one has only half a reference to asset a",
    ),
    "events at a URI that nobody waits for": (
        lambda: plant(Assets(uri_key(), ITSELF), has_consumers=None),
        "where nobody wants them",
    ),
    "no events at a URI": (
        lambda: plant(Assets("a", ITSELF), mirrored_uris=None),
        "it is waited for, but does not get the events of asset a",
    ),
    "more consumed than there is": (
        lambda: plant(AssetQueue("one", "a"), consumed_seq=3),
        "DAG one, asset a: it began after 0 and consumed up to 3 of 2",
    ),
    "consumed without a run": (
        lambda: first_run("one").delete(),
        "DAG one, asset a: nobody has had the events after 0 up to 1",
    ),
    "consumed in two runs": (
        lambda: plant(max(Runs.query("one"), key=lambda r: r.created_at), events={"a": [0, 2]}),
        "DAG one, asset a: the events after 0 up to 1 have had two fates",
    ),
    "run without events": (
        lambda: plant(AssetQueue("one", "a"), dropped=[[2, 2, "now", "why"]]),
        "DAG one, asset a: dropped at now has no events: 2 to 2",
    ),
    "more had than consumed": (
        lambda: plant(AssetQueue("one", "a"), consumed_seq=1),
        "DAG one, asset a: events up to 2 have had a fate, and up to 1 are consumed",
    ),
    "once through its asset and once through an alias": (
        lambda: plant(
            max(Runs.query("either"), key=lambda run: run.created_at),
            events={"a": [1, 2], "alias:x": [0, 1]},
        ),
        "DAG either: event e1 of asset a came several times",
    ),
    "in a run and dropped": (
        lambda: plant(AssetQueue("one", "a"), dropped=[[1, 2, "now", "why"]]),
        "DAG one: event e2 of asset a came several times",
    ),
    "unknown to what it waits for": (
        lambda: plant(Dags("both"), asset_condition={"all": ["a", "b", "c"]}),
        "DAG both: it waits for ['c'], which know nothing of it",
    ),
    "lost trigger": (
        lambda: plant(Dags("both"), asset_condition={"any": ["a", "b"]}),
        "DAG both: events of ['a'] are enough for a run, and nobody will look at it",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_promise_is_found(name: str, stack: LocalStack) -> None:
    """Each thing that must never be is named, with the DAG or asset that it is about."""
    break_it, expected = BROKEN[name]
    break_it()
    assert [text for text in violations() if expected in text] != []
    with pytest.raises(AssertionError):
        require_sound()


def test_trigger_is_not_lost_while_someone_will_look(stack: LocalStack) -> None:
    """An asset that is open, a condition that is noted and a message on its way are no loss."""
    plant(Dags("both"), asset_condition={"any": ["a", "b"]})
    assert violations(is_idle=False) == []
    plant(Assets("a", ITSELF), open_shard=1)
    assert violations() == []
    plant(Assets("a", ITSELF), open_shard=None)
    assert len(violations()) == 1


def test_event_that_nobody_hands_on_is_found(stack: LocalStack) -> None:
    """An asset that stays open, with no message on its way and no sweep that helps, is found."""
    plant(Assets("a", ITSELF), open_shard=1)
    stack.clock.advance(timedelta(minutes=10))
    assert violations() == []
    stack.clock.advance(timedelta(minutes=30))
    expected = "has not reached everyone, and nobody will look at it"
    assert [text for text in violations() if expected in text] != []
    assert violations(is_idle=False) == []


def test_event_noted_on_a_dag_that_stays_due_is_found(stack: LocalStack) -> None:
    """A condition that holds, is noted and in the index, and does not become a run, is stuck."""
    since = stack.clock.now()
    plant(
        Dags("both"),
        asset_condition={"any": ["a", "b"]},
        asset_condition_met_at=since,
        next_run_create_after=since,
        due_shard=shard_of("both", stack.settings.due_shards),
    )
    assert violations() == []
    pretend_ticks(stack, minutes=20)
    assert [text for text in violations() if f"DAG both: it has been due since {since}" in text]


def test_events_may_expire_from_the_oldest_on(stack: LocalStack) -> None:
    """Of an asset that is old enough the first events may be gone, but none in between."""
    for seq in range(3, 6):
        stack.emit("a", event_id=f"e{seq}")
    stack.run_until_idle()
    stack.clock.advance(timedelta(days=60))
    stack.emit("a", event_id="e6")
    stack.run_until_idle()
    stack.clock.advance(timedelta(days=31))
    AssetEvents("a", "e1").delete()
    AssetEvents("a", "e3").delete()
    assert violations() == []
    AssetEvents("a", "e6").delete()
    assert [text for text in violations() if text.startswith("asset a: no event")] != []


def test_dropped_events_are_accounted_for(stack: LocalStack) -> None:
    """What un-pausing dropped is neither lost nor pending."""
    register_dags(*DAGS, DAG("latest", schedule=[A], catchup=False))
    pause("latest")
    stack.emit("a", event_id="e3")
    stack.run_until_idle()
    unpause("latest")
    stack.run_until_idle()
    assert [queue.dropped[0][:2] for queue in AssetQueue.query("latest")] == [[2, 3]]
    assert violations() == []


def test_earlier_reference_is_another_story(stack: LocalStack) -> None:
    """What a DAG had before it stopped to wait for an asset does not count when it begins again."""
    rest = DAGS[1:]
    register_dags(DAG("one", schedule=[B]), *rest)
    stack.emit("a", event_id="e3")
    stack.run_until_idle()
    register_dags(*DAGS)
    stack.emit("a", event_id="e4")
    stack.run_until_idle()
    assert [run.events for run in Runs.query("one")][-1] == {"a": [3, 4]}
    assert violations() == []
