"""Which of our shortcuts through moto fit the version of it that is installed.

Shortcuts replace parts of moto that nobody promises to keep. So each is tried once in a process, on
a table, a queue and a bucket of its own, and is left out if it fails or if an answer is another
than without it: deployments then work the same, but slower.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from importlib import import_module
from typing import Any

import boto3
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.moto_api._internal import mock_random

from lamplighter import runtime
from lamplighter.runtime import Runtime
from lamplighter_local.emulator import moto_memory
from lamplighter_local.emulator.method_override import api_calls
from lamplighter_local.emulator.moto_memory import REGION

log = logging.getLogger(__name__)

_PACKAGE = "lamplighter_local.emulator"
_TRIAL = "shortcut-trial"


def inside_moto() -> AbstractContextManager[object]:
    """Enter the shortcuts inside moto that fit; they end with the block."""
    entered = ExitStack()
    for name, enter in _INSIDE.items():
        if fits(name):
            entered.enter_context(enter())
    return entered


@contextmanager
def calls(deployment: str, lock: threading.RLock) -> Iterator[None]:
    """Answer the calls of a deployment without requests over HTTP, if that fits."""
    with _direct_calls(deployment, lock) if fits(_DIRECT) else ExitStack():
        yield


# A module is imported when it is tried: what it imports of moto may not be there.


def _undo_by_item() -> AbstractContextManager[None]:
    entered: AbstractContextManager[None] = import_module(f"{_PACKAGE}.item_undo").undo_by_item()
    return entered


def _quick_moto() -> AbstractContextManager[None]:
    entered: AbstractContextManager[None] = import_module(f"{_PACKAGE}.quick_moto").quick_moto()
    return entered


def _direct_calls(deployment: str, lock: threading.RLock) -> AbstractContextManager[None]:
    direct = import_module(f"{_PACKAGE}.direct_calls").direct_calls
    return api_calls.wrapped(deployment, partial(direct, lock=lock))


_INSIDE: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "transactions": _undo_by_item,
    "tables": _quick_moto,
}
_DIRECT = "calls"


@cache
def fits(shortcut: str) -> bool:
    """Return whether a shortcut gives the answers that moto gives without it."""
    enter = _INSIDE.get(shortcut) or partial(_direct_calls, _TRIAL, threading.RLock())
    try:
        with enter():
            pass
        is_same = _trial(enter) == _trial_without()
    except Exception:  # noqa: BLE001 - whatever a version of moto makes of it
        is_same = False
    if not is_same:
        log.info("shortcut for %s disabled: it does not match this version of moto", shortcut)
    return is_same


@cache
def _trial_without() -> list[Any]:
    return _trial(ExitStack)


def _trial(enter: Callable[[], AbstractContextManager[object]]) -> list[Any]:
    """Return what moto answers to some calls of each kind, with a shortcut entered."""
    before = mock_random.getstate()  # ids must not depend on whether there was a trial
    try:
        with mock_aws(), runtime.activate(Runtime(_TRIAL)), enter():
            try:
                return [_answer(*call) for call in _CALLS]
            finally:
                # Someone may have started moto before, and it goes on.
                moto_memory.remove(
                    tables=[_TRIAL], queues=[_TRIAL], bucket=_TRIAL, log_group=_TRIAL
                )
    finally:
        mock_random.setstate(before)


def _answer(service: str, method: str, arguments: Mapping[str, Any]) -> object:
    given = dict(arguments)
    if "QueueUrl" in given:
        given["QueueUrl"] = _client("sqs").get_queue_url(QueueName=_TRIAL)["QueueUrl"]
    try:
        answer = getattr(_client(service), method)(**given)
    except ClientError as error:
        reasons = error.response.get("CancellationReasons", [])
        return error.response["Error"]["Code"], [reason["Code"] for reason in reasons]
    if service == "s3":
        return answer["Body"].read() if "Body" in answer else None
    return _comparable(answer)


@cache
def _client(service: str) -> Any:
    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=f"https://{service}.{REGION}.amazonaws.com",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",  # noqa: S106 - it leads nowhere
    )


# Drawn by lot, or of the way that an answer took.
_DIFFERENT = {"MessageId", "ReceiptHandle", "ResponseMetadata", "TableDescription"}


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _comparable(v) for k, v in value.items() if k not in _DIFFERENT}
    return [_comparable(each) for each in value] if isinstance(value, list) else value


def _key(number: int) -> dict[str, Any]:
    return {"a": {"S": "x"}, "b": {"S": f"{number:02}"}}


def _item(number: int) -> dict[str, Any]:
    return {**_key(number), "n": {"N": str(number)}, "t": {"S": "text"}}


def _update(expression: str, names: dict[str, str], values: dict[str, Any]) -> dict[str, Any]:
    return {
        "TableName": _TRIAL,
        "Key": _key(1),
        "UpdateExpression": expression,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def _put(number: int, *, is_new: bool) -> dict[str, Any]:
    condition = "attribute_not_exists(a)" if is_new else "attribute_exists(a)"
    return {"Put": {"TableName": _TRIAL, "Item": _item(number), "ConditionExpression": condition}}


_SET_AND_REMOVE = _update("SET #n = :n REMOVE #t", {"#n": "n", "#t": "t"}, {":n": {"N": "7"}})
_ALL = {
    "TableName": _TRIAL,
    "KeyConditionExpression": "a = :a",
    "ExpressionAttributeValues": {":a": {"S": "x"}},
    "ConsistentRead": True,
}
# An item without the attribute has no place in the index.
_IN_INDEX = {
    "TableName": _TRIAL,
    "IndexName": "by_text",
    "KeyConditionExpression": "t = :t",
    "ExpressionAttributeValues": {":t": {"S": "text"}},
}
_CALLS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    (
        "dynamodb",
        "create_table",
        {
            "TableName": _TRIAL,
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [
                {"AttributeName": "a", "KeyType": "HASH"},
                {"AttributeName": "b", "KeyType": "RANGE"},
            ],
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": "S"} for name in ("a", "b", "t")
            ],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "by_text",
                    "KeySchema": [
                        {"AttributeName": "t", "KeyType": "HASH"},
                        {"AttributeName": "b", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["n"]},
                }
            ],
        },
    ),
    (
        "dynamodb",
        "update_time_to_live",
        {
            "TableName": _TRIAL,
            "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "n"},
        },
    ),
    ("dynamodb", "put_item", {"TableName": _TRIAL, "Item": _item(2)}),
    ("dynamodb", "put_item", {"TableName": _TRIAL, "Item": _item(1)}),
    ("dynamodb", "update_item", {**_SET_AND_REMOVE, "ReturnValues": "ALL_NEW"}),
    ("dynamodb", "update_item", _update("SET #n = #n + :n", {"#n": "n"}, {":n": {"N": "1"}})),
    (
        "dynamodb",
        "update_item",
        {**_SET_AND_REMOVE, "ConditionExpression": "attribute_not_exists(a)"},
    ),
    (
        "dynamodb",
        "transact_write_items",
        {"TransactItems": [_put(3, is_new=True), {"Update": _SET_AND_REMOVE}]},
    ),
    (
        "dynamodb",
        "transact_write_items",
        {"TransactItems": [_put(4, is_new=True), _put(3, is_new=True)]},
    ),
    ("dynamodb", "get_item", {"TableName": _TRIAL, "Key": _key(1), "ConsistentRead": True}),
    ("dynamodb", "batch_get_item", {"RequestItems": {_TRIAL: {"Keys": [_key(2)]}}}),
    ("dynamodb", "query", {**_ALL, "Limit": 2}),
    ("dynamodb", "query", {**_ALL, "ScanIndexForward": False}),
    ("dynamodb", "query", {**_IN_INDEX, "Limit": 1}),
    ("dynamodb", "query", {**_IN_INDEX, "ScanIndexForward": False}),
    ("dynamodb", "scan", {"TableName": _TRIAL}),
    ("sqs", "create_queue", {"QueueName": _TRIAL, "Attributes": {"VisibilityTimeout": "7"}}),
    (
        "sqs",
        "get_queue_attributes",
        {"QueueUrl": "", "AttributeNames": ["QueueArn", "VisibilityTimeout"]},
    ),
    ("sqs", "send_message", {"QueueUrl": "", "MessageBody": "one"}),
    (
        "sqs",
        "send_message_batch",
        {"QueueUrl": "", "Entries": [{"Id": "0", "MessageBody": "two", "DelaySeconds": 900}]},
    ),
    ("sqs", "receive_message", {"QueueUrl": "", "MaxNumberOfMessages": 10}),
    ("s3", "create_bucket", {"Bucket": _TRIAL}),
    ("s3", "put_object", {"Bucket": _TRIAL, "Key": "key", "Body": b"content"}),
    ("s3", "get_object", {"Bucket": _TRIAL, "Key": "key"}),
    ("s3", "get_object", {"Bucket": _TRIAL, "Key": "other"}),
)
