"""Invocations of the function `task`: requests, and what Lambda tells of their end."""

import json
import uuid
from collections.abc import Callable
from typing import Any

from botocore.client import BaseClient
from moto.core.models import DEFAULT_ACCOUNT_ID
from pendulum import DateTime

from lamplighter import settings
from lamplighter_local.emulator.moto_memory import REGION


def taking_invocations(
    send: Callable[..., Any], take: Callable[[str], object]
) -> Callable[..., Any]:
    """Return what hands on invocations of `task`, by job, and sends all other calls."""

    def answer(client: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
        is_task = arguments.get("FunctionName") == settings.current().task_function
        if operation != "Invoke" or not is_task:
            return send(client, operation, arguments)
        take(json.loads(arguments["Payload"])["job"])
        return {"StatusCode": 202, "ResponseMetadata": {"HTTPStatusCode": 202}}

    return answer


def end_of_invocation(job_id: str, at: DateTime) -> dict[str, Any]:
    """Return what a destination gets when an invocation is over."""
    function = settings.current().task_function
    arn = f"arn:aws:lambda:{REGION}:{DEFAULT_ACCOUNT_ID}:function:{function}:$LATEST"
    return {
        "version": "1.0",
        "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "requestContext": {
            "requestId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{job_id}#{at}")),
            "functionArn": arn,
            "condition": "Success",
            "approximateInvokeCount": 1,
        },
        "requestPayload": {"job": job_id},
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST"},
        "responsePayload": {},
    }
