"""Messages as SQS delivers them: ids, lanes, and who waits when one of them fails."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pendulum import from_timestamp

from lamplighter.queues import Delivery, first_id, from_first_in_lane
from tests.integration.events.batches import message


def test_delivery_says_what_the_record_says() -> None:
    """Every field stands where Lambda puts it."""
    record = message("m", "text", lane="north", receives=3, receipt="handle")
    queue = record["eventSourceARN"]
    first = from_timestamp(1_767_614_400.001)
    expected = Delivery(
        *("m", "text", "m", "handle", 3, "north"),
        queue_arn=queue,
        first_received_at=first,
        sender="AIDAEXAMPLE",
    )
    assert Delivery.of(record) == expected
    assert Delivery.of(record).is_fifo


@pytest.mark.parametrize("attributes", [{}, {"MessageGroupId": "tenant"}])
def test_delivery_of_a_standard_queue_has_no_lane(attributes: dict[str, str]) -> None:
    """Fair queues have groups too, which promise no order."""
    delivery = Delivery.of(message("m", "text", attributes=attributes))
    assert (delivery.lane, delivery.is_fifo) == (None, False)


@pytest.mark.parametrize("nothing", [{}, None, "gone"])
@pytest.mark.parametrize(("lane", "expected"), [(None, None), ("north", "")])
def test_delivery_without_attributes_is_a_first_one(
    nothing: Any, lane: str | None, expected: str | None
) -> None:
    """Missing attributes mean a first delivery, and of FIFO one lane that keeps its order."""
    record = message("m", "text", lane=lane)
    for name in ("attributes", "messageAttributes"):
        record[name] = nothing
        if nothing == "gone":
            del record[name]
    queue = record["eventSourceARN"]
    assert Delivery.of(record) == Delivery("m", "text", "m", "none", 1, expected, queue_arn=queue)


def test_replayed_message_keeps_its_first_id() -> None:
    """The attribute of a replay is the id of an event that has none of its own."""
    assert Delivery.of(message("new", "text", said={"event_id": "old"})).first_id == "old"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("old", "old"),
        ("Täglich 7", "Täglich 7"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "m"),  # no key of a table
        ("", "m"),
        ("  ", "m"),
        ("two\nlines", "m"),
        ("nul\x00", "m"),
        (None, "m"),
    ],
)
def test_first_id_is_one_that_can_be_an_id(said: str | None, expected: str) -> None:
    """Anyone may send an attribute of that name; what cannot be an id is not taken for one."""
    assert first_id(said, "m") == expected


def test_first_id_of_binary_attribute_is_the_messages_own() -> None:
    """An attribute without text says nothing."""
    record = message("m", "text")
    record["messageAttributes"] = {"event_id": {"binaryValue": "AAE=", "dataType": "Binary"}}
    assert Delivery.of(record).first_id == "m"


def deliveries(*lanes: str | None) -> list[Delivery]:
    """Return deliveries 0, 1 and so on in these lanes."""
    return [Delivery(str(at), "", str(at), "", 1, lane) for at, lane in enumerate(lanes)]


def test_lane_waits_from_its_first_failed_message() -> None:
    """What came before the failure is done, and other lanes and plain messages go on."""
    batch = deliveries("a", "b", "a", None, "b", "a", None)
    assert from_first_in_lane(batch, {"2", "3"}) == {"2", "3", "5"}


def test_message_without_lane_holds_up_nobody() -> None:
    """Plain messages have no order among themselves."""
    assert from_first_in_lane(deliveries(None, None, None), {"0"}) == {"0"}


def test_lane_without_a_name_is_a_lane() -> None:
    """An empty name keeps its order as any other does."""
    assert from_first_in_lane(deliveries("", None, ""), {"0"}) == {"0", "2"}


@given(
    st.lists(st.tuples(st.sampled_from([None, "", "a", "b", "c"]), st.booleans()), max_size=25),
)
def test_failed_are_the_ids_and_all_behind_them(batch: list[tuple[str | None, bool]]) -> None:
    """The answer is exactly the ids, and what comes after one of them in the same lane."""
    all_ = deliveries(*(lane for lane, _ in batch))
    ids = {str(at) for at, (_, is_failed) in enumerate(batch) if is_failed}
    behind = {
        later.message_id
        for at, first in enumerate(all_)
        if first.message_id in ids
        for later in all_[at + 1 :]
        if later.lane is not None and later.lane == first.lane
    }
    found = from_first_in_lane(all_, ids)
    assert found == ids | behind
    assert from_first_in_lane(all_, found) == found
