"""Cron across the change of clocks in Europe/Zurich: the ticks, forwards and backwards.

In spring 2023 the hour from 02:00 to 03:00 is missing (it would begin at 01:00 UTC on March 26); in
autumn it happens twice (the second begins at 01:00 UTC on October 29). All ticks are in UTC.
"""

from datetime import datetime
from itertools import pairwise

import pytest

from lamplighter.timetables.cron import CronSchedule
from lamplighter.zones import parse_zone

TICKS = """
| cron            | spring, 2023-03                | autumn, 2023-10                |
| 0 * * * *       | 26T00 26T01 26T02 26T03        | 29T00 29T01 29T02 29T03        |
| 30 * * * *      | 25T23:30 26T00:30 26T01:30     | 28T23:30 29T00:30 29T01:30     |
| */30 * * * *    | 26T00 26T00:30 26T01 26T01:30  | 29T00 29T00:30 29T01 29T01:30  |
| 0 */1 * * *     | 26T00 26T01 26T02 26T03        | 29T00 29T01 29T02 29T03        |
| 0 0-23 * * *    | 26T00 26T01 26T02 26T03        | 29T00 29T01 29T02 29T03        |
| 30 2 * * *      | 25T01:30 26T01:30 27T00:30     | 28T00:30 29T01:30 30T01:30     |
| 0 2 * * *       | 25T01 26T01 27T00              | 28T00 29T01 30T01              |
| 0 3 * * *       | 25T02 26T01 27T01              | 28T01 29T02 30T02              |
| 0 0 * * *       | 24T23 25T23 26T22              | 27T22 28T22 29T23              |
| 0 */2 * * *     | 25T23 26T01 26T02 26T04        | 28T22 29T01 29T03 29T05        |
| 0 1,2,3 * * *   | 26T00 26T01 26T23 27T00 27T01  | 28T23 29T01 29T02 30T00 30T01  |
| 0 0 26,29 * *   | 25T23 28T22                    | 25T22 28T22                    |
| 0 12 * * 0      | 19T11 26T10                    | 22T10 29T11                    |
| 0 0 26 * 1      | 25T23 26T22                    | 25T22 29T23                    |
"""
MONTHS = ("2023-03", "2023-10")


def ticks_of(month: str, column: str) -> list[datetime]:
    """Return the naive UTC instants that one cell lists."""
    return [datetime.fromisoformat(f"{month}-{tick}") for tick in column.split()]


def rows() -> list[tuple[str, list[datetime]]]:
    """Return one pair of expression and ticks for each cell."""
    lines = [line.strip("| ").split("|") for line in TICKS.strip().splitlines()[1:]]
    return [
        (cells[0].strip(), ticks_of(month, cell))
        for cells in lines
        for month, cell in zip(MONTHS, cells[1:], strict=True)
    ]


def zurich(cron: str) -> CronSchedule:
    """Return the schedule of `cron` in Zurich."""
    return CronSchedule(cron, parse_zone("Europe/Zurich"))


@pytest.mark.parametrize(("cron", "ticks"), rows())
def test_ticks_walked_forwards_equal_table(cron: str, ticks: list[datetime]) -> None:
    """The tick after each listed one is the next in the list."""
    schedule = zurich(cron)
    assert [schedule.after(tick) for tick in ticks[:-1]] == ticks[1:]


@pytest.mark.parametrize(("cron", "ticks"), rows())
def test_ticks_walked_backwards_equal_table(cron: str, ticks: list[datetime]) -> None:
    """The tick before each listed one is the one that stands before it in the list."""
    schedule = zurich(cron)
    assert [schedule.before(tick) for tick in ticks[1:]] == ticks[:-1]


@pytest.mark.parametrize(("cron", "ticks"), rows())
def test_tick_aligned_either_way_stays(cron: str, ticks: list[datetime]) -> None:
    """An instant that is a tick is its own nearest tick in both directions."""
    schedule = zurich(cron)
    assert [schedule.at_or_after(tick) for tick in ticks] == ticks
    assert [schedule.at_or_before(tick) for tick in ticks] == ticks


@pytest.mark.parametrize(("cron", "ticks"), rows())
def test_instant_between_ticks_aligns_outwards(cron: str, ticks: list[datetime]) -> None:
    """Every instant between two ticks lies between exactly these two."""
    schedule = zurich(cron)
    for earlier, later in pairwise(ticks):
        for eighth in range(8):
            between = earlier.replace(microsecond=1) + (later - earlier) * eighth / 8
            assert schedule.at_or_before(between) == schedule.before(between) == earlier
            assert schedule.at_or_after(between) == schedule.after(between) == later


@pytest.mark.parametrize(
    ("cron", "t", "tick"),
    [
        ("30 2 * * *", "2023-03-26T01:10", "2023-03-25T01:30"),
        ("30 2 * * *", "2023-10-29T00:45", "2023-10-28T00:30"),
        ("0 1,2,3 * * *", "2023-03-26T01:00", "2023-03-26T00:00"),
    ],
    ids=["inside_the_gap", "inside_the_first_pass", "where_two_times_meet"],
)
def test_tick_before_changing_clocks_is_earlier(cron: str, t: str, tick: str) -> None:
    """Where the clocks change, the tick before an instant is still earlier than it."""
    assert zurich(cron).before(datetime.fromisoformat(t)) == datetime.fromisoformat(tick)
