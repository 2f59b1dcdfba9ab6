"""What one job may do: an execution policy, which AWS intersects with the role of the job.

Owns: its statements. Outside the deployment's bucket, a job has whatever its role allows, unless
its task restricts it to its data; in the bucket, only what belongs to its own submission. Nothing
is denied by name: what no statement allows is forbidden.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lamplighter import settings
from lamplighter.aws import bucket_and_key
from lamplighter.errors import DefinitionError
from lamplighter.executors.base import JobRequest

# What EMR Serverless accepts.
MAX_LENGTH = 2_048
_READ = ("s3:GetObject",)
_WRITE = ("s3:PutObject", "s3:AbortMultipartUpload")
_DELETE = ("s3:DeleteObject",)
_LIST = ("s3:ListBucket", "s3:GetBucketLocation")
_S3 = re.compile(r"s3[an]?://([a-z0-9][a-z0-9.-]+)(?:/(.*))?", re.DOTALL)
# What IAM would not take literally.
_SPECIAL = re.compile(r"[*?$]")


def job_policy(request: JobRequest) -> str:
    """Return the policy of a job; raises `DefinitionError` if it would be too long."""
    if request.data is not None and not _places(request.data.inlets + request.data.outlets):
        raise DefinitionError(
            "restrict_data: no inlet or outlet has an S3 URI outside the bucket of the deployment,"
            " so that there is nothing left for the job to read or write: declare its data"
        )
    written = json.dumps(
        {"Version": "2012-10-17", "Statement": list(_statements(request))}, separators=(",", ":")
    )
    if len(written) > MAX_LENGTH:
        raise DefinitionError(
            f"restrict_data: a policy for all inlets and outlets has {len(written):,} characters,"
            f" and EMR Serverless takes {MAX_LENGTH:,}: declare fewer of them, or a common folder"
        )
    return written


def _statements(request: JobRequest) -> Iterator[Mapping[str, Any]]:
    given = settings.current()
    bucket = given.bucket
    own, folder = _arn(bucket), request.folder
    # Its version is a hash of its content, and its name may be long.
    bundle = f"bundles/*/{request.bundle_uri.rpartition('/')[2]}"
    reads = [f"{own}/{key}" for key in (bundle, f"{given.runtime}/*", f"{folder}/context.json")]
    writes = [f"{own}/{folder}/report.json"]
    if given.job_logs_uri.startswith(f"s3://{bucket}/"):
        # Who started a job learns its id too late to name it here.
        writes.append(f"{own}/{bucket_and_key(given.job_logs_uri)[1].rstrip('/')}/*")
    if request.data is None:
        yield {"Effect": "Allow", "Action": "*", "NotResource": [own, f"{own}/*"]}
    else:
        yield {"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"}
        reads += _objects(request.data.inlets)
        yield from _allow((*_READ, *_WRITE, *_DELETE), _objects(request.data.outlets))
        places = _places((*request.data.inlets, *request.data.outlets))
        yield from _allow(_LIST, [_arn(other) for other, _ in places])
    yield from _allow(_READ, reads)
    yield from _allow(_WRITE, writes)
    # Hadoop asks whether there is a folder of that name, or above it.
    prefixes = [f"{bundle}*", f"{given.runtime}/*", f"{folder.partition('/*/')[0]}/*"]
    below = {"StringLike": {"s3:prefix": prefixes}}
    yield {"Effect": "Allow", "Action": _LIST[0], "Resource": own, "Condition": below}


def _allow(actions: Sequence[str], resources: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    if found := list(dict.fromkeys(resources)):
        yield {"Effect": "Allow", "Action": list(actions), "Resource": found}


def _objects(uris: Iterable[str]) -> Iterator[str]:
    """Yield the patterns of the objects at and below URIs."""
    for bucket, key in _places(uris):
        literally = _SPECIAL.sub(r"${\g<0>}", key)
        at = f"{_arn(bucket)}/{literally}".rstrip("/")
        yield from ([at] if key else [])
        yield f"{at}/*"


def _places(uris: Iterable[str]) -> list[tuple[str, str]]:
    """Return bucket and key of the URIs of S3, but none in the deployment's own bucket."""
    found = (place for uri in uris if (place := _S3.fullmatch(uri)) is not None)
    own = settings.current().bucket
    return [(place[1], (place[2] or "").strip("/")) for place in found if place[1] != own]


def _arn(bucket: str) -> str:
    # The partition of the role: `aws`, but not everywhere.
    partition = (settings.current().emr_job_role_arn.split(":") + ["aws"] * 2)[1]
    return f"arn:{partition}:s3:::{bucket}"
