"""Where the present schedule of each DAG began, as far as pushes have changed it.

The checks of a schedule start there. While an old schedule is followed, they check that one; after
the switch the new one, from the last run of the old one on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pendulum import DateTime

from lamplighter.scheduler import cursor
from lamplighter.scheduler.claim_decision import key_of
from lamplighter.scheduler.schedules import schedule_in_force
from lamplighter.store.dags import read_dag
from lamplighter.store.models import Dags, Runs
from lamplighter.timetables.base import DagRunInfo, DataInterval

_MOST = 20_000


@dataclass(frozen=True)
class _Switch:
    """An edit whose old schedule owed runs: until when, and which, by key, where that is known."""

    at: DateTime
    owed: Mapping[str, DagRunInfo]


@dataclass
class Origins:
    """What is known of the edits of schedules in one test."""

    _begun: dict[str, DagRunInfo] = field(default_factory=dict)
    _switches: dict[str, _Switch] = field(default_factory=dict)
    _missing: list[str] = field(default_factory=list)

    def begin_at(self, dag_id: str, origin: DagRunInfo | None) -> None:
        """Let the schedule of a DAG be checked from a run on."""
        self._switches.pop(dag_id, None)
        if origin is not None:
            self._begun[dag_id] = origin

    def note_skipped(self, row: Dags) -> None:
        """Take note that runs before a row's position, or its next run, are nobody's debt."""
        self.begin_at(row.dag_id, cursor.position(row))
        if row.schedule_switch_at is not None:
            self._switches[row.dag_id] = _Switch(
                row.schedule_switch_at, _owed(row, row.schedule_switch_at)
            )

    def note_push(self, before: Dags | None, after: Dags) -> bool:
        """Take note of a DAG's row before and after a push; return whether its schedule is new."""
        is_kept = after.schedule_switch_at is not None
        if before is None:
            self.begin_at(after.dag_id, cursor.position(after))
            return True
        if (
            _schedule(before) == _schedule(after)
            and before.schedule_switch_at == after.schedule_switch_at
        ):
            return False
        self._settle(before)
        if not is_kept:
            # With `skip_owed`, a push moves the position too.
            self.begin_at(after.dag_id, cursor.position(after))
        elif before.schedule_switch_at is None:
            assert after.schedule_switch_at is not None
            self._switches[after.dag_id] = _Switch(
                after.schedule_switch_at, _owed(after, after.schedule_switch_at)
            )
        return True

    def now(self) -> Mapping[str, DagRunInfo]:
        """Return, by DAG, the run after which the schedule that it follows now began."""
        for dag_id in list(self._switches):
            row = read_dag(dag_id)
            if row is not None:
                self._settle(row)
        return dict(self._begun)

    def missing(self) -> list[str]:
        """Return the runs of old schedules that should have been created before the switch."""
        return list(self._missing)

    def _settle(self, row: Dags) -> None:
        """Let the new schedule begin after the last run of the old one, once it has switched."""
        switch = self._switches.get(row.dag_id)
        if switch is None or row.schedule_switch_at is not None:
            return
        runs = list(Runs.query(row.dag_id, consistent_read=True))
        keys = {run.run_key for run in runs}
        lost = sorted(switch.owed.keys() - keys)
        self._missing += [f"DAG {row.dag_id}: no run {key} of its old schedule" for key in lost]
        # Also dates of which someone has made a run by hand: the schedule has passed them.
        old = [info for key, info in switch.owed.items() if key in keys]
        old += [
            _info(run) for run in runs if run.run_type == "scheduled" and run.run_after <= switch.at
        ]
        last = max(old, key=lambda info: info.logical_date or info.run_after, default=None)
        self.begin_at(row.dag_id, last)


def _schedule(row: Dags) -> tuple[object, ...]:
    return (row.timetable, row.earliest, row.latest, row.catchup)


def _owed(row: Dags, until: DateTime) -> Mapping[str, DagRunInfo]:
    stored, schedule = cursor.stored_next(row), schedule_in_force(row)
    if stored is None or schedule.is_custom or cursor.is_continuous(row):
        return {}
    due = cursor.runs_due(
        cursor.timetable_runs(row), stored, catchup=schedule.catchup, now=until, limit=_MOST
    )
    return {key_of(row, info): info for info in due.runs}


def _info(run: Runs) -> DagRunInfo:
    start, end = run.data_interval_start, run.data_interval_end
    interval = None if start is None or end is None else DataInterval(start, end)
    return DagRunInfo(run.run_after, interval, partition_key=run.partition_key)
