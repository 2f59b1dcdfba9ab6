"""What EMR Serverless lets pass: requests, and answers, held against botocore's model of it.

Botocore itself checks only types and least lengths, and our clients do not even do that; patterns
and greatest lengths are otherwise first seen in an account.
"""

import datetime
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn

import botocore.session
from botocore.exceptions import ClientError

SERVICE = "emr-serverless"

_LEAST_TIMEOUT_MINUTES = 5
_GRACE_SECONDS = range(15, 1801)
_STATEMENT_KEYS = frozenset(
    {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"}
)
_TYPES: dict[str, Any] = {
    "structure": dict,
    "map": dict,
    "list": (list, tuple),
    "string": str,
    "integer": int,
    "long": int,
    "double": (int, float),
    "boolean": bool,
    "timestamp": datetime.datetime,
}


@cache
def service_model() -> Any:
    """Return botocore's model of EMR Serverless."""
    return botocore.session.Session().get_service_model(SERVICE)


def check(operation: str, request: dict[str, Any]) -> None:
    """Refuse a request as the service would."""
    shape = service_model().operation_model(operation).input_shape
    if found := [*mistakes(shape, request), *_unmodelled(operation, request)]:
        refuse(operation, "ValidationException", "; ".join(found))


def refuse(operation: str, code: str, message: str) -> NoReturn:
    """Raise what an answer with this error code becomes."""
    raise ClientError({"Error": {"Code": code, "Message": message}}, operation)


def _unmodelled(operation: str, request: dict[str, Any]) -> Iterator[str]:
    """Yield the mistakes that only the service itself knows to be some."""
    if operation == "StartJobRun":
        if "jobDriver" not in request:
            yield "jobDriver is missing"
        if 0 < request.get("executionTimeoutMinutes", 0) < _LEAST_TIMEOUT_MINUTES:
            yield f"executionTimeoutMinutes must be 0 or at least {_LEAST_TIMEOUT_MINUTES}"
        if (policy := request.get("executionIamPolicy", {}).get("policy")) is not None:
            yield from _of_policy(policy)
    grace = request.get("shutdownGracePeriodInSeconds")
    if grace is not None and grace not in _GRACE_SECONDS:
        yield "shutdownGracePeriodInSeconds must be between 15 and 1800"


def _of_policy(policy: str) -> Iterator[str]:
    """Yield what IAM would not take as a policy."""
    try:
        document = json.loads(policy)
        statements = document["Statement"]
        is_well_formed = document["Version"] == "2012-10-17" and all(
            each["Effect"] in {"Allow", "Deny"}
            and each.keys() <= _STATEMENT_KEYS
            and len({"Action", "NotAction"} & each.keys()) == 1
            and len({"Resource", "NotResource"} & each.keys()) == 1
            for each in statements
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        is_well_formed = False
    if not is_well_formed:
        yield "executionIamPolicy.policy must be a policy of IAM"


def mistakes(shape: Any, value: Any, path: str = "") -> Iterator[str]:
    """Yield a sentence for everything in `value` that the shape does not allow."""
    kind = shape.type_name
    is_flag_for_number = isinstance(value, bool) and kind != "boolean"
    if not isinstance(value, _TYPES[kind]) or is_flag_for_number:
        yield f"{path or 'the request'} must be of the type {kind}, not {type(value).__name__}"
        return
    if kind == "structure":
        yield from _of_structure(shape, value, path)
    elif kind == "map":
        yield from _of_size(shape, len(value), f"the size of {path}")
        for key, member in value.items():
            yield from mistakes(shape.key, key, f"key {key!r} of {path}")
            yield from mistakes(shape.value, member, f"{path}[{key!r}]")
    elif kind == "list":
        yield from _of_size(shape, len(value), f"the size of {path}")
        for position, member in enumerate(value):
            yield from mistakes(shape.member, member, f"{path}[{position}]")
    elif kind == "string":
        yield from _of_text(shape, value, path)
    elif kind in {"integer", "long"}:
        yield from _of_size(shape, value, path)


def _of_structure(shape: Any, value: dict[str, Any], path: str) -> Iterator[str]:
    before = f"{path}." if path else ""
    for name in shape.required_members:
        if name not in value:
            yield f"{before}{name} is missing"
    if shape.is_tagged_union and len(value) != 1:
        yield f"{path} must have exactly one of {', '.join(shape.members)}"
    for name, member in value.items():
        if name not in shape.members:
            yield f"{before}{name} is not known"
        else:
            yield from mistakes(shape.members[name], member, f"{before}{name}")


def _of_text(shape: Any, value: str, path: str) -> Iterator[str]:
    yield from _of_size(shape, len(value), f"the length of {path}")
    if shape.enum and value not in shape.enum:
        yield f"{path} must be one of {', '.join(shape.enum)}"
    pattern = shape.metadata.get("pattern")
    if pattern and not re.fullmatch(pattern, value):
        yield f"{path} must match {pattern}"


def _of_size(shape: Any, size: int, what: str) -> Iterator[str]:
    least, limit = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and size < least:
        yield f"{what} must be at least {least}"
    if limit is not None and size > limit:
        yield f"{what} must be at most {limit}"
