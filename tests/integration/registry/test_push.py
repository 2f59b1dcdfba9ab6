"""Uploading an archive: never over one that is there."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError

from lamplighter import aws
from lamplighter.bundles.archive import build_archive
from lamplighter.identifiers import bundle_key
from lamplighter_local.stack import LocalStack
from lamplighter_operations import bundle_objects
from lamplighter_operations.push import push_archive

WriteBundle = Callable[[dict[str, str]], Path]

NOT_THERE_YET = (False, True)  # before the upload, and after it was refused


def stored(stack: LocalStack, key: str) -> bytes:
    """Return an object of the deployment's bucket."""
    body = aws.client("s3").get_object(Bucket=stack.settings.bucket, Key=key)["Body"]
    content: bytes = body.read()
    return content


def test_archive_uploaded_by_two_at_once_is_written_once(
    stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """The second of two pushes of the same content finds the first one's archive and keeps it."""
    archive = build_archive(write_bundle({"dags/a.py": ""}))
    key = bundle_key("shop", archive.hash)
    aws.client("s3").put_object(Bucket=stack.settings.bucket, Key=key, Body=b"the first one's")
    with patch.object(bundle_objects, "_exists", side_effect=NOT_THERE_YET):
        pushed = push_archive(archive, "shop")
    assert (pushed.number, stored(stack, key)) == (1, b"the first one's")


def test_archive_is_uploaded_where_the_bucket_may_not_be_listed(
    stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """To whoever has `grant_push`, S3 does not say that an object is missing: it answers 403."""
    archive = build_archive(write_bundle({"dags/a.py": ""}))
    with patch.object(aws.client("s3"), "head_object", side_effect=refusal(403)):
        pushed = push_archive(archive, "shop")
    assert (pushed.number, stored(stack, bundle_key("shop", archive.hash))) == (1, archive.data)


def refusal(status: int) -> ClientError:
    """Return S3's answer to a conditional upload that it does not carry out."""
    response = {"Error": {}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "PutObject")


@pytest.mark.parametrize(("status", "is_there"), [(403, True), (409, False), (412, False)])
def test_upload_that_failed_is_not_announced(
    stack: LocalStack, write_bundle: WriteBundle, status: int, is_there: bool
) -> None:
    """Another refusal, or a conflict that left no archive behind, is raised to whoever pushes."""
    archive = build_archive(write_bundle({"dags/a.py": ""}))
    client = aws.client("s3", read_seconds=bundle_objects._TRANSFER_SECONDS)
    with (
        patch.object(bundle_objects, "_exists", side_effect=(False, is_there)),
        patch.object(client, "put_object", side_effect=refusal(status)),
        pytest.raises(ClientError),
    ):
        push_archive(archive, "shop")
    listed = client.list_objects_v2(Bucket=stack.settings.bucket)
    assert [item["Key"] for item in listed.get("Contents", ()) if "pushes/" in item["Key"]] == []


def test_upload_in_conflict_with_another_is_announced(
    stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """S3 answers 409 while another upload of the same key ends; the archive is there afterwards."""
    archive = build_archive(write_bundle({"dags/a.py": ""}))
    client = aws.client("s3", read_seconds=bundle_objects._TRANSFER_SECONDS)
    with (
        patch.object(bundle_objects, "_exists", side_effect=NOT_THERE_YET),
        patch.object(client, "put_object", side_effect=refusal(409)),
    ):
        assert push_archive(archive, "shop").number == 1
    assert stored(stack, "pushes/shop/00000001.json")
