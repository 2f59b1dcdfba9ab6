"""Steps: one task in one run."""

from pynamodb.attributes import NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection

from lamplighter.store.attributes import Instant
from lamplighter.store.rows import Row


class _ByJob(GlobalSecondaryIndex["Steps"]):
    """The step of a Spark job."""

    class Meta:
        index_name = "by_job"
        projection = KeysOnlyProjection()

    job_run_id = UnicodeAttribute(hash_key=True)


class Steps(Row):
    """What became of a task in a run."""

    class Meta:
        table_name = "Steps"

    run_ref = UnicodeAttribute(hash_key=True)  # dag_id|run_key
    step_id = UnicodeAttribute(range_key=True)
    state = UnicodeAttribute()
    submission = NumberAttribute(default=0)
    job_run_id = UnicodeAttribute(null=True)
    started_at = Instant(null=True)
    ended_at = Instant(null=True)
    expires_at = TTLAttribute(null=True)

    by_job = _ByJob()
