"""Rounds: everyone reads everything, and what someone is not done with comes again."""

from unittest.mock import patch

import pytest

from lamplighter import queues
from lamplighter.streams.guarded_producer import Progress
from tests.loop_time import let_pass
from tests.unit.streams.scripted import (
    MadeUpWatcher,
    Scripted,
    ScriptedError,
    names,
    run_rounds,
    scripted,
    sending,
    stream_messages,
    subscription,
)


def test_messages_that_everyone_took_are_done() -> None:
    """Events of all watchers are sent, and skipping is being done with a message too."""
    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1", "m2"), scripted("x", m1="2"), scripted("y", m2="1")
        )
    assert names(rounds.done) == {"m1", "m2"}
    assert sorted(sent.events) == ["x m1.0", "x m1.1", "y m2.0"]
    assert (rounds.sent, sorted(rounds.fired.values())) == (3, [1, 2])


def test_failing_watcher_fails_alone() -> None:
    """A message that one fails at comes again; what the others made of it is sent all the same."""
    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1", "m2", "m3"),
            scripted("x", m2="raise"),
            scripted("y", **{"else": "1"}),
        )
    assert names(rounds.done) == {"m1", "m3"}
    assert sent.events == ["y m1.0", "y m2.0", "y m3.0"]


@pytest.mark.parametrize("order", [1, -1], ids=["before", "after"])
def test_slow_sibling_of_a_failing_watcher_is_waited_for(order: int) -> None:
    """A watcher that needs its time gets its event, whoever fails at the message meanwhile."""
    subscriptions = [scripted("x", m1="raise"), scripted("y", m1="slow")][::order]
    with sending() as sent:
        rounds = run_rounds(stream_messages("m1"), *subscriptions)
    assert rounds.done == set()
    assert sent.events == ["y m1.0"]


def test_failing_watcher_begins_again_after_what_it_failed_at() -> None:
    """One bad message does not keep a watcher from those behind it."""
    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1", "m2", "m3", "m4"),
            scripted(m1="1", m2="raise", m3="raise", m4="1"),
        )
    assert names(rounds.done) == {"m1", "m4"}
    assert sent.events == ["w m1.0", "w m4.0"]


@pytest.mark.parametrize("act", ["raise", "return"])
def test_watcher_that_reads_nothing_lets_nothing_be_done(act: str) -> None:
    """What someone has not read, nobody may acknowledge, whoever else has taken it."""
    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1", "m2"), scripted("x", before_reading=act), scripted("y", m1="1")
        )
    assert rounds.done == set()
    assert sent.events == ["y m1.0"]


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "with others"])
def test_watcher_that_returns_early_goes_on_with_the_rest(alone: bool) -> None:
    """What it made before it returned is sent once, and the message is done."""
    others = [] if alone else [scripted("y", **{"else": "1"})]
    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1", "m2"),
            scripted(m1="made_then_return", m2="made_then_return"),
            *others,
        )
    assert names(rounds.done) == {"m1", "m2"}
    assert [event for event in sent.events if event.startswith("w")] == ["w m1.0", "w m2.0"]


def test_watcher_that_begins_again_reads_nothing_twice() -> None:
    """What it has read it is not shown again, whomever the others wait for."""
    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1", "m2", "m3"),
            scripted("x", m1="1", m2="1", m3="raise"),
            scripted("y", m1="return", m2="1", m3="1"),
        )
    assert names(rounds.done) == {"m1", "m2"}
    assert sorted(sent.events) == ["x m1.0", "x m2.0", "y m2.0", "y m3.0"]


def test_event_made_before_a_failure_is_sent_with_the_same_id_again() -> None:
    """A message that comes again is known by its id, however far it got the first time."""
    ids = []
    for _ in range(2):
        with sending() as sent:
            assert run_rounds(stream_messages("m1"), scripted(m1="made_then_raise")).done == set()
        ids.append([body["event_id"] for body in sent.bodies])
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 1


def test_hanging_watcher_holds_up_only_what_it_has_not_read() -> None:
    """When time is up, what everyone took before is done; others have had everything."""
    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1", "m2", "m3"),
            scripted("x", m2="hang"),
            scripted("y", **{"else": "1"}),
        )
    assert names(rounds.done) == {"m1"}
    assert sent.events == ["y m1.0", "y m2.0", "y m3.0"]


def test_hanging_watcher_is_not_done_when_time_is_up() -> None:
    """What it has open when everything ends is not taken for done, with or without others."""
    for others in ([], [scripted("y", **{"else": "1"})]):
        with sending():
            messages = stream_messages("m1", "m2", "m3")
            rounds = run_rounds(messages, scripted("x", m2="hang"), *others, seconds=0.7)
        assert names(rounds.done) == {"m1"}


@pytest.mark.parametrize("act", ["raise", "return"])
@pytest.mark.parametrize("seconds", [0.7, 5], ids=["time is up", "given up"])
def test_hanging_watcher_is_not_passed_by_when_others_begin_again(act: str, seconds: float) -> None:
    """What it has not read nobody may acknowledge, however often others start anew."""
    with sending():
        rounds = run_rounds(
            stream_messages("m1", "m2", "m3"),
            scripted("x", m2="hang"),
            scripted("y", m1=act),
            seconds=seconds,
        )
    assert names(rounds.done) == ({"m1"} if act == "return" else set())


def test_rejected_message_is_done_with_everyones_reasons() -> None:
    """A refusal is an answer; reasons of several are kept together."""
    with sending():
        rounds = run_rounds(
            stream_messages("m1", "m2"),
            scripted("x", m1="reject"),
            scripted("y", m1="reject", m2="1"),
        )
    ((message, reason),) = rounds.rejected.items()
    assert names([message]) == {"m1"}
    assert reason.split("; ") == [
        "rejected by watcher 'x' of asset 'a': m1 is bad",
        "rejected by watcher 'y' of asset 'a': m1 is bad",
    ]
    assert names(rounds.done) == {"m1", "m2"}


def test_rejected_message_that_another_fails_at_is_not_rejected_yet() -> None:
    """It comes again, and its letter is written when everyone is done with it."""
    with sending():
        rounds = run_rounds(
            stream_messages("m1"), scripted("x", m1="reject"), scripted("y", m1="raise")
        )
    assert (rounds.done, rounds.rejected) == (set(), {})


# Lanes.


def test_failure_in_a_lane_keeps_what_is_behind_it() -> None:
    """Nothing after a failed message of its lane is done; other lanes go on."""
    with sending() as sent:
        rounds = run_rounds(
            stream_messages("g/1", "h/1", "g/2", "h/2", "g/3"),
            scripted("x", **{"g/2": "raise", "else": "1"}),
            scripted("y", **{"else": "1"}),
        )
    assert names(rounds.done) == {"g/1", "h/1", "h/2"}
    assert [e for e in sent.events if e.startswith("x")] == ["x g/1.0", "x h/1.0", "x h/2.0"]
    assert [e for e in sent.events if e.startswith("y g")] == ["y g/1.0", "y g/2.0", "y g/3.0"]


def test_event_that_is_not_sent_keeps_those_behind_it_in_its_lane() -> None:
    """What follows in the lane is not sent before it; both come again."""
    messages = stream_messages("g/1", *(f"i{at}/1" for at in range(9)), "g/2", "h/1")
    with sending(1) as sent:
        rounds = run_rounds(messages, scripted(**{"else": "1"}))
    assert names(rounds.done) == {"h/1"}
    assert sent.events == ["w h/1.0"]


# What goes wrong round about.


def test_slow_queue_lets_what_is_not_sent_in_time_come_again() -> None:
    """Nobody sends on when time is up, and nothing is done that was not sent."""
    with sending() as sent:
        send = sent.send

        def send_slowly(queue: str, messages: list[dict[str, str]]) -> None:
            let_pass(0.3)
            send(queue, messages)

        with patch.object(queues, "send", send_slowly):
            rounds = run_rounds(
                stream_messages(*(f"m{at:03}" for at in range(100))),
                scripted(**{"else": "1"}),
                seconds=0.8,
            )
    assert len(sent.events) < 100
    assert {f"w {name}.0" for name in names(rounds.done)} <= set(sent.events)


def test_event_that_is_not_sent_leaves_its_message_open() -> None:
    """A failed call takes along what was in it, and nothing else; nobody waits for it."""
    with sending(2) as sent:
        rounds = run_rounds(
            stream_messages(*(f"m{at:02}" for at in range(25))), scripted(**{"else": "1"})
        )
    assert names(rounds.done) == {f"m{at:02}" for at in (*range(10), *range(20, 25))}
    assert len(sent.events) == 15


def test_watcher_that_cannot_be_built_again_leaves_the_rest() -> None:
    """What it has not read comes again; what was done before stays done."""
    built = []

    def make() -> Scripted:
        built.append(1)
        if len(built) > 1:
            raise ScriptedError
        return Scripted(script={"m2": "raise"})

    with sending():
        rounds = run_rounds(stream_messages("m1", "m2", "m3"), subscription(make))
    assert names(rounds.done) == {"m1"}


def test_rounds_without_time_do_nothing() -> None:
    """Whoever has no time left to begin anything lets everything come again."""
    with sending() as sent:
        rounds = run_rounds(stream_messages("m1"), scripted(m1="1"), seconds=0.1)
    assert (rounds.done, sent.calls) == (set(), [])


def test_same_message_twice_in_a_batch_is_done_twice() -> None:
    """Each has its own place, and its events have the same ids."""
    with sending() as sent:
        rounds = run_rounds(stream_messages("m1", "m1"), scripted(m1="1"))
    assert len(rounds.done) == 2
    assert len({body["event_id"] for body in sent.bodies}) == 1


def test_ten_thousand_messages_are_dealt_with_ten_to_a_call() -> None:
    """The largest batch of a standard queue costs a thousand calls, and no more than its length."""
    count = 10_000
    with sending(given={"shared_stream_ack_timeout": 60}) as sent:
        rounds = run_rounds(
            stream_messages(*(f"m{at}" for at in range(count))),
            scripted(**{"else": "1"}),
            seconds=60,
        )
    assert len(rounds.done) == count
    assert len(sent.calls) == count / 10


def test_resumed_is_the_same_watcher_with_a_fresh_start() -> None:
    """Whoever begins anew has read nothing, and keeps its key and why it is parked."""
    first = subscription(
        Scripted, parked_reason="parked", progress=Progress(read=3), fired=2, has_left=True
    )
    again = first.resumed(frozenset({1}))
    assert isinstance(again.watcher, MadeUpWatcher)
    assert again.trigger is not first.trigger
    assert (again.key, again.parked_reason, again.already_read) == ("stream", "parked", {1})
    assert (again.progress.read, again.fired, again.has_left) == (0, 0, False)
