"""One of the processes of a storm in which a bundle with many DAGs is pushed again and again.

A program that `test_crowds` and `test_schedule_pushes` start several of. It does what `producer.py`
does, with other DAGs, and time may pass meanwhile.
"""

from datetime import timedelta
from typing import Any

from lamplighter import DAG, Asset
from lamplighter.timetables.trigger import CronTriggerTimetable
from tests.concurrency import producer, turns
from tests.concurrency.storms import NOON

POPULAR, RARE = Asset("popular"), Asset("rare")
PLAIN, EDITED = "plain", "edited"
HOURLY, HALF_HOURLY = "hourly", "half_hourly"
START = NOON.subtract(hours=6)


def dags_of(version: str) -> list[DAG]:
    """Return the DAGs of a version of the bundle: of `plain-60`, or of `hourly-8`."""
    name, _, count = version.partition("-")
    make = consumer if name in {PLAIN, EDITED} else scheduled
    return [make(name, number) for number in range(int(count))]


def consumer(version: str, number: int) -> DAG:
    """Return one of many DAGs that wait for the same asset.

    In the edited version some wait for another asset as well, and some for that one only. The first
    one always waits for both, so that both are known.
    """
    edited = (POPULAR | RARE, POPULAR, POPULAR & RARE, RARE)
    condition = edited[number % 4] if version == EDITED or not number else POPULAR
    return DAG(f"consumer_{number:03}", schedule=condition, max_active_runs=1 + number % 2)


def scheduled(version: str, number: int) -> DAG:
    """Return one of several DAGs that run every hour, or every half hour in the other version."""
    is_hourly = version == HOURLY
    cron = "0 * * * *" if is_hourly else "*/30 * * * *"
    delta = timedelta(hours=1) if is_hourly else timedelta(minutes=30)
    schedules: tuple[Any, ...] = (cron, delta, CronTriggerTimetable(cron, timezone="UTC"))
    return DAG(
        f"scheduled_{number}",
        schedule=schedules[number % 3],
        start_date=START,
        catchup=True,
        max_active_runs=1 + number % 2,
    )


class Thread(producer.Thread):
    """One thread, in a storm in which DAGs come due by the clock if it moves."""

    def ingest(self) -> bool:
        """Be the consumer of `events`; the last event comes after the pushes of this process.

        A push looks at every consumer, and would make up for one that was forgotten.
        """
        queues = self.process.queues
        if len(queues["registers"]) and len(queues["events"]) <= 1:
            return False
        return super().ingest()

    def is_moving(self) -> bool:
        """Return whether more can come due by the clock."""
        return not self.process.storm.messages and turns.Thread.is_moving(self)


if __name__ == "__main__":
    producer.take_part(dags_of, Thread)
