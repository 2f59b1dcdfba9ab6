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
# Where events stand that belong to no asset. The colon keeps it apart from assets.
REJECTED = ":rejected"


class _Open(GlobalSecondaryIndex["Assets"]):
    """Assets whose newest event may not have reached everyone who waits for it."""

    class Meta:
        index_name = "open"
        projection = KeysOnlyProjection()

    open_shard = NumberAttribute(hash_key=True)
    open_since = Instant(range_key=True)


class Assets(Row):
    """An asset, alias or URI, where `ref` is `#`, or a DAG that waits for it: `dag#…`."""

    class Meta:
        table_name = "Assets"

    asset_id = UnicodeAttribute(hash_key=True)
    ref = UnicodeAttribute(range_key=True)
    kind = UnicodeAttribute(null=True)  # asset, alias or uri
    name = UnicodeAttribute(null=True)
    uri = UnicodeAttribute(null=True)
    group = UnicodeAttribute(null=True)
    extra = JSONAttribute(null=True)
    created_at = Instant(null=True)

    # Dense: the event that commits next gets seq + 1.
    seq = NumberAttribute(null=True)
    recorded_at = Instant(null=True)  # when the newest event was
    # Raised when a consumer comes or goes, so that an event cannot miss one.
    refs_rev = NumberAttribute(null=True)
    # Set with every event, and removed when all who waited have been looked at. The instant is that
    # of the first event since then: the sweep finds an asset also if events keep coming.
    open_shard = NumberAttribute(null=True)
    open_since = Instant(null=True)

    # Of a URI: the asset that has it, and whether a DAG waits for whichever asset that is.
    target = UnicodeAttribute(null=True)
    has_consumers = BooleanAttribute(null=True)
    # Of an asset: its URI, while that is waited for; its events are recorded there too.
    mirrored_uris = UnicodeSetAttribute(null=True)

    open = _Open()


class _BySeq(GlobalSecondaryIndex["AssetEvents"]):
    """The events of an asset in the order in which they were recorded."""

    class Meta:
        index_name = "by_seq"
        projection = IncludeProjection(
            ["extra", "timestamp", "recorded_at", "source", "partition_key", "origin"]
        )

    asset_id = UnicodeAttribute(hash_key=True)
    seq = NumberAttribute(range_key=True)


class _Pending(GlobalSecondaryIndex["AssetEvents"]):
    """Events that someone has yet to give a number."""

    class Meta:
        index_name = "pending"
        projection = KeysOnlyProjection()

    pending_shard = NumberAttribute(hash_key=True)
    send_at = Instant(range_key=True)


class AssetEvents(Row):
    """One event of an asset, recorded once."""

    class Meta:
        table_name = "AssetEvents"

    asset_id = UnicodeAttribute(hash_key=True)
    event_id = UnicodeAttribute(range_key=True)
    seq = NumberAttribute(null=True)
    origin = UnicodeAttribute(null=True)  # of an event recorded under an alias or URI: its asset
    timestamp = Instant()
    recorded_at = Instant()
    extra = JSONAttribute(null=True)
    source = JSONAttribute(null=True)
    partition_key = UnicodeAttribute(null=True)
    rejected = UnicodeAttribute(null=True)  # why; such events stand under an asset of their own
    # Until it has its number: what was sent for that, and when the sweep sends it again.
    message = UnicodeAttribute(null=True)
    pending_shard = NumberAttribute(null=True)
    send_at = Instant(null=True)
    expires_at = TTLAttribute(null=True)

    by_seq = _BySeq()
    pending = _Pending()


class AssetQueue(Row):
    """What a DAG has consumed of an asset. The rest, up to the asset's `seq`, is pending."""

    class Meta:
        table_name = "AssetQueue"

    dag_id = UnicodeAttribute(hash_key=True)
    asset_id = UnicodeAttribute(range_key=True)
    since_seq = NumberAttribute()  # events up to here came before the DAG waited for them
    consumed_seq = NumberAttribute()
    # Ranges that were consumed without a run: [after, until, when, why].
    dropped = JSONAttribute(null=True)
