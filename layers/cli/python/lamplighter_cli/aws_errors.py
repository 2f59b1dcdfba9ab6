"""What AWS said, as one line that tells a person what to do about it."""

from collections.abc import Iterator

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

# Errors of ours that stand for one of AWS; the others were made for people.
_OF_A_SERVICE = (TransientError, PermanentError)
_WHICH = "name the deployment with --stack, --local or LAMPLIGHTER_TABLE_PREFIX, and its --region"
_SIGN_IN = "sign in, or name another --profile"
_BY_KIND: dict[type[Exception], str] = {
    NoCredentialsError: "there are no AWS credentials: sign in, name a --profile, or use --local",
    PartialCredentialsError: f"the AWS credentials are incomplete: {_SIGN_IN}",
    NoRegionError: "no AWS region: name one with --region or AWS_REGION, or use --local",
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
_NO_QUEUE = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")


def explain(error: BaseException) -> str | None:
    """Return what a person can do about an error of AWS, or None if it says so itself."""
    if isinstance(error, LamplighterError) and not isinstance(error, _OF_A_SERVICE):
        return None
    found = [each for each in _chain(error) if isinstance(each, BotoCoreError | ClientError)]
    if not found:
        return _one_line(error) if isinstance(error, StoreError) else None
    cause = found[-1]
    if isinstance(cause, ClientError):
        return _of_service(cause)
    if isinstance(cause, EndpointConnectionError | ConnectTimeoutError):
        place = cause.kwargs.get("endpoint_url", "AWS")
        return f"{place} cannot be reached: check the network, --region and --endpoint-url"
    if isinstance(cause, ProfileNotFound):
        name = cause.kwargs["profile"]
        return f"there is no AWS profile {name!r}: see `aws configure list-profiles`"
    return _BY_KIND.get(type(cause), f"AWS: {_one_line(cause)}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came from, as far as someone has said so."""
    at: BaseException | None = error
    while at is not None:
        yield at
        inner = at.cause if isinstance(at, StoreError) else None
        at = inner or at.__cause__


def _of_service(error: ClientError) -> str:
    code = error.response["Error"].get("Code", "")
    if code in _EXPIRED:
        return f"the AWS credentials have expired: {_SIGN_IN}"
    if code in _UNKNOWN:
        return f"AWS does not know these credentials ({code}): {_SIGN_IN}"
    if code in _DENIED:
        return f"AWS does not allow it with these credentials: {_one_line(error)}"
    if code == "ResourceNotFoundException":
        return f"the tables are not in this account and region: {_WHICH}"
    if code in _NO_QUEUE:
        return f"the queue is not in this account and region: {_WHICH}"
    return f"AWS: {_one_line(error)}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
