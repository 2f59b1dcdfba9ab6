"""Jobs of Python tasks, for which Lambda itself keeps no record that could be asked."""

from pynamodb.attributes import NumberAttribute, TTLAttribute, UnicodeAttribute

from lamplighter.store.rows import Instant, Row


class Jobs(Row):
    """One job on Lambda: whoever moves it to RUNNING runs it, and nobody else ever does."""

    class Meta:
        table_name = "Jobs"

    job_id = UnicodeAttribute(hash_key=True)  # the name of the submission
    state = UnicodeAttribute()  # SUBMITTED, RUNNING, SUCCESS, FAILED, CANCELLING, CANCELLED
    context_uri = UnicodeAttribute()
    bundle_uri = UnicodeAttribute()
    timeout_seconds = NumberAttribute(null=True)
    requested_at = Instant()

    # The invocation that runs it; after the deadline it is certainly dead.
    claim_id = UnicodeAttribute(null=True)
    started_at = Instant(null=True)
    deadline = Instant(null=True)
    # What is billed: missing if nothing is.
    memory_mb = NumberAttribute(null=True)
    architecture = UnicodeAttribute(null=True)

    ended_at = Instant(null=True)
    details = UnicodeAttribute(null=True)
    expires_at = TTLAttribute(null=True)
