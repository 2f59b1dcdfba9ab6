"""A deployment whose `check_invariants` checks everything that this project promises."""

from typing import Any

from lamplighter.store.dags import require_dag
from lamplighter.store.models import Dags
from lamplighter.timetables.base import DagRunInfo
from lamplighter_local import deployment
from lamplighter_local.aws_lambda.fake_lambda import FakeLambda
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.lifecycle import when_open
from tests.tools.invariants.origins import Origins
from tests.tools.invariants.steps import job_violations
from tests.tools.invariants.tables import violations


class LocalDeployment(deployment.LocalDeployment):
    """The shipped one, which also knows where the present schedule of each DAG began."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._origins = Origins()

    def _note_push(self, before: Dags | None, after: Dags) -> DagRunInfo | None:
        is_new = self._origins.note_push(before, after)
        last_skipped = super()._note_push(before, after)
        if is_new and not self._catch_up:
            self._origins.begin_at(after.dag_id, last_skipped)
        return last_skipped

    @when_open
    def unpause(
        self, dag_id: str, *, missed: str | None = None, keep_events: bool | None = None
    ) -> None:
        super().unpause(dag_id, missed=missed, keep_events=keep_events)
        row = require_dag(dag_id)
        if not (missed == "catchup" or (missed is None and row.catchup)):
            # What was passed over is nobody's debt.
            self._origins.note_skipped(row)

    @when_open
    def check_invariants(self) -> None:
        """Raise an `AssertionError` that says what is wrong in the tables, if anything is.

        It may be called at any time. While messages wait or are being redelivered, that something
        has not reached its consumer yet is not wrong.
        """
        is_idle = self.stack.is_idle()
        found = violations(origins=self._origins.now(), is_idle=is_idle)
        found += self._origins.missing()
        for fake in self.stack.execution.fakes.values() if self.stack.execution else ():
            assert isinstance(fake, FakeEmr | FakeLambda)
            found += job_violations(fake, is_idle=is_idle)
        if found:
            raise AssertionError("\n".join(found))
