"""Pushes a bundle: uploads its archive, and announces it to `register`."""

from pathlib import Path

from botocore.exceptions import ClientError

from lamplighter import aws, settings
from lamplighter.bundles.archive import Archive, build_archive
from lamplighter.identifiers import bundle_key, require_id
from lamplighter.registry import pushes
from lamplighter.registry.pushes import Push
from lamplighter.store.bundles import next_push_number

# For an archive over a slow connection.
_UPLOAD_SECONDS = 120.0


def push_bundle(root: Path, bundle: str, *, skip_owed: bool = False) -> Push:
    """Upload and announce the bundle at `root`; return the push.

    With `skip_owed`, runs that a new or changed schedule owes at the push are not created.
    """
    require_id(bundle, what="bundle")
    return push_archive(build_archive(root), bundle, skip_owed=skip_owed)


def push_archive(archive: Archive, bundle: str, *, skip_owed: bool = False) -> Push:
    """Upload an archive, unless it exists, and announce it."""
    bucket, key = settings.current().require("bucket"), bundle_key(bundle, archive.hash)
    if not _exists(bucket, key):
        _put_if_absent(bucket, key, archive.data)
    push = Push(bundle, archive.hash, next_push_number(bundle), skip_owed=skip_owed)
    pushes.announce(push)
    return push


def _put_if_absent(bucket: str, key: str, data: bytes) -> None:
    """Upload an archive without overwriting an existing one."""
    client = aws.client("s3", read_seconds=_UPLOAD_SECONDS)
    try:
        client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
    except ClientError as error:
        # 412: it exists. 409: a concurrent write or delete.
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status not in {412, 409} or not _exists(bucket, key):
            raise


def _exists(bucket: str, key: str) -> bool:
    try:
        aws.client("s3").head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:  # noqa: PLR2004 - HTTP's
            return False
        raise
    return True
