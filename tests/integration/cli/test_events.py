"""Events, dead letters and runs as a user looks at them."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lamplighter import DAG, Asset, aws, runtime
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause, unpause
from tests.tools.definitions import register_dags

Command = Callable[..., Any]

ORDERS, FX = Asset("orders", "s3://lake/orders"), Asset("fx", "s3://lake/fx")


@pytest.fixture
def consumers(stack: LocalStack) -> LocalStack:
    """Return a deployment with four DAGs that wait for orders, each in its own way."""
    register_dags(
        DAG("alone", schedule=[ORDERS], max_active_runs=1),
        DAG("both", schedule=(ORDERS & FX)),
        DAG("asleep", schedule=[ORDERS], catchup=False),
        DAG("by_uri", schedule=Asset.ref(uri="s3://lake/orders")),
    )
    stack.run_until_idle()
    pause("asleep")
    return stack


def consumers_of(lamplighter: Command, event_id: str) -> dict[str, tuple[str, str]]:
    """Return what became of an event with each consumer, and why."""
    result = lamplighter("events", "trace", event_id, "--json")
    assert (result.code, result.err) == (0, "")
    (found,) = json.loads(result.out)
    return {each["dag_id"]: (each["state"], each["reason"]) for each in found["consumers"]}


class TestEmit:
    def test_event_reaches_its_consumers(self, lamplighter: Command, consumers: LocalStack) -> None:
        """All that was given arrives with the run."""
        options = ["--extra", '{"rows": 10}', "--event-id", "e1", "--partition-key", "2026-01"]
        moment = ["--timestamp", "2026-01-04T23:00:00Z", "--source", "billing"]
        result = lamplighter("assets", "emit", "orders", *options, *moment)
        said = "sent event e1 of orders; see: lamplighter events trace e1\n"
        assert (result.code, result.out, result.err) == (0, said, "")
        consumers.run_until_idle()
        (run,) = consumers.runs("alone")
        shown = lamplighter("runs", "show", f"alone/{run.run_id}", "--json")
        (event,) = json.loads(shown.out)["triggering_asset_events"]["orders"]
        assert event == {
            "event_id": "e1",
            "timestamp": "2026-01-04T23:00:00+00:00",
            "extra": {"rows": 10},
            "source": "billing",
            "partition_key": "2026-01",
        }

    def test_uri_names_the_asset_too(self, lamplighter: Command, consumers: LocalStack) -> None:
        """What has a scheme is a URI; the id that was made up can be read by a program."""
        result = lamplighter("assets", "emit", "s3://lake/orders/", "--json")
        sent = json.loads(result.out)
        assert sent == {"event_id": sent["event_id"], "uri": "s3://lake/orders/"}
        consumers.run_until_idle()
        assert consumers_of(lamplighter, sent["event_id"])["alone"][0] == "consumed"

    def test_lane_goes_to_the_fifo_queue(self, lamplighter: Command, stack: LocalStack) -> None:
        """Only there does SQS keep the order."""
        assert lamplighter("assets", "emit", "orders", "--lane", "night").code == 0
        answer = aws.client("sqs").receive_message(
            QueueUrl=stack.settings.queue_url("events.fifo"), AttributeNames=["All"]
        )
        (message,) = answer["Messages"]
        assert message["Attributes"]["MessageGroupId"] == "night"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--extra", "{rows"], "error: --extra '{rows' is not JSON: "),
            (["--extra", "[1]"], "error: extra"),
            (["--timestamp", "yesterday"], "error: timestamp"),
        ],
    )
    def test_mistakes_are_told_before_sending(
        self, lamplighter: Command, stack: LocalStack, options: list[str], message: str
    ) -> None:
        """One line, and nothing is on the queue."""
        result = lamplighter("assets", "emit", "orders", *options)
        assert result.code == 1
        assert result.err.startswith(message)
        assert len(result.err.splitlines()) == 1
        url = stack.settings.queue_url("events")
        assert "Messages" not in aws.client("sqs").receive_message(QueueUrl=url)

    def test_missing_queue_is_named(self, lamplighter: Command, stack: LocalStack) -> None:
        """The user learns which variable to set."""
        urls = stack.settings.queue_urls | {"events": ""}
        with runtime.using(settings=replace(stack.settings, queue_urls=urls)):
            result = lamplighter("assets", "emit", "orders")
        assert result.code == 1
        assert "set LAMPLIGHTER_EVENTS_QUEUE_URL" in result.err


class TestTrace:
    def test_each_consumer_has_a_fate(self, lamplighter: Command, consumers: LocalStack) -> None:
        """Consumed, pending, paused, waiting for a slot: and the reason of each."""
        consumers.emit("orders", event_id="e1")
        consumers.run_until_idle()
        (run,) = consumers.runs("alone")
        assert consumers_of(lamplighter, "e1") == {
            "alone": ("consumed", ""),
            "asleep": ("pending", "until the DAG is un-paused; dropped then"),
            "both": ("pending", "no event yet of fx"),
            "by_uri": ("consumed", ""),
        }
        consumers.emit("orders", event_id="e2")
        consumers.run_until_idle()
        assert consumers_of(lamplighter, "e2")["alone"] == ("waiting", "for a slot: 1 of 1 taken")
        shown = lamplighter("events", "trace", "e1").out
        assert f"alone/{run.run_id}" in shown
        assert shown.startswith("event e1 of orders: number 1, recorded at 2026-01-05 12:00:05 UTC")

    def test_dropped_events_say_so(self, lamplighter: Command, consumers: LocalStack) -> None:
        """By rule, and since when."""
        consumers.emit("orders", event_id="e1")
        consumers.run_until_idle()
        unpause("asleep")
        state, why = consumers_of(lamplighter, "e1")["asleep"]
        assert state == "dropped"
        assert why == "dropped while paused, at 2026-01-05T12:00:05+00:00"
        assert consumers.runs("asleep") == []

    def test_events_from_before_are_not_owed(
        self, lamplighter: Command, consumers: LocalStack
    ) -> None:
        """A DAG that comes later does not get what was there."""
        consumers.emit("orders", event_id="e1")
        consumers.run_until_idle()
        register_dags(DAG("late", schedule=[ORDERS]), bundle="other")
        consumers.run_until_idle()
        expected = ("not owed", "recorded before the DAG waited for it")
        assert consumers_of(lamplighter, "e1")["late"] == expected

    def test_rejected_events_say_why(self, lamplighter: Command, consumers: LocalStack) -> None:
        """They are found by the id that their producer gave them."""
        consumers.emit("ordrs", event_id="e1")
        consumers.run_until_idle()
        result = lamplighter("events", "trace", "e1")
        assert result.code == 0
        (line,) = result.out.splitlines()
        assert line.startswith("event e1 was rejected at 2026-01-05 12:00:05 UTC")
        assert line.endswith("asset: no DAG has named an asset 'ordrs'")

    def test_unknown_event_is_an_error(self, lamplighter: Command) -> None:
        """With what may be the reason."""
        result = lamplighter("events", "trace", "e9", "--asset", "orders")
        assert result.code == 1
        assert result.err.startswith("error: there is no event 'e9' of asset 'orders'")

    def test_event_that_nobody_waits_for(self, lamplighter: Command, consumers: LocalStack) -> None:
        """An asset may be known because someone produces it."""
        register_dags(DAG("gone", schedule=[Asset("old")]), bundle="other")
        register_dags(DAG("gone", schedule=[FX]), bundle="other")
        consumers.run_until_idle()
        consumers.emit("old", event_id="e1")
        consumers.run_until_idle()
        assert lamplighter("events", "trace", "e1").out.splitlines()[-1] == "no consumers"


class TestDeadLetters:
    def test_letters_are_listed_and_replayed(
        self, lamplighter: Command, consumers: LocalStack
    ) -> None:
        """What was rejected because its asset was unknown is taken once the asset is there."""
        consumers.emit("late", event_id="e1")
        consumers.run_until_idle()
        (letter,) = json.loads(lamplighter("dlq", "list", "--json").out)
        assert letter["reason"] == "asset: no DAG has named an asset 'late'"
        assert json.loads(letter["body"]) == {"asset": "late", "event_id": "e1"}
        consumers.clock.advance(timedelta(milliseconds=1))
        listed = lamplighter("dlq", "list").out
        assert letter["message_id"] in listed
        consumers.clock.advance(timedelta(milliseconds=1))
        register_dags(DAG("late", schedule=[Asset("late")]), bundle="other")
        result = lamplighter("dlq", "replay", letter["message_id"])
        assert (result.code, result.out) == (0, "replayed 1 of 1\n")
        consumers.run_until_idle()
        assert len(consumers.runs("late")) == 1
        assert lamplighter("dlq", "list").out == "no dead letters\n"

    def test_replay_wants_names_or_all(self, lamplighter: Command) -> None:
        """Neither nothing nor both."""
        for arguments in ([], ["x", "--all"]):
            result = lamplighter("dlq", "replay", *arguments)
            assert result.code == 1
            assert result.err.startswith("error: name the letters to replay")

    def test_letters_that_stay_are_named(self, lamplighter: Command, consumers: LocalStack) -> None:
        """A letter that was cut cannot be sent again, and one that is not there either."""
        sqs, url = aws.client("sqs"), consumers.settings.queue_url("events")
        sqs.send_message(QueueUrl=url, MessageBody='{"asset": "' + "x" * 300_000 + '"}')
        consumers.run_until_idle()
        (letter,) = json.loads(lamplighter("dlq", "list", "--json").out)
        consumers.clock.advance(timedelta(milliseconds=1))
        result = lamplighter("dlq", "replay", letter["message_id"], "nobody", "--json")
        assert result.code == 1
        said = json.loads(result.out)
        assert said["replayed"] == []
        assert said["kept"][letter["message_id"]].endswith("send the event again")
        assert said["kept"]["nobody"] == "no such letter"

    def test_all_are_replayed(self, lamplighter: Command, consumers: LocalStack) -> None:
        """More than SQS hands out at once."""
        for number in range(12):
            consumers.emit("nobody", event_id=f"e{number}")
        consumers.run_until_idle()
        assert lamplighter("dlq", "replay", "--all").out == "replayed 12 of 12\n"


class TestRuns:
    def test_run_shows_its_events(self, lamplighter: Command, consumers: LocalStack) -> None:
        """What triggered it, asset by asset, with extras."""
        consumers.emit("orders", event_id="e1", extra={"rows": 10})
        consumers.emit("fx", event_id="e2")
        consumers.run_until_idle()
        (run,) = consumers.runs("both")
        lines = lamplighter("runs", "show", f"both/{run.run_key}").out.splitlines()
        assert any("asset_triggered" in line for line in lines)
        assert [line.split()[0] for line in lines if " e1 " in line or " e2 " in line] == [
            "fx",
            "orders",
        ]
        assert any('{"rows": 10}' in line for line in lines)

    @pytest.mark.usefixtures("consumers")
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("both", "error: run 'both': write it as DAG/RUN"),
            ("both/manual__2026-01-31", "error: DAG 'both' has no run 'manual__2026-01-31'"),
            ("bth/manual__2026-01-31", "error: there is no DAG 'bth'; did you mean both?"),
        ],
    )
    def test_run_that_is_not_there(self, lamplighter: Command, name: str, message: str) -> None:
        """One line that says how to write it."""
        result = lamplighter("runs", "show", name)
        assert result.code == 1
        assert result.err.startswith(message)
