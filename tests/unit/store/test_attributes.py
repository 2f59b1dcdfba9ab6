"""Instants in a table: texts that sort as the instants do, and come back as they were."""

import datetime

from hypothesis import given
from hypothesis import strategies as st
from pendulum import DateTime
from pendulum import datetime as instant

from lamplighter.store.rows import Instant, instant_text
from lamplighter.zones import as_utc

zones = st.sampled_from(["UTC", "Europe/Zurich", "America/St_Johns", "Pacific/Apia"])
moments = st.builds(
    lambda naive, zone: DateTime.instance(naive, tz="UTC").in_timezone(zone),
    st.datetimes(
        min_value=datetime.datetime(2, 1, 1),
        max_value=datetime.datetime(9998, 12, 31),
    ),
    zones,
)


def test_instant_is_written_as_people_read_it() -> None:
    """An instant is ISO text in UTC with all six digits of its fraction."""
    moment = instant(2026, 1, 31, 7, tz="Europe/Zurich")

    assert instant_text(moment) == "2026-01-31T06:00:00.000000Z"


@given(moments)
def test_instant_comes_back_in_utc(moment: DateTime) -> None:
    """What is read is the instant that was written, in UTC."""
    attribute = Instant()

    back = attribute.deserialize(attribute.serialize(moment))

    assert back == as_utc(moment)
    assert back.timezone_name == "UTC"


@given(moments, moments)
def test_instants_sort_as_their_texts(one: DateTime, other: DateTime) -> None:
    """An index on texts has the order of the instants."""
    assert (one < other) == (instant_text(one) < instant_text(other))
    assert (one == other) == (instant_text(one) == instant_text(other))
