"""Archives of bundles in the bucket, and what a check found in each.

Owns: the objects below `bundles/`. An archive is named by its content and never overwritten. Beside
it is a manifest, the digests of its files and the schedules of its DAGs, which only people look at.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from lamplighter import aws, settings
from lamplighter.bundles.archive import MAX_ARCHIVE_BYTES, Archive, open_stored
from lamplighter.bundles.parsing import CheckedDag
from lamplighter.errors import RefusedError
from lamplighter.identifiers import bundle_key

# For an archive over a slow connection.
_TRANSFER_SECONDS = 120.0
# S3 says 403 of a key that does not exist to whoever may not list the bucket.
_NOT_FOUND = frozenset({403, 404})


def put_archive(bundle: str, archive: Archive) -> None:
    """Upload an archive, unless it exists."""
    # Only to save the upload: S3 itself refuses to write over an object.
    bucket, key = _bucket(), bundle_key(bundle, archive.hash)
    if not _exists(bucket, key):
        _put_if_absent(bucket, key, archive.data)


def _bucket() -> str:
    return str(settings.current().require("bucket"))


def _put_if_absent(bucket: str, key: str, data: bytes) -> None:
    client = aws.client("s3", read_seconds=_TRANSFER_SECONDS)
    try:
        client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
    except ClientError as error:
        # 412: it exists. 409: a concurrent write or delete.
        if _status(error) not in {412, 409} or not _exists(bucket, key):
            raise


def _exists(bucket: str, key: str) -> bool:
    try:
        aws.client("s3").head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if _status(error) in _NOT_FOUND:
            return False
        raise
    return True


def _status(error: ClientError) -> int | None:
    status: int | None = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status


def read_archive(bundle: str, version: str) -> bytes:
    """Return the bytes of an archive; whoever opens them verifies that they are what it names."""
    client = aws.client("s3", read_seconds=_TRANSFER_SECONDS)
    key = bundle_key(bundle, version)
    try:
        body = client.get_object(Bucket=_bucket(), Key=key)["Body"]
    except client.exceptions.NoSuchKey as error:
        raise RefusedError(
            f"the archive {key} is no longer in the bucket {_bucket()}: push the bundle's files"
        ) from error
    # One byte more than allowed is enough to be refused.
    return bytes(body.read(MAX_ARCHIVE_BYTES + 1))


def open_verified(bundle: str, version: str, data: bytes, into: Path) -> Archive:
    """Unpack an archive if its content is what its name says; return it with the same bytes."""
    open_stored(data, bundle_key(bundle, version), into)
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        names = tuple(sorted(name for name in packed.namelist() if not name.endswith("/")))
    return Archive(data, version, names)


# Manifests.


@dataclass(frozen=True)
class Manifest:
    """What an archive holds: the digest of each file, and the schedule of each DAG."""

    files: Mapping[str, str]
    dags: Mapping[str, str]


@dataclass(frozen=True)
class Changes:
    """What differs between two manifests: names that are added, removed and changed."""

    dags_added: Mapping[str, str] = field(default_factory=dict)
    dags_removed: Mapping[str, str] = field(default_factory=dict)
    # The schedules before and after.
    schedules_changed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    files_added: Sequence[str] = ()
    files_removed: Sequence[str] = ()
    files_changed: Sequence[str] = ()


def put_manifest(bundle: str, archive: Archive, dags: Iterable[CheckedDag]) -> None:
    """Store what a check of an archive found; the newest check counts."""
    with zipfile.ZipFile(io.BytesIO(archive.data)) as packed:
        files = {name: hashlib.sha256(packed.read(name)).hexdigest() for name in archive.files}
    found: dict[str, Any] = {"files": files, "dags": {dag.dag_id: dag.schedule for dag in dags}}
    aws.client("s3", read_seconds=_TRANSFER_SECONDS).put_object(
        Bucket=_bucket(),
        Key=manifest_key(bundle, archive.hash),
        Body=json.dumps(found, sort_keys=True).encode(),
        ContentType="application/json",
    )


def manifest_key(bundle: str, version: str) -> str:
    """Return where in the bucket the manifest of an archive is."""
    return bundle_key(bundle, version).removesuffix(".zip") + ".json"


def read_manifest(bundle: str, version: str) -> Manifest | None:
    """Return the manifest of an archive, or None if it was pushed without a check."""
    client = aws.client("s3", read_seconds=_TRANSFER_SECONDS)
    try:
        body = client.get_object(Bucket=_bucket(), Key=manifest_key(bundle, version))["Body"]
    except client.exceptions.NoSuchKey:
        return None
    found = json.loads(body.read())
    return Manifest(found["files"], found["dags"])


def changes_between(before: Manifest, after: Manifest) -> Changes:
    """Return what differs between two archives."""
    kept_dags = before.dags.keys() & after.dags.keys()
    kept_files = before.files.keys() & after.files.keys()
    return Changes(
        dags_added=_only(after.dags, before.dags),
        dags_removed=_only(before.dags, after.dags),
        schedules_changed={
            dag_id: (before.dags[dag_id], after.dags[dag_id])
            for dag_id in sorted(kept_dags)
            if before.dags[dag_id] != after.dags[dag_id]
        },
        files_added=list(_only(after.files, before.files)),
        files_removed=list(_only(before.files, after.files)),
        files_changed=sorted(n for n in kept_files if before.files[n] != after.files[n]),
    )


def _only(these: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    return {name: these[name] for name in sorted(these.keys() - others.keys())}
