"""Why a backfill is refused. The names are Airflow's, so that whoever knows them finds them."""

from lamplighter.errors import RefusedError


class DagNotFound(RefusedError):
    """There is no such DAG, or it is in no bundle any more, or its file has import errors."""


class DagRunTypeNotAllowed(RefusedError):
    """The DAG's `allowed_run_types` leave backfills out."""


class DagNonPeriodicScheduleException(RefusedError):
    """The schedule has no dates that could be walked: none at all, once, continuous, assets."""


class AlreadyRunningBackfill(RefusedError):
    """Another backfill of the DAG is not over."""


class InvalidBackfillDateRange(RefusedError):
    """The range ends before it begins."""


class InvalidBackfillDate(RefusedError):
    """The whole range lies in the future."""


class InvalidBackfillDirection(RefusedError):
    """A task that waits for the run before it cannot go backwards."""


class InvalidReprocessBehavior(RefusedError):
    """No such rule; or a task waits for the run before it, and that may not be run again."""


class InvalidBackfillConf(RefusedError):
    """The parameters are not JSON."""


class NoBackfillRunsToCreate(RefusedError):
    """No date in the range needs a run."""
