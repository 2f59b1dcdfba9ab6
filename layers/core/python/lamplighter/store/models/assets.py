"""Assets, their events, and how far each consumer has consumed them."""

from pynamodb.attributes import JSONAttribute, NumberAttribute, TTLAttribute, UnicodeAttribute
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection, KeysOnlyProjection

from lamplighter.store.attributes import Instant
from lamplighter.store.rows import Row

ITSELF = "#"


class Assets(Row):
    """An asset, where `ref` is `#`, or a DAG that consumes it, where it is `dag#…`."""

    class Meta:
        table_name = "Assets"

    asset_id = UnicodeAttribute(hash_key=True)
    ref = UnicodeAttribute(range_key=True)
    kind = UnicodeAttribute(null=True)  # asset, alias, or uri: a row that leads to the asset
    name = UnicodeAttribute(null=True)
    uri = UnicodeAttribute(null=True)
    group = UnicodeAttribute(null=True)
    extra = JSONAttribute(null=True)
    target = UnicodeAttribute(null=True)
    # Dense: the event that commits next gets seq + 1.
    seq = NumberAttribute(null=True)
    # Raised when a consumer comes or goes, so that an event cannot miss one.
    refs_rev = NumberAttribute(null=True)
    created_at = Instant(null=True)


class _BySeq(GlobalSecondaryIndex["AssetEvents"]):
    """The events of an asset in the order in which they were recorded."""

    class Meta:
        index_name = "by_seq"
        projection = IncludeProjection(["extra", "timestamp", "source"])

    asset_id = UnicodeAttribute(hash_key=True)
    seq = NumberAttribute(range_key=True)


class _Pending(GlobalSecondaryIndex["AssetEvents"]):
    """Events that someone has yet to give a sequence or hand on."""

    class Meta:
        index_name = "pending"
        projection = KeysOnlyProjection()

    fan_shard = NumberAttribute(hash_key=True)
    recorded_at = Instant(range_key=True)


class AssetEvents(Row):
    """One event of an asset, recorded once."""

    class Meta:
        table_name = "AssetEvents"

    asset_id = UnicodeAttribute(hash_key=True)
    event_id = UnicodeAttribute(range_key=True)
    seq = NumberAttribute(null=True)
    timestamp = Instant()
    recorded_at = Instant()
    extra = JSONAttribute(null=True)
    source = JSONAttribute(null=True)
    partition_key = UnicodeAttribute(null=True)
    fan_shard = NumberAttribute(null=True)
    expires_at = TTLAttribute(null=True)

    by_seq = _BySeq()
    pending = _Pending()


class AssetQueue(Row):
    """What one consumer has seen of one asset: events up to `consumed_seq` have become runs."""

    class Meta:
        table_name = "AssetQueue"

    dag_id = UnicodeAttribute(hash_key=True)
    asset_id = UnicodeAttribute(range_key=True)
    last_seq = NumberAttribute()
    consumed_seq = NumberAttribute()
