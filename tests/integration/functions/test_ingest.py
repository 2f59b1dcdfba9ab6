"""The handler of `ingest`, called with Lambda's envelope: what it acknowledges is stored."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from aws_lambda_powertools.utilities.data_classes import SQSEvent
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends

from lamplighter import DAG, Asset, aws, runtime
from lamplighter.errors import TransientError
from lamplighter.events import ingest as ingest_module
from lamplighter.events import record as record_module
from lamplighter.queues import Delivery, from_first_in_lane
from lamplighter.store.models import AssetEvents
from lamplighter.store.models.assets import REJECTED
from lamplighter.store.rows import connection
from lamplighter.store.transactions import Write, transact
from lamplighter_local import handlers
from lamplighter_local.deliveries import next_delivery
from lamplighter_local.emulator.moto_memory import REGION
from lamplighter_local.handlers import LambdaContext
from lamplighter_local.stack import LocalStack
from tests.integration.events.batches import (
    NO_JSON,
    Record,
    asset_row,
    body,
    facts,
    ingest,
    known,
    letters,
    lines,
    message,
    received,
    recorded,
    s3_records,
)
from tests.tools.call_counter import counted_calls
from tests.tools.definitions import register_dags
from tests.tools.faults import Crash, Faults, Kind

pytestmark = pytest.mark.usefixtures("stack")
BOTH_QUEUES = pytest.mark.parametrize("lane", [None, "lane"], ids=["standard", "fifo"])


@contextmanager
def faults(planned: Faults) -> Iterator[Faults]:
    """Let faults strike the calls of DynamoDB and SQS."""
    with planned.on(connection().client, aws.client("sqs")):
        yield planned


@contextmanager
def broken(*assets: str) -> Iterator[None]:
    """Let no transaction that records an event of these assets go through."""

    def refuse(writes: Sequence[Write]) -> None:
        if {write.row.attribute_values["asset_id"] for write in writes} & set(assets):
            raise TransientError("busy on purpose")
        transact(writes)

    with patch.object(record_module, "transact", refuse):
        yield


# The shape of question and answer.


def test_answer_has_exactly_the_shape_that_lambda_reads() -> None:
    """Failed messages are named under the two keys that Lambda knows; anything else is ignored."""
    known("good", "bad")
    with broken("bad"):
        answer = handlers.call("ingest", {"Records": lines(body("bad", "a"), body("good", "b"))})
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m0"}]}


@pytest.mark.parametrize("envelope", [{"Records": []}, {}])
def test_empty_batch_is_answered_without_failures(envelope: dict[str, Any]) -> None:
    """A batch without messages is fine."""
    assert handlers.call("ingest", envelope) == {"batchItemFailures": []}


@BOTH_QUEUES
def test_delivery_reads_the_envelope_as_powertools_does(lane: str | None) -> None:
    """The same record means the same to us and to a library that knows Lambda's envelope."""
    said = {"event_id": "first", "colour": "red"}
    raw = message("m", "{}", lane=lane, receives=7, receipt="handle", said=said)
    ours, (theirs,) = Delivery.of(raw), list(SQSEvent({"Records": [raw]}).records)
    assert (ours.message_id, ours.body, ours.receipt) == (
        theirs.message_id,
        theirs.body,
        theirs.receipt_handle,
    )
    assert ours.receives == int(theirs.attributes.approximate_receive_count)
    assert ours.lane == theirs.attributes.message_group_id
    attribute = theirs.message_attributes["event_id"]
    assert attribute is not None
    assert ours.first_id == attribute.string_value


def test_record_of_a_real_queue_is_read_as_powertools_does(stack: LocalStack) -> None:
    """What the local deployment delivers has the form that Powertools expects of Lambda."""
    known("orders")
    stack.emit("orders", event_id="e", lane="north")
    (raw,) = received(stack.settings.queue_url("events.fifo"))
    (theirs,) = list(SQSEvent({"Records": [raw]}).records)
    ours = Delivery.of(raw)
    assert (ours.lane, ours.receives) == ("north", 1)
    assert ours.lane == theirs.attributes.message_group_id
    assert ours.receives == int(theirs.attributes.approximate_receive_count)
    assert theirs.queue_url.endswith("local-events.fifo")
    assert theirs.json_body == {"asset": "orders", "event_id": "e"}


def test_message_without_attributes_is_taken() -> None:
    """A record that says nothing about its delivery is a message all the same."""
    known("orders")
    bare = [message("m0", body("orders", "a")), message("m1", NO_JSON)]
    for record in bare:
        del record["attributes"], record["messageAttributes"]
    assert ingest(bare) == []
    assert (recorded("orders"), len(letters())) == (["a"], 1)


# A message that can never be taken.


@BOTH_QUEUES
def test_poisoned_message_goes_alone_to_the_dead(lane: str | None) -> None:
    """What cannot be read is kept with its reason; the messages around it are recorded."""
    known("orders")
    bodies = [body("orders", name) for name in "abcd"]
    batch = lines(*bodies[:2], '{"asset": "orders", "colour": "red"}', *bodies[2:], lane=lane)

    assert ingest(batch) == []

    assert recorded("orders") == ["a", "b", "c", "d"]
    (letter,) = letters()
    assert letter.body == batch[2]["body"]
    assert facts(letter) == {
        "reason": "'colour' is not a field of an event: send asset, uri, extra, event_id,"
        " timestamp, partition_key, source, aliases",
        "rejected_at": "2026-01-05T12:00:05+00:00",
        "event_id": "m2",
        **({} if lane is None else {"lane": lane}),
    }
    trace = AssetEvents.get(REJECTED, "m2")
    assert trace.rejected == facts(letter)["reason"]
    assert trace.attribute_values.get("seq") is None
    assert trace.expires_at is not None


@BOTH_QUEUES
def test_unknown_asset_goes_alone_to_the_dead(lane: str | None) -> None:
    """An event of an asset that nobody has named is a reject, known by the id it came with."""
    known("orders")
    batch = lines(body("orders", "a"), body("nobody", "b"), body("orders", "c"), lane=lane)
    assert ingest(batch) == []
    assert recorded("orders") == ["a", "c"]
    (letter,) = letters()
    assert facts(letter)["reason"] == "asset: no DAG has named an asset 'nobody'"
    assert AssetEvents.get(REJECTED, "b").rejected == facts(letter)["reason"]


@BOTH_QUEUES
def test_body_of_a_mebibyte_is_kept_in_part(lane: str | None) -> None:
    """The largest message that SQS takes is rejected; 200 KB of it are kept and marked as cut."""
    known("orders")
    # Three bytes each, which 200,000 cannot be divided by: the last one would be cut in two.
    huge = body("orders", extra={"text": "x"}) + "\u20ac" * ((1 << 20) // 3 - 100)
    assert ingest([*lines(body("orders", "a"), lane=lane), message("huge", huge, lane=lane)]) == []
    assert recorded("orders") == ["a"]
    (letter,) = letters()
    size = len(letter.body.encode())
    assert 199_997 <= size <= 200_000
    assert huge.startswith(letter.body)
    assert facts(letter)["is_cut"] == "true"
    assert "bytes: send at most 262,144" in facts(letter)["reason"]


@BOTH_QUEUES
def test_message_of_several_objects_is_recorded_as_far_as_possible(lane: str | None) -> None:
    """If one object has no asset, the message is a reject, and the others are recorded."""
    known("orders", "fx")
    text = s3_records("orders/1", "elsewhere/2", "fx/3", "elsewhere/4")
    assert ingest([message("m", text, lane=lane)]) == []
    assert (len(recorded("orders")), len(recorded("fx"))) == (1, 1)
    (letter,) = letters()
    assert letter.body == text
    assert "'s3://lake/elsewhere/2' lies below the URI of no asset" in facts(letter)["reason"]
    assert len(list(AssetEvents.query(REJECTED))) == 2

    known("elsewhere")
    assert ingest([message("m", text, lane=lane)]) == []
    assert len(recorded("elsewhere")) == 2
    assert (len(recorded("orders")), len(recorded("fx")), len(letters())) == (1, 1, 1)


def test_test_message_of_s3_is_acknowledged() -> None:
    """S3 asks once whether the queue can be reached; that is no event and no reject."""
    assert ingest(lines('{"Event": "s3:TestEvent", "Bucket": "lake"}')) == []
    assert letters() == []


@BOTH_QUEUES
def test_unreachable_dead_queue_fails_the_message(lane: str | None) -> None:
    """A reject that cannot be kept is not acknowledged; in a lane nothing overtakes it."""
    known("orders")
    batch = lines(body("orders", "a"), NO_JSON, body("orders", "c"), lane=lane)
    planned = Faults()
    planned.at(1, "throttle", "SendMessageBatch")
    with faults(planned):
        failed = ingest(batch)
    assert failed == (["m1"] if lane is None else ["m1", "m2"])
    assert recorded("orders") == (["a", "c"] if lane is None else ["a"])
    assert letters() == []
    assert ingest([record for record in batch if record["messageId"] in failed]) == []
    assert (recorded("orders"), len(letters())) == (["a", "c"], 1)


def test_dead_queue_that_is_not_named_fails_the_message(stack: LocalStack) -> None:
    """A deployment without a dead-letter queue loses no message either."""
    known("orders")
    urls = stack.settings.queue_urls | {"events-dlq": ""}
    with runtime.using(settings=replace(stack.settings, queue_urls=urls)):
        assert ingest(lines(body("orders", "a"), NO_JSON)) == ["m1"]
        assert recorded("orders") == ["a"]


def test_crash_after_the_copy_makes_only_a_second_copy() -> None:
    """Whoever dies between copying and answering copies the reject again, and records once."""
    known("orders")
    batch = lines(body("orders", "a"), NO_JSON, body("orders", "c"))
    planned = Faults()
    planned.at(1, "crash-after", "SendMessageBatch")
    with faults(planned), pytest.raises(Crash):
        ingest(batch)
    assert ingest(batch) == []
    assert [letter.body for letter in letters()] == [NO_JSON, NO_JSON]
    assert {facts(letter)["event_id"] for letter in letters()} == {"m1"}
    assert recorded("orders") == ["a", "c"]


# Something is busy.


def test_failing_lane_waits_and_others_go_on() -> None:
    """From its first message that fails a lane comes again, in order; other lanes are taken."""
    known("orders", "fx", "bad")
    batch = [
        message("n1", body("orders", "n1"), lane="north"),
        message("s1", body("bad", "s1"), lane="south"),
        message("n2", body("fx", "n2"), lane="north"),
        message("s2", body("orders", "s2"), lane="south"),
        message("w1", body("orders", "w1"), lane="west"),
        message("s3", NO_JSON, lane="south"),
    ]
    with broken("bad"):
        assert ingest(batch) == ["s1", "s2", "s3"]
    assert (recorded("orders"), recorded("fx"), recorded("bad")) == (["n1", "w1"], ["n2"], [])

    assert ingest([record for record in batch if record["messageId"].startswith("s")]) == []
    assert (recorded("orders"), recorded("bad")) == (["n1", "w1", "s2"], ["s1"])


def test_failing_asset_of_a_standard_queue_fails_alone() -> None:
    """Without lanes only the messages of the busy asset come again."""
    known("orders", "bad")
    batch = lines(*(body(name, f"e{at}") for at, name in enumerate(["bad", "orders"] * 3)))
    with broken("bad"):
        assert ingest(batch) == ["m0", "m2", "m4"]
    assert recorded("orders") == ["e1", "e3", "e5"]


def test_group_of_a_standard_queue_is_no_lane() -> None:
    """Fair queues share out work by groups: what follows a failed message is still taken."""
    known("orders", "bad")
    fair = {"MessageGroupId": "tenant"}
    batch = [
        message(f"m{at}", body(name, f"e{at}"), attributes=fair)
        for at, name in enumerate(["bad", "orders"])
    ]
    with broken("bad"):
        assert ingest(batch) == ["m0"]
    assert recorded("orders") == ["e1"]


@pytest.mark.parametrize(
    ("receives", "seconds"), [(1, 10), (3, 40), (5, 160), (7, 640), (8, 900), (99, 900)]
)
@BOTH_QUEUES
def test_failed_batch_comes_back_later_each_time(
    stack: LocalStack, lane: str | None, receives: int, seconds: int
) -> None:
    """When nothing can be read all messages fail, and the queue hides them longer each time."""
    known("orders")
    names = [f"{receives}{name}" for name in "abc"]
    for name in names:
        # A lane each: the emulator gives out a lane that failed message by message.
        stack.emit("orders", event_id=name, lane=lane and name)
    url = stack.settings.queue_url("events.fifo") if lane else stack.settings.queue_url("events")
    batch = received(url, times=receives)
    planned = Faults()
    planned.at(1, "throttle", "BatchGetItem")
    with faults(planned):
        assert sorted(ingest(batch)) == sorted(record["messageId"] for record in batch)
    assert planned.pending == []
    assert (len(batch), recorded("orders")) == (3, [])
    shown_at = next_delivery(url)
    assert shown_at is not None
    assert round((shown_at - stack.clock.now()).total_seconds()) == seconds
    stack.advance(seconds=seconds + 1)
    assert sorted(recorded("orders")) == names


def test_queue_that_cannot_be_told_does_not_change_the_answer(stack: LocalStack) -> None:
    """If the pause cannot be set the messages come back when their queue says."""
    known("bad")
    stack.emit("bad", event_id="a")
    batch = received(stack.settings.queue_url("events"))
    planned = Faults()
    planned.at(1, "throttle", "ChangeMessageVisibilityBatch")
    with faults(planned), broken("bad"):
        assert ingest(batch) == [batch[0]["messageId"]]
    assert planned.pending == []
    stack.advance(seconds=181)
    assert recorded("bad") == ["a"]


# Nothing is acknowledged before it is stored.


def mixed_batch(lane: str | None) -> list[Record]:
    """Return a batch with an event that fires a run, a reject, a duplicate and another asset."""
    texts = [body("orders", "a"), NO_JSON, body("fx", "b"), body("orders", "a"), body("fx", "c")]
    return lines(*texts, lane=lane)


STORED = {"m0": ("orders", "a"), "m2": ("fx", "b"), "m3": ("orders", "a"), "m4": ("fx", "c")}


def is_stored(message_id: str) -> bool:
    """Return whether a message of the mixed batch is recorded, or kept among the dead."""
    if message_id in STORED:
        return AssetEvents.count(*_key(*STORED[message_id])) == 1
    return any(facts(letter)["event_id"] == message_id for letter in letters())


def _key(asset: str, event_id: str) -> tuple[Any, ...]:
    return asset, AssetEvents.event_id == event_id


@pytest.mark.parametrize("kind", ["throttle", "lost-answer", "conflict"])
@BOTH_QUEUES
def test_whatever_fails_what_is_acknowledged_is_stored(lane: str | None, kind: Kind) -> None:
    """At every call a fault may strike; a message that is not named as failed is stored."""
    known("fx")
    register_dags(DAG("dag", schedule=[Asset("orders", "s3://lake/orders")], max_active_runs=9))
    # First without any, to know how many calls there are.
    with faults(Faults()) as counted:
        assert ingest(mixed_batch(lane)) == []
    assert "TransactWriteItems" in counted.calls
    failures = 0
    for call in range(1, len(counted.calls) + 1):
        for row in [*AssetEvents.scan()]:
            row.delete()
        letters().clear()
        planned = Faults()
        planned.at(call, kind)
        batch = mixed_batch(lane)
        with faults(planned):
            failed = ingest(batch)
        failures += len(failed)
        for record in batch:
            assert record["messageId"] in failed or is_stored(record["messageId"])
        # And what failed is taken when it comes again.
        assert ingest([record for record in batch if record["messageId"] in failed]) == []
        assert all(is_stored(record["messageId"]) for record in batch)
    assert failures > 0 or kind == "conflict"


@pytest.mark.parametrize("kind", ["crash-before", "crash-after"])
@BOTH_QUEUES
def test_batch_that_died_anywhere_is_taken_once_when_it_comes_again(
    stack: LocalStack, lane: str | None, kind: Kind
) -> None:
    """A process may die at any call; after redelivery each event is there once and is consumed."""
    known("fx")
    dag = DAG("dag", schedule=[Asset("orders", "s3://lake/orders")], max_active_runs=500)
    register_dags(dag)
    stack.run_until_idle()
    call, before = 1, 0
    while True:
        batch = lines(body("orders", f"a{call}"), NO_JSON, body("fx", f"b{call}"), lane=lane)
        planned = Faults()
        planned.at(call, kind)
        with faults(planned):
            try:
                ingest(batch)
            except Crash:
                assert ingest(batch) == []
            else:
                break
        assert recorded("orders")[before:] == [f"a{call}"]
        assert len(recorded("fx")) == before + 1
        assert asset_row("orders").open_shard is None
        before += 1
        call += 1
    assert call > 5
    stack.run_until_idle()
    taken = sorted(run.events["orders"] for run in stack.runs("dag"))
    assert [number for _, number in taken] == list(range(1, call + 1))


def test_events_are_stored_before_anyone_is_told() -> None:
    """The first write is that of the events; runs and the closing of the asset come after it."""
    register_dags(DAG("dag", schedule=[Asset("orders", "s3://lake/orders")]))
    with faults(Faults()) as counted:
        assert ingest(lines(body("orders", "a"))) == []
    writes = [call for call in counted.calls if call not in {"BatchGetItem", "Query", "GetItem"}]
    # The event, the run, the message that lets it be started, the asset that is closed.
    assert writes == [
        "TransactWriteItems",
        "TransactWriteItems",
        "SendMessageBatch",
        "TransactWriteItems",
    ]


# Time.


class Hurried(LambdaContext):
    """A context whose time is up after it was asked so many times."""

    def __init__(self, questions: int) -> None:
        super().__init__()
        self.questions = questions

    def get_remaining_time_in_millis(self) -> int:
        """Return much, and then hardly anything."""
        self.questions -= 1
        return 60_000 if self.questions >= 0 else 4_999


@BOTH_QUEUES
def test_batch_without_time_comes_again_whole(lane: str | None) -> None:
    """When the time left is for answering only, nothing is begun and nothing is lost."""
    known("orders")
    batch = lines(*(body("orders", name) for name in "abc"), lane=lane)
    assert ingest(batch, context=LambdaContext(milliseconds=5_000)) == ["m0", "m1", "m2"]
    assert recorded("orders") == []
    assert ingest(batch, context=LambdaContext(milliseconds=5_001)) == []
    assert recorded("orders") == ["a", "b", "c"]


def test_time_that_runs_out_midway_splits_the_batch() -> None:
    """What was recorded in time is acknowledged; exactly the rest comes again."""
    known("orders")
    batch = [message(f"m{at:03}", body("orders", f"m{at:03}")) for at in range(300)]
    failed = ingest(batch, context=Hurried(2))
    done = [record["messageId"] for record in batch if record["messageId"] not in failed]
    assert 0 < len(done) < 300
    assert recorded("orders") == done
    assert ingest([record for record in batch if record["messageId"] in failed]) == []
    assert sorted(recorded("orders")) == [record["messageId"] for record in batch]


# Many.


def numbers() -> dict[str, list[int]]:
    """Return the numbers of all events by asset, from the emulator's memory."""
    table = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables["local-AssetEvents"]
    return {
        asset.value: sorted(int(item.attrs["seq"].value) for item in items.values())
        for asset, items in table.items.items()
        if items
    }


@pytest.mark.slow
@pytest.mark.parametrize("assets", [pytest.param(1, marks=pytest.mark.full), 50])
def test_ten_thousand_messages_take_few_calls(assets: int) -> None:
    """A whole window of messages is recorded, each event once, with a call for many events."""
    known(*(f"asset{at}" for at in range(assets)))
    distinct = 9_000
    batch = [
        message(f"m{at}", body(f"asset{at % distinct % assets}", f"e{at % distinct}"))
        for at in range(10_000)
    ]
    with counted_calls() as calls:
        assert ingest(batch) == []
    found = numbers()
    assert len(found) == assets
    assert all(seqs == list(range(1, distinct // assets + 1)) for seqs in found.values())
    # 0.03 per message, however many assets there are.
    assert calls.total() <= 300, calls


@pytest.mark.slow
def test_thousand_messages_again_are_found_recorded() -> None:
    """A window that comes a second time changes nothing, and is acknowledged."""
    known("orders")
    batch = [message(f"m{at}", body("orders", f"e{at}")) for at in range(1_000)]
    assert ingest(batch) == []
    with counted_calls() as calls:
        assert ingest(batch) == []
    assert numbers() == {"orders": list(range(1, 1_001))}
    assert calls.total() <= 40, calls


@pytest.mark.full
def test_large_failed_batch_is_not_paused_message_by_message() -> None:
    """Telling the queue about each of 10,000 messages would take longer than there is time."""
    known("bad")
    batch = [message(f"m{at}", body("bad", f"e{at}")) for at in range(10_000)]
    with broken("bad"), counted_calls() as calls:
        assert len(ingest(batch)) == 10_000
    assert calls["ChangeMessageVisibilityBatch"] == ingest_module._MAX_PAUSED // 10


def test_failures_of_many_assets_are_noted_together() -> None:
    """Who comes after a failed message is looked up a few times, not once per failure."""
    names = [f"asset{at}" for at in range(200)]
    known(*names)
    batch = [message(f"m{at}", body(name, "e"), lane=name) for at, name in enumerate(names)]
    with (
        broken(*names),
        patch.object(ingest_module, "from_first_in_lane", wraps=from_first_in_lane) as look,
    ):
        assert len(ingest(batch)) == 200
    assert look.call_count <= 3


# What others get to see.


def test_logs_name_no_bodies() -> None:
    """Neither a reject nor a failure writes to the log what the message says."""
    known("orders", "bad")
    secret = "hunter2"  # noqa: S105 - what must not be seen
    batch = lines(
        body("bad", "a", extra={"password": secret}),
        '{"asset": "orders", "extra": {"password": "' + secret,
        body("nobody", "c", extra={"password": secret}),
        body("orders", "d", extra={"password": secret}),
    )
    seen: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(  # type: ignore[method-assign] # a list is enough
        logging.Formatter().format(record)
    )
    library = logging.getLogger("lamplighter")
    library.addHandler(handler)
    planned = Faults()
    planned.at(1, "throttle", "SendMessageBatch")
    try:
        with faults(planned), broken("bad"):
            assert ingest(batch) == ["m0", "m1", "m2"]
    finally:
        library.removeHandler(handler)
    assert len(seen) >= 2
    assert secret not in "".join(seen)


def test_report_counts_what_became_of_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers of a batch are written as metrics of the function."""
    known("bad")
    register_dags(DAG("dag", schedule=[Asset("orders", "s3://lake/orders")]))
    batch = lines(body("orders", "a"), NO_JSON, body("bad", "b"), body("orders", "a"))
    with broken("bad"):
        handlers.handler_of("ingest")({"Records": batch}, LambdaContext())
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert metrics["service"] == "ingest"
    names = ("Received", "Recorded", "Rejected", "TriggeredRuns", "Failed")
    assert [metrics[name] for name in names] == [[4], [1], [1], [1], [1]]
