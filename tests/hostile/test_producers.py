"""Producers that pretend to be a job, or somebody else: what they send is refused, or noted.

A foreign producer may send whatever it likes to `events`, and knows all ids that people can read.
"""

import json
import sys
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import Asset, AssetAlias
from lamplighter.errors import RejectedError
from lamplighter.events.dead_letters import dead_letters, replay
from lamplighter.events.emit import emit
from lamplighter.events.lineage import trace_event
from lamplighter.store.models import AssetEvents
from lamplighter.store.rows import connection
from lamplighter_cli.app import main
from lamplighter_local import handlers
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.handlers import LambdaContext
from lamplighter_local.stack import LocalStack
from tests.integration.events.batches import body, ingest, lines, message, s3_records
from tests.integration.functions.job_messages import (
    DAG_ID,
    lose_messages,
    messages_on,
    of_job,
    of_run,
    one_task,
    queue_run,
    settle,
    submit,
    wait,
)
from tests.tools.definitions import register_dags
from tests.tools.faults import Faults
from tests.tools.invariants.tables import violations
from tests.tools.logs import logged

A = Asset("a", "s3://lake/a")
FOREIGN = "AROAFOREIGN:producer"
OUTLET_SOURCE = {"dag_id": DAG_ID, "run_id": "first", "task_id": "t", "try_number": 1}


def told(stack: LocalStack, *, outlets: list[Any] | None = None) -> dict[str, Any]:
    """Let a step succeed; return the message about its outlet, which is still to be delivered."""
    queue_run(one_task(outlets=outlets or [A]))
    submit(of_run())
    wait(stack, seconds=2)
    settle(of_job())
    (sent,) = messages_on("events")
    found: dict[str, Any] = sent
    return found


def foreign(text: str, name: str = "foreign", **more: Any) -> dict[str, Any]:
    """Return a message of a foreign producer."""
    return message(name, text, attributes={"SenderId": FOREIGN}, **more)


def events_of(asset: str = "a") -> list[AssetEvents]:
    """Return the events of an asset that have a number."""
    return list(AssetEvents.by_seq.query(asset))


def reasons() -> list[str]:
    """Return why messages are among the dead letters."""
    return [letter.reason for letter in dead_letters(limit=100)]


# Ids and sources of outlets.


@pytest.mark.parametrize(
    "fields",
    [
        {"event_id": "outlet-0123456789abcdef0123456789abcdef"},
        {"event_id": "x", "source": OUTLET_SOURCE},
        {"source": {**OUTLET_SOURCE, "more": 1}},
    ],
)
def test_event_that_pretends_to_be_of_an_outlet_is_rejected(
    executing: LocalStack, fields: dict[str, Any]
) -> None:
    """Neither an id nor a source of outlets is recorded if no step has told of it."""
    register_dags(one_task(outlets=[A]))
    assert ingest([foreign(body("a", **fields))]) == []
    assert events_of() == []
    assert ["reserved for outlets" in reason for reason in reasons()] == [True]


def test_message_whose_attribute_has_the_id_of_an_outlet_is_rejected(executing: LocalStack) -> None:
    """The attribute that a replay carries is no proof, since anyone may send it."""
    register_dags(one_task(outlets=[A]))
    said = {"event_id": "outlet-0123456789abcdef0123456789abcdef"}
    assert ingest([foreign(body("a"), said=said)]) == []
    assert events_of() == []


@pytest.mark.parametrize("comes", ["before", "after", "together"])
@pytest.mark.parametrize("extra", [{"rows": 0}, None])
def test_forged_event_of_an_outlet_does_not_take_its_place(
    executing: LocalStack, extra: Any, comes: str
) -> None:
    """Whoever learns the id of an outlet's event can neither be first with it nor change it."""
    real = told(executing)
    forged = foreign(body("a", real["event_id"], extra=extra, source=OUTLET_SOURCE))
    own = message("own", json.dumps(real))
    batches = {"before": [[forged], [own]], "after": [[own], [forged]], "together": [[forged, own]]}
    for batch in batches[comes]:
        assert ingest(batch) == []
    (event,) = events_of()
    assert event.event_id == real["event_id"]
    assert (event.source or {})["run_id"] == "first"
    assert event.sender == "AIDAEXAMPLE"
    executing.advance(minutes=10)
    assert violations() == []


@pytest.mark.parametrize(
    "fields",
    [
        {"aliases": ["nobody-has-named"]},
        {"extra": {"a": 1}, "aliases": ["nobody-has-named"]},
        {},
    ],
)
def test_forged_message_that_is_rejected_leaves_the_outlets_row_alone(
    executing: LocalStack, fields: dict[str, Any]
) -> None:
    """The event of an outlet whose message is lost is sent again, whoever used its id meanwhile."""
    real = told(executing)
    lose_messages("events")
    assert ingest([foreign(body("a", real["event_id"], **fields))]) == []
    executing.advance(minutes=10)
    assert [event.event_id for event in events_of()] == [real["event_id"]]


def test_forged_event_for_another_asset_is_rejected(executing: LocalStack) -> None:
    """The id of an outlet's event counts for its own asset only."""
    register_dags(one_task("other", outlets=[Asset("b")]), bundle="other")
    real = told(executing)
    assert ingest([foreign(json.dumps({**real, "asset": "b"}))]) == []
    assert events_of("b") == []


def test_rejection_of_a_forged_event_says_nothing_of_the_real_one(executing: LocalStack) -> None:
    """The trace of an outlet's event does not show what became of a forged one."""
    real = told(executing)
    ingest([foreign(body("a", real["event_id"]))])
    executing.run_until_idle()
    assert [each.rejected for each in trace_event(real["event_id"])] == [None]


def test_message_of_an_outlet_that_comes_twice_is_recorded_once(executing: LocalStack) -> None:
    """What proves a message is not used up by it."""
    real = json.dumps(told(executing))
    for _ in range(3):
        assert ingest([message("own", real), message("again", real)]) == []
    assert len(events_of()) == 1
    assert reasons() == []


def test_event_of_an_outlet_that_was_rejected_can_be_replayed(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """An alias that led to an asset nobody had named is no lost event: it is sent again later."""
    found = AssetAlias("found")
    added = {"version": 1, "state": "success", "aliases": {"found": [{"name": "late"}]}}
    emr.next_outcome(DAG_ID, "t", Outcome(report=added))
    told(executing, outlets=[found])
    executing.advance(minutes=10)
    assert events_of("late") == []
    assert violations() == []
    register_dags(one_task("later", outlets=[Asset("late")]), bundle="later")
    (letter,) = dead_letters(limit=10)
    replay(letter)
    executing.advance(minutes=10)
    (event,) = events_of("late")
    assert event.seq == 1
    stored = AssetEvents.get("late", event.event_id, consistent_read=True)
    assert not any((stored.rejected, stored.pending_shard, stored.message))
    assert violations() == []


def test_person_who_emits_an_event_of_an_outlet_is_told_at_once(executing: LocalStack) -> None:
    """A mistake is an error where it is made, not a dead letter."""
    attempts: list[dict[str, Any]] = [{"event_id": "outlet-1"}, {"source": OUTLET_SOURCE}]
    for given in attempts:
        with pytest.raises(RejectedError, match="reserved for outlets"):
            emit("a", **given)


# Who has sent it, and the same id again.


def test_sender_of_an_event_is_stored(executing: LocalStack) -> None:
    """SQS says who has sent a message, whatever the message says."""
    register_dags(one_task(outlets=[A]))
    ingest([foreign(body("a", "x", source="somebody else"))])
    (event,) = events_of()
    assert (event.sender, event.source) == (FOREIGN, "somebody else")


def conflicting() -> list[Any]:
    """Return what is noted on the events of `a` about other content with their ids."""
    return [event.conflict and event.conflict["sender"] for event in events_of()]


@pytest.mark.parametrize("is_together", [True, False])
@pytest.mark.parametrize(
    "other",
    [
        {"extra": {"rows": 2}},
        {"partition_key": "p"},
        {"source": "elsewhere"},
        {"timestamp": "2026-01-05T06:00:00Z"},
    ],
)
def test_same_id_with_other_content_is_noted(
    executing: LocalStack,
    other: dict[str, Any],
    is_together: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first event stands, the second is acknowledged, and people can see that it came."""
    register_dags(one_task(outlets=[A]))
    first = message("m0", body("a", "x", extra={"rows": 1}))
    second = foreign(body("a", "x", **{"extra": {"rows": 1}, **other}))
    with logged() as records:
        for batch in [[first, second]] if is_together else [[first], [second]]:
            answer = handlers.handler_of("ingest")({"Records": batch}, LambdaContext())
            assert answer == {"batchItemFailures": []}
    (event,) = events_of()
    assert (event.extra, event.seq, event.sender) == ({"rows": 1}, 1, "AIDAEXAMPLE")
    assert conflicting() == [FOREIGN]
    (line,) = [each for each in records if "other content" in each.getMessage()]
    assert (line.__dict__["sender"], line.__dict__["first_sender"]) == (FOREIGN, "AIDAEXAMPLE")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["ConflictingEvents"] == [1]
    assert reasons() == []


def test_same_event_again_is_silent(executing: LocalStack) -> None:
    """A redelivery, in the same batch or weeks later, is nothing that anybody must look at."""
    register_dags(one_task(outlets=[A]))
    same = body("a", "x", extra={"rows": 1, "by": "k"})
    other = body("a", "x", extra={"by": "k", "rows": 1})
    with logged() as records:
        for _ in range(2):
            assert ingest(lines(same, same, other)) == []
    assert (conflicting(), records) == ([None], [])


def test_object_that_is_told_of_by_two_services_is_no_conflict(executing: LocalStack) -> None:
    """S3 and EventBridge give the same object other instants."""
    register_dags(one_task(outlets=[A]))
    detail = {
        "bucket": {"name": "lake"},
        "object": {"key": "a/x", "size": 1, "etag": "e", "sequencer": "00"},
    }
    by_bridge = {"source": "aws.s3", "time": "2026-01-05T12:00:01Z", "detail": detail}
    by_bridge |= {"detail-type": "Object Created"}
    with logged() as records:
        assert ingest(lines(s3_records("a/x"), json.dumps(by_bridge))) == []
    assert (conflicting(), records) == ([None], [])


def test_conflict_that_cannot_be_noted_is_delivered_again(executing: LocalStack) -> None:
    """A message is acknowledged when it is noted, and not before."""
    register_dags(one_task(outlets=[A]))
    ingest([message("m0", body("a", "x"))])
    second = foreign(body("a", "x", extra={"rows": 2}))

    faults = Faults()
    faults.at(1, "throttle", "UpdateItem")
    with faults.on(connection().client):
        assert ingest([second]) == ["foreign"]
    assert conflicting() == [None]
    assert ingest([second]) == []
    assert conflicting() == [FOREIGN]


def test_conflict_and_sender_are_shown(
    executing: LocalStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists and traces say who has sent an event, and who has used its id again."""
    register_dags(one_task(outlets=[A]))
    ingest([message("m0", body("a", "x")), foreign(body("a", "x", extra={"rows": 2}))])
    for arguments in (["list"], ["trace", "x"]):
        assert "its id came again with other content" in said(capsys, *arguments)
        (found,) = json.loads(said(capsys, *arguments, "--json"))
        assert (found["sender"], found["conflict"]["sender"]) == ("AIDAEXAMPLE", FOREIGN)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a command about events prints."""
    with patch.object(sys, "argv", ["lamplighter", "events", *arguments]), suppress(SystemExit):
        main()
    return capsys.readouterr().out
