"""DagVersions: every definition a DAG ever had. Written once, never changed."""

from pynamodb.attributes import BinaryAttribute, UnicodeAttribute

from lamplighter.store.rows import Instant
from lamplighter.store.rows import Row


class DagVersions(Row):
    """One definition of a DAG, as the document that its bundle gave."""

    class Meta:
        table_name = "DagVersions"

    dag_id = UnicodeAttribute(hash_key=True)
    version = UnicodeAttribute(range_key=True)  # 000001, 000002, …
    hash = UnicodeAttribute()
    bundle = UnicodeAttribute()
    bundle_version = UnicodeAttribute()  # the first that had this definition
    created_at = Instant()
    # One of the two: JSON to read, or compressed where it is long.
    document = UnicodeAttribute(null=True)
    document_gzip = BinaryAttribute(null=True, legacy_encoding=False)
