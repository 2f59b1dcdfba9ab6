"""Limits: what steps of all DAGs share."""

from pynamodb.attributes import JSONAttribute, NumberAttribute, UnicodeAttribute

from lamplighter.store.rows import Instant, Row


class Limits(Row):
    """A counter (a pool, the capacity of an executor) or a token bucket (its job starts)."""

    class Meta:
        table_name = "Limits"

    limit_id = UnicodeAttribute(hash_key=True)  # pool:etl, capacity:emr-serverless, starts:…

    # A counter: its size by resource, and what is free of each; negative after it was lowered.
    sizes = JSONAttribute(null=True)
    free_slots = NumberAttribute(null=True)
    free_vcpus = NumberAttribute(null=True)
    free_memory_gb = NumberAttribute(null=True)
    free_disk_gb = NumberAttribute(null=True)
    description = UnicodeAttribute(null=True)  # of a pool
    # When a step last had to wait for it; whoever frees something then starts those that wait.
    waited_at = Instant(null=True)

    # A token bucket: the newest start that was reserved, perhaps in the future, and until when the
    # rate is lowered because a call was throttled.
    last_start_at = Instant(null=True)
    slow_until = Instant(null=True)
