"""Answers `lambda:Invoke` in this process with the real handlers: no emulator here runs one."""

import io
import json
from collections.abc import Callable
from typing import Any

from botocore.client import BaseClient

from lamplighter_local import handlers
from lamplighter_local.dag_objects import DagObjects


def local_invocations(
    send: Callable[..., Any], prefix: str, *, objects: DagObjects
) -> Callable[..., Any]:
    """Return what answers `Invoke` of `<prefix><function>` by calling that function's handler.

    About bundles that are objects, it is they who answer. All other calls are sent.
    """

    def answer(client: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
        name = arguments.get("FunctionName", "")
        if operation != "Invoke" or not name.startswith(prefix):
            return send(client, operation, arguments)
        event = json.loads(arguments["Payload"])
        try:
            answered = objects.answer(event)
            result, error = answered or handlers.call(name.removeprefix(prefix), event), {}
        except Exception as failure:  # noqa: BLE001 - as Lambda does: the caller gets it as data
            result = {"errorType": type(failure).__name__, "errorMessage": str(failure)}
            error = {"FunctionError": "Unhandled"}
        payload = io.BytesIO(json.dumps(result).encode())
        return {"StatusCode": 200, "Payload": payload, **error}

    return answer
