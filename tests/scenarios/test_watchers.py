"""Watchers of a queue, through the real function: who gets what, what comes again, what is kept."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetWatcher, aws, runtime
from lamplighter.events.dead_letters import DeadLetter, dead_letters, make_visible, replay
from lamplighter.store.models import AssetEvents, Catalog
from lamplighter.streams import watch
from lamplighter.streams.delivery_rounds import WatchReport
from lamplighter_local import handlers
from lamplighter_local.deliveries import deliver
from lamplighter_local.emulator.moto_memory import queue_at
from lamplighter_local.handlers import LambdaContext
from lamplighter_local.stack import LocalStack
from tests.integration.events.batches import Record, received
from tests.tools.call_counter import counted_calls
from tests.tools.invariants.tables import require_sound
from tests.unit.streams.scripted import Scripted

# A busy machine must not make a watcher look as if it hung.
pytestmark = pytest.mark.usefixtures("jumping_loops")

Scripts = Mapping[str, Mapping[str, str]]


def watched(scripts: Scripts, *, queue: str = "raw") -> DAG:
    """Return a DAG that waits for assets, each with a watcher of its name that has a script."""
    assets = [
        Asset(name, watchers=[AssetWatcher(name, Scripted(queue=queue, script=dict(script)))])
        for name, script in scripts.items()
    ]
    return DAG("dag", schedule=assets)


def send(stack: LocalStack, *names: str, queue: str = "raw") -> list[str]:
    """Send messages; on a FIFO queue the first letter is the group. Return their ids."""
    url, ids = stack.watched_queue(queue), []
    for name in names:
        lane = {"MessageGroupId": name[0], "MessageDeduplicationId": name}
        answer = aws.client("sqs").send_message(
            QueueUrl=url,
            MessageBody=json.dumps({"name": name}),
            **(lane if queue.endswith(".fifo") else {}),
        )
        ids.append(answer["MessageId"])
    return ids


def names_of(records: list[Record], ids: list[str]) -> list[str]:
    """Return the names of the messages that have these ids."""
    by_id = {record["messageId"]: json.loads(record["body"])["name"] for record in records}
    return sorted(by_id[one] for one in ids)


def watch_once(stack: LocalStack, *, queue: str = "raw", seconds: int = 55) -> list[str]:
    """Hand a batch of a queue to the function; return the names of what it wants to see again."""
    records = received(stack.watched_queue(queue))
    answer = handlers.call("watch", {"Records": records}, LambdaContext(seconds * 1000 + 5000))
    return names_of(records, [item["itemIdentifier"] for item in answer["batchItemFailures"]])


def recorded() -> dict[str, list[str]]:
    """Return by asset what its events say, in the order in which they were numbered."""
    rows = sorted(AssetEvents.scan(consistent_read=True), key=lambda row: row.seq or 0)
    found: dict[str, list[str]] = {}
    for row in rows:
        assert row.extra["from_trigger"] is True
        found.setdefault(row.asset_id, []).append(row.extra["payload"])
    return found


def letters() -> list[DeadLetter]:
    """Return the dead letters, which stay."""
    found = dead_letters(limit=100)
    make_visible(found)
    return found


def kept() -> dict[str, str]:
    """Return the names of the messages among the dead letters, with the reasons."""
    return {json.loads(letter.body)["name"]: letter.reason for letter in letters()}


@contextmanager
def impatient(stack: LocalStack, **more: Any) -> Iterator[None]:
    """Let a watcher that takes longer than a second be given up, until the block ends."""
    made = replace(stack.settings, shared_stream_ack_timeout=1, **more)
    with patch.object(stack.runtime, "settings", made):
        yield


TWENTY: Scripts = {
    **{f"takes{at}": {"else": "1"} for at in range(8)},
    **{f"skips{at}": {} for at in range(4)},
    "picks0": {"h1": "2"},
    "picks1": {"g3": "slow", "i1": "1"},
    "refuses0": {"h1": "reject", "else": "1"},
    "refuses1": {"h1": "reject", "g1": "reject"},
    "returns": {"g1": "return", "h1": "made then return", "i1": "1"},
    "fails0": {"g2": "raise", "else": "1"},
    "fails1": {"g2": "made then raise", "i2": "raise"},
    "hangs": {"i2": "hang", "else": "1"},
}
TEN = ("g1", "h1", "g2", "g3", "h2", "i1", "h3", "i2", "i3", "h4")


# Who gets what, and what comes again.


def test_batch_for_twenty_watchers_becomes_what_each_of_them_says(stack: LocalStack) -> None:
    """Exactly what someone failed at or did not read comes again; all others had everything."""
    assert len(TWENTY) == 20
    stack.push_dags([watched(TWENTY)], bundle="objects")
    send(stack, *TEN)
    with impatient(stack):
        # Behind what it hangs at, one of them has read nothing.
        assert watch_once(stack) == ["g2", "h4", "i2", "i3"]
    assert kept() == {
        "g1": "rejected by watcher 'refuses1' of asset 'refuses1': g1 is bad",
        "h1": "rejected by watcher 'refuses0' of asset 'refuses0': h1 is bad; "
        "rejected by watcher 'refuses1' of asset 'refuses1': h1 is bad",
    }
    stack.run_until_idle()
    found = {name: sorted(payloads) for name, payloads in recorded().items()}
    everything = sorted(f"{name}.0" for name in TEN)
    assert {found[f"takes{at}"] == everything for at in range(8)} == {True}
    assert {name: found[name] for name in found if not name.startswith("takes")} == {
        "picks0": ["h1.0", "h1.1"],
        "picks1": ["g3.0", "i1.0"],
        "refuses0": sorted(set(everything) - {"h1.0"}),
        "returns": ["h1.0", "i1.0"],
        "fails0": sorted(set(everything) - {"g2.0"}),
        "fails1": ["g2.0"],
        "hangs": ["g1.0", "g2.0", "g3.0", "h1.0", "h2.0", "h3.0", "i1.0"],
    }
    require_sound()


def test_fifo_batch_for_twenty_watchers_keeps_the_order_of_its_groups(stack: LocalStack) -> None:
    """Nothing after a failed message of its group is acknowledged; other groups go on."""
    stack.push_dags([watched(TWENTY, queue="raw.fifo")], bundle="objects")
    send(stack, *TEN, queue="raw.fifo")
    with impatient(stack):
        # One fails at g2, another at i2, and a third hangs there and has read nothing behind it.
        assert watch_once(stack, queue="raw.fifo") == ["g2", "g3", "h4", "i2", "i3"]
    stack.run_until_idle()
    found = recorded()
    everything = [f"{name}.0" for name in TEN]
    # Events of one group are in its order, for everyone.
    for payloads in found.values():
        for group in "ghi":
            mine = [payload for payload in payloads if payload.startswith(group)]
            assert mine == sorted(mine)
    assert sorted(found["takes0"]) == sorted(found["takes7"]) == sorted(everything)
    # Who fails at a message does not see those behind it in its group before that one.
    assert set(found["fails0"]) == set(everything) - {"g2.0", "g3.0"}
    require_sound()


def test_fifo_messages_that_come_again_are_finished_in_their_order(stack: LocalStack) -> None:
    """When what failed is mended, each group goes on where it stopped, and nothing fires twice."""
    scripts = {"fails": {"g2": "raise", "else": "1"}, "takes": {"else": "1"}}
    stack.push_dags([watched(scripts, queue="raw.fifo")], bundle="objects")
    send(stack, "g1", "g2", "h1", "g3", "g4", queue="raw.fifo")
    stack.run_until_idle()
    assert recorded()["fails"] == ["g1.0", "h1.0"]
    # The same watcher with other code, and not another one.
    with patch.object(Scripted, "__init__", _mended):
        stack.advance(minutes=5)
    assert recorded()["fails"] == ["g1.0", "h1.0", "g2.0", "g3.0", "g4.0"]
    taken = recorded()["takes"]
    assert [name for name in taken if name.startswith("g")] == ["g1.0", "g2.0", "g3.0", "g4.0"]
    assert sorted(taken) == ["g1.0", "g2.0", "g3.0", "g4.0", "h1.0"]
    require_sound()


def _mended(trigger: Scripted, *, queue: str, script: dict[str, str]) -> None:
    trigger.queue, trigger.script = queue, {**script, "g2": "1"}


def test_mended_watchers_get_what_they_missed_and_nobody_anything_twice(stack: LocalStack) -> None:
    """A push that mends some watchers lets what comes again be finished; events fire once."""
    stack.push_dags([watched(TWENTY)], bundle="objects")
    send(stack, *TEN)
    with impatient(stack):
        watch_once(stack)
        url = stack.watched_queue("raw")
        for message in list(queue_at(url)._messages):  # as Lambda does with what did not fail
            if json.loads(message.body)["name"] not in {"g2", "h4", "i2", "i3"}:
                queue_at(url)._messages.remove(message)
    stack.run_until_idle()
    mended = {**TWENTY, "fails0": {"else": "1"}, "fails1": {}, "hangs": {"else": "1"}}
    stack.push_dags([watched(mended)], bundle="objects", until_idle=False)
    stack.advance(minutes=5)
    found = recorded()
    everything = sorted(f"{name}.0" for name in TEN)
    assert sorted(found["takes3"]) == everything
    # These are others now, and get what comes again from the beginning.
    assert {"g2.0"} <= set(found["fails0"])
    assert {"i2.0", "i3.0", "h4.0"} <= set(found["hangs"])
    assert queue_at(url)._messages == []
    require_sound()


def test_watcher_without_time_lets_everything_come_again(stack: LocalStack) -> None:
    """A function that is called with nothing left answers, and sends nothing."""
    stack.push_dags([watched({"a": {"else": "1"}})], bundle="objects")
    send(stack, "m1", "m2")
    assert watch_once(stack, seconds=0) == ["m1", "m2"]
    stack.run_until_idle()
    assert recorded() == {}


def test_watcher_that_cannot_be_built_keeps_others_going(stack: LocalStack) -> None:
    """Nothing is acknowledged while it is broken, and nobody else waits for it."""
    stack.push_dags([watched({"sound": {"else": "1"}, "broken": {}})], bundle="objects")
    (row,) = [row for row in Catalog.query("watchers#raw") if "broken" in row.id]
    row.watcher = {**row.watcher, "trigger": {**row.watcher["trigger"], "data": {"no": "such"}}}
    row.save()
    send(stack, "m1")
    assert watch_once(stack) == ["m1"]
    stack.run_until_idle()
    assert recorded() == {"sound": ["m1.0"]}


# What it costs.


def test_many_watchers_of_a_queue_share_one_reading_of_it(stack: LocalStack) -> None:
    """Twenty-five watchers cost one receive and one query, and a send for each ten events."""
    scripts = {f"a{at}": {"m1": "1" if at < 20 else "skip"} for at in range(25)}
    stack.push_dags([watched(scripts)], bundle="objects")
    send(stack, "m1")
    with counted_calls() as calls:
        deliver(stack.watched_queue("raw"), "watch", stack.call)
    # The second query is for those that are parked, of which there is one list.
    assert (calls["ReceiveMessage"], calls["Query"], calls["SendMessageBatch"]) == (1, 2, 2)
    # Whoever has fired is counted, and nobody else.
    assert calls["UpdateItem"] <= 3 * 20
    assert set(calls) == {
        "ReceiveMessage",
        "Query",
        "SendMessageBatch",
        "UpdateItem",
        "DeleteMessage",
    }


def test_log_says_once_who_shares_a_stream(
    stack: LocalStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the level that functions have: the key, and the watchers that one reading serves."""
    stack.push_dags([watched({"a": {"else": "1"}, "b": {}})], bundle="objects")
    send(stack, "m1", "m2")
    deliver(stack.watched_queue("raw"), "watch", stack.call)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    started = [line for line in lines if line["message"].startswith("Shared stream group started")]
    assert [(line["message"], line["watchers"]) for line in started] == [
        ("Shared stream group started key=('queue', 'raw')", ["a/a", "b/b"])
    ]


# What nobody takes.


def test_message_that_always_fails_is_given_up_after_a_day(stack: LocalStack) -> None:
    """It comes again until it is too old; those round it are done, and fire once."""
    stack.push_dags(
        [watched({"fails": {"m2": "raise", "else": "1"}, "takes": {"else": "1"}})],
        bundle="objects",
    )
    send(stack, "m1", "m2", "m3")
    stack.advance(hours=25)
    assert queue_at(stack.watched_queue("raw"))._messages == []
    (letter,) = letters()
    assert json.loads(letter.body) == {"name": "m2"}
    assert {name: sorted(found) for name, found in recorded().items()} == {
        "fails": ["m1.0", "m3.0"],
        "takes": ["m1.0", "m2.0", "m3.0"],
    }


def test_queue_that_nobody_watches_any_more_gives_dead_letters(stack: LocalStack) -> None:
    """What still comes is kept with the reason, and not lost."""
    stack.push_dags([watched({"a": {"else": "1"}})], bundle="objects")
    stack.push_dags([DAG("dag", schedule=[Asset("a")])], bundle="objects")
    send(stack, "m1")
    stack.run_until_idle()
    assert kept() == {"m1": "no watcher reads queue 'raw'"}
    assert queue_at(stack.watched_queue("raw"))._messages == []


@pytest.mark.parametrize("queue", ["raw", "raw.fifo"])
def test_replayed_letter_goes_back_to_its_queue_and_doubles_nothing(
    stack: LocalStack, queue: str
) -> None:
    """When its watcher is mended, a letter is sent again; who took it before takes it as known."""
    scripts = {"refuses": {"m1": "reject"}, "takes": {"else": "2"}}
    stack.push_dags([watched(scripts, queue=queue)], bundle="objects")
    send(stack, "m1", queue=queue)
    stack.run_until_idle()
    (letter,) = letters()
    assert (letter.lane, letter.queue_arn) == (
        "m" if queue.endswith("fifo") else None,
        f"arn:aws:sqs:us-east-1:123456789012:{queue}",
    )
    mended = {**scripts, "refuses": {"m1": "1"}}
    stack.push_dags([watched(mended, queue=queue)], bundle="objects")
    for one in dead_letters(limit=10):
        replay(one)
    stack.run_until_idle()
    assert recorded() == {"takes": ["m1.0", "m1.1"], "refuses": ["m1.0"]}
    assert letters() == []
    require_sound()


@pytest.mark.interferes
def test_letter_that_cannot_be_kept_comes_again(stack: LocalStack) -> None:
    """A refused message is acknowledged only when it lies among the dead."""
    stack.push_dags([watched({"a": {"m1": "reject", "m2": "1"}})], bundle="objects")
    send(stack, "m1", "m2")
    urls = stack.settings.queue_urls | {"sources-dlq": "https://no.such/queue"}
    with runtime.using(settings=replace(stack.settings, queue_urls=urls)):
        assert watch_once(stack) == ["m1"]
    assert kept() == {}


# What comes strangely.


def test_same_message_twice_in_a_batch_fires_once(stack: LocalStack) -> None:
    """A standard queue may deliver a message twice at once."""
    stack.push_dags([watched({"a": {"else": "1"}})], bundle="objects")
    send(stack, "m1")
    records = received(stack.watched_queue("raw"))
    assert handlers.call("watch", {"Records": records * 2}) == {"batchItemFailures": []}
    stack.run_until_idle()
    assert recorded() == {"a": ["m1.0"]}


def test_two_messages_with_the_same_content_fire_twice(stack: LocalStack) -> None:
    """Who sends something twice means it."""
    stack.push_dags([watched({"a": {"else": "1"}})], bundle="objects")
    send(stack, "m1", "m1")
    stack.run_until_idle()
    assert recorded() == {"a": ["m1.0", "m1.0"]}


def test_message_that_is_no_json_fails_only_for_those_who_need_it(stack: LocalStack) -> None:
    """What triggers make of it is their business; here reading its name raises."""
    stack.push_dags([watched({"a": {"else": "1"}})], bundle="objects")
    url = stack.watched_queue("raw")
    aws.client("sqs").send_message(QueueUrl=url, MessageBody="no JSON")
    send(stack, "m1")
    stack.run_until_idle()
    assert recorded() == {"a": ["m1.0"]}
    assert [message.body for message in queue_at(url)._messages] == ["no JSON"]


def test_empty_batch_is_answered(stack: LocalStack) -> None:
    """There is nothing to do, and nothing to complain about."""
    assert stack.settings.bucket
    with patch.object(watch.log, "exception") as complain:
        assert handlers.call("watch", {"Records": []}) == {"batchItemFailures": []}
    complain.assert_not_called()


def test_batch_whose_watchers_cannot_be_read_comes_again(stack: LocalStack) -> None:
    """A table that does not answer is nobody's fault, and nothing is lost for it."""
    stack.push_dags([watched({"a": {"else": "1"}})], bundle="objects")
    send(stack, "m1", "m2")
    with patch.object(watch, "read_watchers", side_effect=ConnectionError):
        assert watch_once(stack) == ["m1", "m2"]


def test_count_that_cannot_be_written_brings_nothing_back(stack: LocalStack) -> None:
    """What was sent is done, although nobody knows how often its watcher has fired."""
    stack.push_dags([watched({"a": {"else": "1"}})], bundle="objects")
    send(stack, "m1")
    with patch.object(WatchReport, "park_busy_watchers", side_effect=ConnectionError):
        assert watch_once(stack) == []
