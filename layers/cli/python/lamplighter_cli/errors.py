"""Errors of AWS as one-line messages that say what the user can do."""

import re
from collections.abc import Iterator, Sequence

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)

from lamplighter.errors import LamplighterError, PermanentError, TransientError
from lamplighter.store.rows import StoreError

# Our errors that wrap one of AWS; all others already have a message for the user.
_WRAPPERS = (TransientError, PermanentError)
_WHICH = "choose a deployment with --stack, --local or LAMPLIGHTER_TABLE_PREFIX, and a --region"
_SIGN_IN = "sign in, or choose another --profile"
_BY_KIND: dict[type[Exception], str] = {
    NoCredentialsError: "no AWS credentials: sign in, choose a --profile, or use --local",
    PartialCredentialsError: f"the AWS credentials are incomplete: {_SIGN_IN}",
    NoRegionError: "no AWS region: set --region or AWS_REGION, or use --local",
}
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired")
_UNKNOWN = (
    "InvalidClientTokenId",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
    "AuthFailure",
)
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
_NO_TABLE = "Requested resource not found"
# PynamoDB names the tables of a request; the answer of DynamoDB does not.
_TABLES = re.compile(r" on table \(([^)]+)\) ")
_NO_QUEUE = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")


def explain(error: BaseException) -> str | None:
    """Return a message for an error of AWS, or None if the error's own text will do."""
    if isinstance(error, LamplighterError) and not isinstance(error, _WRAPPERS):
        return None
    found = [each for each in _chain(error) if isinstance(each, BotoCoreError | ClientError)]
    if not found:
        return _one_line(error) if isinstance(error, StoreError) else None
    cause = found[-1]
    if isinstance(cause, ClientError):
        missing = _missing(cause, found)
        if missing is not None:
            return f"{missing} does not exist in this account and region: {_WHICH}"
        return _explain_service_error(cause)
    if isinstance(cause, EndpointConnectionError | ConnectTimeoutError):
        url = cause.kwargs.get("endpoint_url", "AWS")
        return f"{url} cannot be reached: check the network, --region and --endpoint-url"
    if isinstance(cause, ProfileNotFound):
        name = cause.kwargs["profile"]
        return f"there is no AWS profile {name!r}: see `aws configure list-profiles`"
    return _BY_KIND.get(type(cause), f"AWS: {_one_line(cause)}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    at: BaseException | None = error
    while at is not None:
        yield at
        inner = at.cause if isinstance(at, StoreError) else None
        at = inner or at.__cause__


def _missing(cause: ClientError, chain: Sequence[BaseException]) -> str | None:
    """Return which resource AWS does not have, by its name where one of the errors tells it."""
    code, message = (cause.response["Error"].get(name, "") for name in ("Code", "Message"))
    if code in _NO_QUEUE:
        return "the queue"
    if code == "NoSuchBucket":
        return f"the bucket {cause.response['Error'].get('BucketName', '')}".rstrip()
    if code != "ResourceNotFoundException":
        return None
    if cause.operation_name == "Invoke":
        return f"the function {message.rpartition(':')[2]}"
    for each in chain:
        if (named := _TABLES.search(str(each))) is not None:
            return f"the table {' or '.join(sorted(set(named[1].split(','))))}"
    return "a table" if message.startswith(_NO_TABLE) else None


def _explain_service_error(error: ClientError) -> str:
    code = error.response["Error"].get("Code", "")
    if code in _EXPIRED:
        return f"the AWS credentials have expired: {_SIGN_IN}"
    if code in _UNKNOWN:
        return f"the AWS credentials are not valid ({code}): {_SIGN_IN}"
    if code in _DENIED:
        return f"these AWS credentials do not allow it: {_one_line(error)}"
    return f"AWS: {_one_line(error)}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
