"""`lamplighter check` warns of timetables that read the clock."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lamplighter_cli.clock_reads import clock_reads
from tests.integration.cli.conftest import Command

WriteBundle = Callable[[dict[str, str]], Path]

PULSE = """
import datetime as dt
from lamplighter.timetables.base import DagRunInfo, DataInterval, Timetable

class Pulse(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        if start > dt.datetime.now(dt.UTC):
            return None
        return DagRunInfo.interval(start, start + dt.timedelta(hours=1))
"""
DAGS = """
from lamplighter import DAG
from timetables.pulse import Pulse
DAG("pulse", schedule=Pulse(), catchup=False)
"""


def found(root: Path) -> list[tuple[str, int | None, str]]:
    """Return where and what is read."""
    return [
        (each.file, each.line, each.message.partition("(")[2].partition(")")[0])
        for each in clock_reads(root)
    ]


def test_check_warns_of_a_timetable_that_reads_the_clock(
    write_bundle: WriteBundle, alone: Command
) -> None:
    """One line with the place and the reason; a warning is not an error."""
    root = write_bundle({"dags/a.py": DAGS, "timetables/pulse.py": PULSE})
    result = alone("check", root)
    (line,) = (line for line in result.out.splitlines() if "reads the clock" in line)
    assert line == (
        "warning: timetables/pulse.py:9: timetable 'Pulse' reads the clock (datetime.datetime.now):"
        " a schedule must depend only on its arguments; lamplighter.clock.now() is the instant that"
        " it is asked about"
    )
    assert result.code == 0


@pytest.mark.parametrize(
    ("imports", "expression", "read"),
    [
        ("from datetime import datetime", "datetime.now()", "datetime.datetime.now"),
        ("from datetime import datetime as dt", "dt.utcnow()", "datetime.datetime.utcnow"),
        ("import datetime", "datetime.date.today()", "datetime.date.today"),
        ("from datetime import date", "date.today()", "datetime.date.today"),
        ("import time", "time.time()", "time.time"),
        ("from time import time as seconds", "seconds()", "time.time"),
        ("import pendulum", "pendulum.now('UTC').start_of('day')", "pendulum.now"),
        ("import pendulum as p", "p.today()", "pendulum.today"),
        ("from pendulum import now", "(lambda: now)()()", "pendulum.now"),
        ("from pendulum import DateTime", "DateTime.utcnow()", "pendulum.DateTime.utcnow"),
        ("from pendulum import Date", "Date.today()", "pendulum.Date.today"),
    ],
)
def test_every_way_to_read_the_clock_is_found(
    write_bundle: WriteBundle, imports: str, expression: str, read: str
) -> None:
    """However it is imported and called."""
    text = f"{imports}\nclass A(MyTimetable):\n    def next(self):\n        return {expression}\n"
    assert found(write_bundle({"timetables/a.py": text})) == [("timetables/a.py", 4, read)]


def test_functions_that_a_timetable_uses_are_looked_at(write_bundle: WriteBundle) -> None:
    """Those of its own file, also by way of others; a class between two files is one too."""
    text = """
import time
from timetables.base import Mine

def indirectly():
    return directly()

def directly():
    return time.time()

def elsewhere():
    return time.time()

class A(Mine):
    def next(self):
        return indirectly()
"""
    base = "from lamplighter.timetables.base import Timetable\nclass Mine(Timetable): ...\n"
    root = write_bundle({"lib/a.py": text, "timetables/base.py": base})
    assert found(root) == [("lib/a.py", 9, "time.time")]


def test_what_is_no_timetable_may_read_the_clock(write_bundle: WriteBundle) -> None:
    """A job may, and so may a class that only stands beside a timetable; and dates are no clock."""
    text = """
from datetime import datetime
import pendulum

class Job:
    def run(self):
        return datetime.now()

class A(Timetable):
    def next(self):
        return pendulum.datetime(2026, 1, 1), datetime(2026, 1, 1), self.now()
"""
    root = write_bundle({"jobs/a.py": text, "dags/broken.py": "class (:\n"})
    assert found(root) == []
