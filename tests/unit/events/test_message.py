"""Messages on `events`: which shapes are understood, under which ids, and what is rejected."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # ships no types
from pendulum import datetime

from lamplighter.errors import RejectedError
from lamplighter.events import fields
from lamplighter.events.message import AssetEvent, read_events

SCHEMA = Path(__file__).parents[3] / "docs" / "asset-event.schema.json"
VALIDATOR = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))

calmly = settings(deadline=None, derandomize=True, database=None, max_examples=300)


def read(data: object, *, first_id: str = "first") -> list[AssetEvent]:
    """Return the events of a message with this content."""
    return read_events(json.dumps(data), first_id=first_id)


def only(data: object) -> AssetEvent:
    """Return the one event of a message."""
    (event,) = read(data)
    return event


def plain(**fields: Any) -> dict[str, Any]:
    """Return an event of `orders` with more fields."""
    return {"asset": "orders", **fields}


def record(name: str = "ObjectCreated:Put", **changes: Any) -> dict[str, Any]:
    """Return one record of a notification of S3, with changes to its object."""
    item = {
        "key": "orders/day%3D1/part+%C3%BC.parquet",
        "size": 12,
        "eTag": "e1",
        "sequencer": "0A1B",
    }
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": name,
        "eventTime": "2026-01-31T06:00:00.123Z",
        "s3": {"bucket": {"name": "lake"}, "object": item | changes},
    }


def notification(*records: dict[str, Any]) -> dict[str, Any]:
    """Return what S3 sends to a queue."""
    return {"Records": list(records)}


def on_eventbridge(detail_type: str = "Object Created", **changes: Any) -> dict[str, Any]:
    """Return what S3 puts on EventBridge about the object of `record`."""
    item = {
        "key": "orders/day=1/part ü.parquet",
        "size": 12,
        "etag": "e1",
        "sequencer": "0A1B",
    }
    return {
        "version": "0",
        "id": "envelope-1",
        "source": "aws.s3",
        "detail-type": detail_type,
        "time": "2026-01-31T06:00:00Z",
        "detail": {"version": "0", "bucket": {"name": "lake"}, "object": item | changes},
    }


def enveloped(detail: object) -> dict[str, Any]:
    """Return what someone put on EventBridge."""
    return {"id": "envelope-2", "source": "shop", "detail-type": "Sold", "detail": detail}


def notified(message: object) -> dict[str, Any]:
    """Return what SNS sends to a queue."""
    text = message if isinstance(message, str) else json.dumps(message)
    return {"Type": "Notification", "MessageId": "sns-1", "TopicArn": "arn:t", "Message": text}


class TestPlain:
    def test_name_alone_makes_an_event_with_the_first_id(self) -> None:
        """The least a producer can say is the name of an asset."""
        assert only({"asset": "orders"}) == AssetEvent("first", asset="orders")

    def test_every_field_is_kept_as_it_was_given(self) -> None:
        """All fields arrive; the instant is in UTC and each alias is there once."""
        data = {
            "uri": "S3://lake/orders/",
            "extra": {"rows": 10, "ratio": 0.5, "none": None},
            "event_id": "Lieferung 7 ü",
            "timestamp": "2026-01-31T07:30:00.250+01:30",
            "partition_key": "2026-01-31",
            "source": {"job": "load"},
            "aliases": ["b", "a", "b"],
        }
        assert only(data) == AssetEvent(
            "Lieferung 7 ü",
            uri="s3://lake/orders",
            extra={"rows": 10, "ratio": 0.5, "none": None},
            timestamp=datetime(2026, 1, 31, 6, 0, 0, 250_000),
            partition_key="2026-01-31",
            source={"job": "load"},
            aliases=("b", "a"),
        )

    def test_instant_is_in_utc_whatever_its_offset(self) -> None:
        """Two spellings of one instant are equal and have one zone."""
        east, west = (
            only(plain(timestamp=text)).timestamp
            for text in ("2026-01-31 08:00+0200", "2026-01-31T06:00:00Z")
        )
        assert east is not None
        assert west is not None
        assert east.isoformat() == west.isoformat() == "2026-01-31T06:00:00+00:00"

    def test_password_in_a_uri_is_dropped_in_silence(self) -> None:
        """No warning is raised, which tests turn into errors, and the password is gone."""
        assert only({"uri": "https://me:secret@host/a"}).uri == "https://host/a"

    def test_password_in_a_broken_uri_is_not_repeated(self) -> None:
        """Neither the reason nor what caused it shows a URI that could not be read."""
        with pytest.raises(RejectedError, match="uri is not a valid") as caught:
            read({"uri": "https://me:secret@[host/a"})
        assert "secret" not in str(caught.value)
        assert caught.value.__suppress_context__

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            ([], "body must be an object, not a list"),
            ("orders", "body must be an object, not a string"),
            (None, "body must be an object, not null"),
            ({}, "exactly one of asset .a name. and uri"),
            ({"asset": "a", "uri": "s3://a/b"}, "exactly one of asset"),
            (plain(extras={}), "'extras' is not a field of an event: send asset, uri, extra"),
            (plain(object_uri="s3://a/b"), "'object_uri' is not a field"),
            ({"asset": 5}, "asset must be a string, not a number"),
            ({"asset": True}, "asset must be a string, not true or false"),
            ({"asset": " \t"}, "asset must not be blank"),
            ({"asset": "a" * 1_501}, "asset has 1,501 characters: send at most 1,500"),
            ({"uri": ""}, "uri must not be blank"),
            ({"uri": "airflow://a"}, "uri is not a valid asset URI"),
            (plain(extra=[1]), "extra must be an object, not a list"),
            (plain(extra=None), "extra must be an object, not null"),
            (plain(event_id="x" * 201), "event_id has 201 characters: send at most 200"),
            (plain(event_id="a\nb"), "event_id must not have control characters"),
            (plain(event_id=7), "event_id must be a string, not a number"),
            (plain(timestamp="2026-01-31T06:00:00"), "no offset: give one, such as .*00Z$"),
            (plain(timestamp="yesterday"), "timestamp 'yesterday' must be an instant"),
            (plain(timestamp="1969-12-31T00:00:00Z"), "between 1970 and 2199"),
            (plain(timestamp="2200-01-01T00:00:00Z"), "between 1970 and 2199"),
            (plain(timestamp="2026-02-30T00:00:00Z"), "timestamp: '2026-02-30.* not an instant"),
            (plain(timestamp=1_769_839_200), "timestamp must be a string, not a number"),
            (plain(partition_key="k" * 201), "partition_key has 201 characters"),
            (plain(partition_key=""), "partition_key must not be blank"),
            (plain(source=5), "source must be a string or an object, not a number"),
            (plain(source="s" * 1_001), "source has 1,001 characters"),
            (plain(source={"s": "s" * 4_000}), "source has 4,009 characters as JSON"),
            (plain(aliases="a"), "aliases must be a list of strings, not a string"),
            (plain(aliases=["a"] * 11), "aliases has 11 names: send at most 10"),
            (plain(aliases=["a", ""]), r"aliases\[1\] must not be blank"),
        ],
    )
    def test_bad_field_is_rejected_by_name(self, data: object, reason: str) -> None:
        """The reason names the field and says what to send."""
        with pytest.raises(RejectedError, match=reason):
            read(data)

    @pytest.mark.parametrize(
        "data",
        [
            {"asset": "a" * 1_500},
            plain(event_id="x" * 200),
            plain(partition_key="k" * 200),
            plain(source="s" * 1_000),
            plain(source={"s": "s" * 3_991}),
            plain(aliases=["a" * 1_500] * 10),
            plain(extra={"s": "s" * 31_991}),
            plain(timestamp="1970-01-01T00:00:00Z"),
            plain(timestamp="2199-12-31T23:59:59.999999999Z"),
        ],
    )
    def test_field_at_its_limit_is_taken(self, data: dict[str, Any]) -> None:
        """What is as long as allowed is not too long."""
        assert only(data).asset == data["asset"]

    def test_extra_over_its_limit_is_not_repeated(self) -> None:
        """The reason says how long it is, and holds nothing of it."""
        with pytest.raises(RejectedError, match="extra has 32,001 characters") as caught:
            read(plain(extra={"s": "s" * 31_992}))
        assert "sss" not in str(caught.value)

    def test_reason_is_one_short_line(self) -> None:
        """A field's name may be long and broken; the reason is not."""
        with pytest.raises(RejectedError) as caught:
            read(plain(**{"x\n" * 500: 1}))
        reason = str(caught.value)
        assert "\n" not in reason
        assert len(reason) < 300


class TestText:
    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            ("", "body must be JSON: Expecting value"),
            ("{'asset': 'orders'}", "body must be JSON"),
            ("\ufeff{}", "body must be JSON"),
            ('{"asset": "a", "extra": {"n": NaN}}', "not finite"),
            ('{"asset": "a", "extra": {"n": -Infinity}}', "not finite"),
            ('{"asset": "a", "extra": {"n": 1e999}}', "not finite"),
            ('{"asset": "a", "extra": {"n": ' + "9" * 5_000 + "}}", "too many digits"),
            ('{"asset": "\\ud800"}', "lone surrogate"),
            ('{"asset": "a", "extra": {"\\udfff": 1}}', "lone surrogate"),
            ('{"asset": "\ud800"}', "lone surrogate"),
        ],
    )
    def test_text_that_cannot_be_stored_is_rejected(self, body: str, reason: str) -> None:
        """What is not JSON, or could not be written again as JSON, is refused."""
        with pytest.raises(RejectedError, match=reason):
            read_events(body, first_id="first")

    def test_whole_surrogate_pair_is_one_character(self) -> None:
        """Escaped in two halves, as JSON does it, a character is whole."""
        (event,) = read_events('{"asset": "\\ud83d\\ude80"}', first_id="first")
        assert event.asset == "🚀"

    def test_length_is_counted_in_bytes(self) -> None:
        """A body of as many bytes as allowed is read; with one byte more it is not."""
        frame = '{"asset": "a"}'
        body = frame + " " * (fields.MAX_BODY_BYTES - len(frame))
        assert read_events(body, first_id="first")
        with pytest.raises(RejectedError, match="262,145 bytes: send at most 262,144"):
            read_events(body + " ", first_id="first")
        with pytest.raises(RejectedError, match="262,145 bytes"):
            read_events(body.replace('"a"', '"ä"'), first_id="first")

    @pytest.mark.parametrize(("depth", "is_taken"), [(18, True), (19, False)])
    def test_nesting_is_counted_from_the_outside(self, depth: int, is_taken: bool) -> None:
        """The body and `extra` are two levels; eighteen more are taken, and brackets in texts."""
        inner: list[Any] = ['[[[[\\"[[[[{{{{']
        for _ in range(depth - 1):
            inner = [inner]
        data = plain(extra={"deep": inner})
        if is_taken:
            assert only(data).extra == {"deep": inner}
        else:
            with pytest.raises(RejectedError, match="nested too deeply: at most 20"):
                read(data)

    @pytest.mark.parametrize("body", ["[" * 100_000, '{"a":' * 50_000, '["",' * 60_000])
    def test_bomb_of_brackets_is_rejected(self, body: str) -> None:
        """Nesting that no parser survives is refused before one sees it."""
        with pytest.raises(RejectedError, match="nested too deeply"):
            read_events(body, first_id="first")

    @pytest.mark.parametrize("body", ['"' + '\\"' * 130_000, '"a' * 130_000, "\\" * 260_000])
    def test_long_nonsense_is_rejected_in_no_time(self, body: str) -> None:
        """Looking for the end of texts that have none does not take longer and longer."""
        began = time.process_time()
        with pytest.raises(RejectedError):
            read_events(body, first_id="first")
        assert time.process_time() - began < 2


class TestS3:
    def test_created_object_becomes_an_event(self) -> None:
        """The key is decoded, and facts about the object travel as extra."""
        event = only(notification(record()))
        assert event.object_uri == "s3://lake/orders/day=1/part ü.parquet"
        assert (event.asset, event.uri) == (None, None)
        assert event.extra == {
            "bucket": "lake",
            "key": "orders/day=1/part ü.parquet",
            "size": 12,
            "etag": "e1",
        }
        assert event.timestamp == datetime(2026, 1, 31, 6, 0, 0, 123_000)
        assert event.source == "s3"

    @pytest.mark.parametrize(
        "version", [{}, {"versionId": "v1", "version-id": "v1"}, {"versionId": "null"}]
    )
    def test_object_told_in_two_ways_is_one_event(self, version: dict[str, str]) -> None:
        """S3's own notification, EventBridge's and that of SNS give one id and the same facts."""
        direct = only(notification(record(**version)))
        bridged = only(on_eventbridge(**version))
        wrapped = only(notified(on_eventbridge(**version)))
        assert direct.event_id == bridged.event_id == wrapped.event_id
        assert direct.event_id.startswith("s3:")
        assert len(direct.event_id) == 35
        assert direct.object_uri == bridged.object_uri
        assert direct.extra == bridged.extra == wrapped.extra

    def test_version_is_told_where_there_is_one(self) -> None:
        """In a bucket with versions the version is among the facts."""
        assert only(notification(record(versionId="v1"))).extra["version_id"] == "v1"

    @pytest.mark.parametrize(
        "change", [{"key": "other"}, {"sequencer": "0A1C"}, {"versionId": "v1"}]
    )
    def test_another_object_has_another_id(self, change: dict[str, str]) -> None:
        """Key, sequencer and version each make a difference."""
        one, other = read(notification(record(), record(**change)))
        assert one.event_id != other.event_id

    def test_same_object_in_another_bucket_has_another_id(self) -> None:
        """The bucket makes a difference."""
        elsewhere = record()
        elsewhere["s3"]["bucket"]["name"] = "sea"
        one, other = read(notification(record(), elsewhere))
        assert one.event_id != other.event_id

    @pytest.mark.parametrize("change", [{"eTag": "e2"}, {}])
    def test_object_without_sequencer_is_known_by_time_and_content(
        self, change: dict[str, str]
    ) -> None:
        """A store that sends no sequencer does not have its later objects taken for repeats."""
        first, again, later = (record(sequencer=None, **more) for more in ({}, {}, change))
        if not change:
            later["eventTime"] = "2026-01-31T06:00:01Z"
        ids = [event.event_id for event in read(notification(first, again, later))]
        assert ids[0] == ids[1] != ids[2]

    @pytest.mark.parametrize("wrap", [lambda data: data, notified])
    def test_test_message_has_no_events(self, wrap: Callable[[object], object]) -> None:
        """What S3 sends when a notification is set up is understood and says nothing."""
        assert read(wrap({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"})) == []

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (notification(), "Records must be a list with at least one"),
            ({"Records": "x"}, "Records must be a list"),
            ({"Records": [record(), 5]}, r"Records\[1\] must be an object, not a number"),
            (notification(record("ObjectRemoved:Delete")), "eventName 'ObjectRemoved:Delete'"),
            (notification(record() | {"eventSource": "aws:ses"}), "eventSource must be"),
            (notification(record() | {"eventTime": None}), "eventTime must be a string, not null"),
            (notification(record() | {"s3": []}), "s3 must be an object"),
            (notification(record(key="%FF")), "key must be URL-encoded"),
            (notification(record(key="%ED%A0%80")), "key must be URL-encoded"),
            (notification(record(key="k" * 1_025)), "key has 1,025 characters"),
            (notification(record(size="12")), "size must be a whole number, not a string"),
            (notification(record(size=True)), "size must be a whole number"),
            (notification(record(sequencer=5)), "sequencer must be a string, not a number"),
            (on_eventbridge("Object Deleted"), "detail-type 'Object Deleted'"),
            (on_eventbridge(key=None), "key must be a string, not null"),
            (on_eventbridge() | {"time": "now"}, "time 'now' must be an instant"),
            (on_eventbridge() | {"detail": 5}, "detail must be an object"),
            (on_eventbridge() | {"detail": {"object": {}}}, "bucket must be an object"),
        ],
    )
    def test_what_is_no_creation_is_rejected(self, data: object, reason: str) -> None:
        """Other notifications, and those that lack something, are refused by name."""
        with pytest.raises(RejectedError, match=reason):
            read(data)


class TestEnvelopes:
    @pytest.mark.parametrize(
        ("data", "event_id"),
        [
            (plain(), "first"),
            (plain(event_id="mine"), "mine"),
            (enveloped(plain()), "envelope-2"),
            (enveloped(plain(event_id="mine")), "mine"),
            (enveloped(plain()) | {"id": None}, "first"),
            (notified(plain()), "sns-1"),
            (notified(plain(event_id="mine")), "mine"),
            (notified(enveloped(plain())), "envelope-2"),
            (notified(enveloped(plain()) | {"id": None}), "sns-1"),
            ({"Type": "Notification", "Message": json.dumps(plain())}, "first"),
        ],
    )
    def test_id_nearest_to_the_producer_is_taken(self, data: object, event_id: str) -> None:
        """The producer's own id, else that of the innermost envelope which has one."""
        assert only(data) == AssetEvent(event_id, asset="orders")

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (notified(notified(plain())), "Message is an SNS message again"),
            (notified("hello"), "Message must be JSON"),
            (notified("[" * 100_000), "Message is nested too deeply"),
            (notified('{"asset": "\\ud800"}'), "Message has a lone surrogate"),
            (notified([1]), "Message must be an object, not a list"),
            ({"Type": "Notification"}, "Message must be a string, not null"),
            ({"Type": "SubscriptionConfirmation", "Message": "m"}, 'Type must be "Notification"'),
            (notified(plain()) | {"MessageId": "a\nb"}, "MessageId must not have control"),
            (enveloped("orders"), "detail must be an object, not a string"),
            (enveloped(notified(plain())), "'Message' is not a field"),
            (enveloped(plain(extras={})), "'extras' is not a field"),
            (enveloped(plain()) | {"id": 5}, "id must be a string, not a number"),
        ],
    )
    def test_bad_envelope_is_rejected(self, data: object, reason: str) -> None:
        """What cannot be opened, or holds no event, is refused by name."""
        with pytest.raises(RejectedError, match=reason):
            read(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
finite = json_values.filter(lambda value: "Infinity" not in json.dumps(value))
objects = st.dictionaries(st.text(max_size=5), finite, max_size=3)
names = st.text("aÄ🚀 -", min_size=1, max_size=9).filter(str.strip) | st.just("a" * 1_500)
good: dict[str, st.SearchStrategy[Any]] = {
    "asset": names,
    "uri": names | st.sampled_from(["s3://lake/orders", "S3://lake", "https://a:b@c/d?e=%FF"]),
    "extra": objects,
    "event_id": st.text("aÄ🚀", min_size=1, max_size=9) | st.just("x" * 200),
    "timestamp": st.sampled_from(
        [
            "2026-01-31T06:00:00Z",
            "2026-01-31 06:00+0100",
            "2026-01-31T06:00:00.123456789-11:30",
            "1970-01-01T00:00:00.5+00:00",
            "2199-12-31T23:59Z",
        ]
    ),
    "partition_key": st.text("a-Ä", min_size=1, max_size=9) | st.just("k" * 200),
    "source": st.sampled_from(["a\nb", "s" * 1_000]) | objects,
    "aliases": st.lists(names, max_size=10),
}
blank = st.text(" \t\n\x1f\x85\u2028", max_size=3)
broken = st.builds("a{}b".format, st.sampled_from("\n\x00\x7f\x9f\u2028\u2029"))
bad: dict[str, st.SearchStrategy[Any]] = {
    "asset": blank | st.just("a" * 1_501),
    "uri": blank | st.just("a" * 1_501),
    "extra": finite,
    "event_id": blank | broken | st.just("x" * 201),
    "timestamp": st.sampled_from(
        [
            "2026-01-31T06:00:00",
            "2026-01-31",
            "20260131T060000Z",
            "2026-W05-6T06:00:00Z",
            "1969-12-31T00:00:00Z",
            "2200-01-01T00:00:00Z",
            "2026-01-31T06:00:00z",
            "2026-01-31T06:00:00,5Z",
            "2026-01-31T06:00:00Z\n",
            "٢٠٢٦-01-31T06:00:00Z",
        ]
    ),
    "partition_key": blank | broken | st.just("k" * 201),
    "source": blank | st.just("s" * 1_001),
    "aliases": st.lists(blank, min_size=1) | st.just(["a"] * 11),
}


@st.composite
def plain_bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an event that is right or nearly so."""
    optional = st.sampled_from(sorted(good.keys() - {"asset", "uri"}))
    chosen = {*draw(st.sampled_from([["asset"], ["uri"]])), *draw(st.sets(optional, max_size=4))}
    data = {name: draw(good[name]) for name in sorted(chosen)}
    fault = draw(st.sampled_from(["none", "none", "value", "kind", "field", "both"]))
    if fault == "value":
        name = draw(st.sampled_from(sorted(chosen)))
        data[name] = draw(bad[name])
    elif fault == "kind":
        data[draw(st.sampled_from(sorted(chosen)))] = draw(finite)
    elif fault == "field":
        data[draw(st.sampled_from(["extras", "Asset", "object_uri", "source ", ""]))] = "x"
    elif fault == "both":
        data |= {"asset": "x", "uri": "x"}
    return data


def reason(body: str) -> str | None:
    """Return why a body is rejected, or None if it is understood."""
    try:
        read_events(body, first_id="first")
    except RejectedError as error:
        return str(error)
    return None


def is_taken(body: str) -> bool:
    """Return whether a body is understood; any error but a short rejection is one here too."""
    found = reason(body)
    if found is not None:
        assert "\n" not in found
        assert len(found) < 400
    return found is None


def test_schema_is_itself_valid() -> None:
    """The schema on file is one."""
    Draft202012Validator.check_schema(VALIDATOR.schema)


def test_schema_and_reader_agree_on_plain_events() -> None:
    """What the schema allows is understood, what it forbids is rejected; both happen often."""
    outcomes = {True: 0, False: 0}

    @calmly
    @given(plain_bodies())
    @example({"asset": "a", "event_id": "a\n"})
    @example({"asset": "a", "timestamp": "2026-01-31T06:00:00Z\n"})
    @example({})
    @example({"asset": "a", "uri": "b"})
    @example({"asset": "a", "source": {}})
    @example({"asset": "a", "aliases": []})
    def agree(data: dict[str, Any]) -> None:
        taken = is_taken(json.dumps(data))
        outcomes[taken] += 1
        assert VALIDATOR.is_valid(data) == taken

    agree()
    assert min(outcomes.values()) > 80


documents = st.recursive(
    json_values,
    lambda inner: st.one_of(
        st.builds(notified, inner),
        st.builds(enveloped, inner),
        st.builds(lambda value: {"Records": [value]}, inner),
        st.builds(lambda value: {"Records": [record() | {"s3": value}]}, inner),
        st.builds(lambda value: notification(record(key=value, size=value)), inner),
        st.builds(lambda value: on_eventbridge(key=value, etag=value), inner),
        st.builds(lambda value: on_eventbridge() | {"detail": value, "time": value}, inner),
        st.builds(lambda name, value: plain(**{name: value}), st.sampled_from([*good]), inner),
    ),
    max_leaves=4,
)


@calmly
@given(st.text() | st.text('{}[]":,\\ae1-N\ud800', max_size=40))
def test_any_text_is_understood_or_rejected(body: str) -> None:
    """No text makes anything but a rejection."""
    is_taken(body)


@calmly
@given(documents)
def test_any_document_is_understood_or_rejected(data: object) -> None:
    """No document makes anything but a rejection, in whatever envelope and field it is."""
    is_taken(json.dumps(data))


@calmly
@given(st.text() | st.from_regex(r"[a-z+.-]{1,9}:/{0,3}[^ ]*"))
def test_any_uri_is_understood_or_rejected(uri: str) -> None:
    """No URI makes anything but a rejection, and what is understood is in its normal form."""
    body = json.dumps({"uri": uri})
    if is_taken(body):
        (event,) = read_events(body, first_id="first")
        assert event.uri is not None
        assert only({"uri": event.uri}).uri == event.uri
