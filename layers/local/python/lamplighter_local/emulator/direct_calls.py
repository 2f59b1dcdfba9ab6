"""Hands calls of DynamoDB, SQS and S3 to moto as they are, without a request over HTTP in between.

Signing, writing and parsing a request takes several times as long as answering it, and a simulated
month has a hundred thousand of them. The handlers that answer are moto's own.

Owns: the way to moto. Refuses: answering anything that is not plain. What botocore would refuse to
send, what moto refuses, and every operation that is not in the list goes the long way.
"""

import io
import threading
from collections.abc import Callable
from typing import Any

from botocore.client import BaseClient, ClientMeta
from botocore.response import StreamingBody
from moto.core.exceptions import ServiceException
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult, BaseResponse
from moto.dynamodb.responses import DynamoHandler
from moto.s3.models import s3_backends
from moto.sqs.responses import SQSResponse
from werkzeug.exceptions import HTTPException

from lamplighter_local.emulator.moto_memory import buckets
from lamplighter_local.emulator.valid_arguments import ValidArguments

_HANDLERS: dict[str, type[BaseResponse]] = {"dynamodb": DynamoHandler, "sqs": SQSResponse}
_METHODS = {
    "BatchGetItem": "batch_get_item",
    "CreateTable": "create_table",
    "GetItem": "get_item",
    "PutItem": "put_item",
    "Query": "query",
    "Scan": "scan",
    "TransactWriteItems": "transact_write_items",
    "UpdateItem": "update_item",
    "UpdateTimeToLive": "update_time_to_live",
    "CreateQueue": "create_queue",
    "DeleteMessage": "delete_message",
    "GetQueueAttributes": "get_queue_attributes",
    "ReceiveMessage": "receive_message",
    "SendMessage": "send_message",
    "SendMessageBatch": "send_message_batch",
}
_OF_AWS = ".amazonaws.com"


def direct_calls(send: Callable[..., Any], lock: threading.RLock) -> Callable[..., Any]:
    """Return what answers plain calls directly, one at a time, and sends all others."""
    is_valid = ValidArguments()

    def answer(client: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
        meta = client.meta
        service = meta.service_model
        if _OF_AWS not in meta.endpoint_url:
            return send(client, operation, arguments)
        if service.service_name == "s3" and _is_plain_object(operation, arguments):
            with lock:
                return _ask_s3(client, operation, **arguments)
        handler, method = _HANDLERS.get(service.service_name), _METHODS.get(operation)
        if handler is None or method is None:
            return send(client, operation, arguments)
        if not is_valid(service, operation, arguments):
            return send(client, operation, arguments)
        # The emulator keeps what it is given.
        given = _copied(arguments)
        with lock:
            try:
                result = _ask(handler(), method, meta, given)
            except (ServiceException, HTTPException):
                # A call that is refused has changed nothing: it may be made again.
                return send(client, operation, arguments)
        return {**result, **_answered()}

    return answer


def _answered() -> dict[str, Any]:
    return {"ResponseMetadata": {"HTTPStatusCode": 200, "RetryAttempts": 0}}


def _is_plain_object(operation: str, arguments: dict[str, Any]) -> bool:
    """Return whether a small object is put or got, in a bucket that there is, and no more."""
    if arguments.get("Bucket") not in {bucket.name for bucket in buckets()}:
        return False
    if operation == "GetObject":
        return arguments.keys() == {"Bucket", "Key"}
    is_bytes = isinstance(arguments.get("Body"), bytes)
    return operation == "PutObject" and arguments.keys() == {"Bucket", "Key", "Body"} and is_bytes


def _ask_s3(client: Any, operation: str, **arguments: Any) -> dict[str, Any]:
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    bucket, key = arguments["Bucket"], arguments["Key"]
    if operation == "PutObject":
        return {"ETag": backend.put_object(bucket, key, arguments["Body"]).etag, **_answered()}
    found = backend.get_object(bucket, key)
    if found is None:
        error = {"Code": "NoSuchKey", "Message": "The specified key does not exist.", "Key": key}
        answer = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 404}}
        raise client.exceptions.NoSuchKey(answer, operation)
    body = StreamingBody(io.BytesIO(found.value), found.size)
    return {"Body": body, "ContentLength": found.size, "ETag": found.etag, **_answered()}


def _ask(
    handler: BaseResponse, method: str, meta: ClientMeta, arguments: dict[str, Any]
) -> dict[str, Any]:
    handler.params = handler.body = arguments
    # The URL of a queue begins with that of the service.
    handler.uri, handler.uri_match = meta.endpoint_url, {}
    handler.region, handler.current_account = meta.region_name, DEFAULT_ACCOUNT_ID
    answered = getattr(handler, method)()
    assert isinstance(answered, ActionResult)
    # What an answer holds is still the emulator's.
    result: Any = _copied(answered.result)
    return result or {}


def _copied(value: Any) -> Any:
    """Return a copy of what JSON and bytes are made of."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(item) for item in value]
    return value
