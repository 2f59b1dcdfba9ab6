"""Assets, their events, and how far each consumer has consumed them."""

from pynamodb.attributes import (
    BooleanAttribute,
    JSONAttribute,
    NumberAttribute,
    TTLAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection, KeysOnlyProjection

from lamplighter.store.rows import Instant, Row

ITSELF = "#"
CONSUMER = "dag#"
# The asset id of rejected events. The colon cannot occur in an asset id.
REJECTED = ":rejected"


class _Open(GlobalSecondaryIndex["Assets"]):
    """Open assets: their newest event may not have reached every consumer."""

    class Meta:
        index_name = "open"
        projection = KeysOnlyProjection()

    open_shard = NumberAttribute(hash_key=True)
    open_since = Instant(range_key=True)


class Assets(Row):
    """An asset, alias or URI if `ref` is `#`, or one of its consumers: `dag#…`."""

    class Meta:
        table_name = "Assets"

    asset_id = UnicodeAttribute(hash_key=True)  # its id, derived from name or URI
    ref = UnicodeAttribute(range_key=True)  # `#` for itself
    kind = UnicodeAttribute(null=True)  # asset, alias or uri
    name = UnicodeAttribute(null=True)  # as authors write it
    uri = UnicodeAttribute(null=True)  # in its normal form
    group = UnicodeAttribute(null=True)  # as authors write it
    extra = JSONAttribute(null=True)  # as authors write it
    created_at = Instant(null=True)  # when it was first named

    # No gaps: the next event gets seq + 1.
    seq = NumberAttribute(null=True)
    recorded_at = Instant(null=True)  # of the newest event
    # Raised when consumers change, so that an event cannot miss one.
    refs_rev = NumberAttribute(null=True)
    # Set with every event, and removed when all consumers have been claimed. The instant is that of
    # the first event since then, so that the sweep also finds an asset with constant events.
    open_shard = NumberAttribute(null=True)
    open_since = Instant(null=True)  # since when it is open

    # Of a URI: the asset that has it, and whether a DAG waits for the URI.
    target = UnicodeAttribute(null=True)
    has_consumers = BooleanAttribute(null=True)  # whether a DAG waits for the URI
    # Of an asset: its URI, while a DAG waits for it; events are recorded there too.
    mirrored_uris = UnicodeSetAttribute(null=True)

    open = _Open()


class _BySeq(GlobalSecondaryIndex["AssetEvents"]):
    """The events of an asset by sequence number."""

    class Meta:
        index_name = "by_seq"
        projection = IncludeProjection(
            [
                "extra",
                "timestamp",
                "recorded_at",
                "source",
                "partition_key",
                "origin",
                "sender",
                "conflict",
            ]
        )

    asset_id = UnicodeAttribute(hash_key=True)
    seq = NumberAttribute(range_key=True)


class _Pending(GlobalSecondaryIndex["AssetEvents"]):
    """Events without a number."""

    class Meta:
        index_name = "pending"
        projection = KeysOnlyProjection()

    pending_shard = NumberAttribute(hash_key=True)
    send_at = Instant(range_key=True)


class AssetEvents(Row):
    """One event of an asset, recorded once."""

    class Meta:
        table_name = "AssetEvents"

    asset_id = UnicodeAttribute(hash_key=True)  # the asset, alias or URI
    event_id = UnicodeAttribute(range_key=True)  # the id by which repetitions are known
    seq = NumberAttribute(null=True)  # its number among the events of the asset
    origin = UnicodeAttribute(null=True)  # of a copy under an alias or URI: its asset
    timestamp = Instant()  # when it happened, as its sender says
    recorded_at = Instant()  # when it was recorded
    extra = JSONAttribute(null=True)  # the facts that its sender gave
    source = JSONAttribute(null=True)  # who says so
    partition_key = UnicodeAttribute(null=True)  # which part of the asset it is about
    # Who has sent its message, as SQS says: the id of a role with a session, a user or an account.
    sender = UnicodeAttribute(null=True)
    content_hash = UnicodeAttribute(null=True)  # by which another content is noticed
    # The newest event that came with the same id and other content: sender, message, instant.
    conflict = JSONAttribute(null=True)
    # The reason; such events are under `REJECTED`, and outlets' keep their own rows as well.
    rejected = UnicodeAttribute(null=True)
    # Until it has a number: its message, and when the sweep sends it again.
    message = UnicodeAttribute(null=True)
    pending_shard = NumberAttribute(null=True)  # the partition of the index
    send_at = Instant(null=True)  # when the sweep sends it again
    expires_at = TTLAttribute(null=True)  # when DynamoDB deletes it

    by_seq = _BySeq()
    pending = _Pending()


class AssetQueue(Row):
    """What a DAG has consumed of an asset. The rest up to the asset's `seq` is pending."""

    class Meta:
        table_name = "AssetQueue"

    dag_id = UnicodeAttribute(hash_key=True)  # the consumer
    asset_id = UnicodeAttribute(range_key=True)  # what it waits for
    since_seq = NumberAttribute()  # events up to here precede the DAG's reference
    consumed_seq = NumberAttribute()  # the last event that a run has taken
    # Ranges consumed without a run: [after, until, when, why].
    dropped = JSONAttribute(null=True)
