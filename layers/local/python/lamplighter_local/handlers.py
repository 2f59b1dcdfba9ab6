"""The real handlers of `functions/`, called as Lambda calls them."""

import importlib.util
import io
import json
import logging
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from typing import Any

from lamplighter.errors import RefusedError
from lamplighter_local.shipped import shipped

FUNCTIONS = shipped("functions")
# Functions log warnings here, and which watchers share a stream, as they do when deployed.
SESSION_LOG = "lamplighter.streams.session"
logging.getLogger(SESSION_LOG).setLevel(logging.INFO)

# Standard output belongs to the process: it is redirected for one thread at a time.
_one_at_a_time = threading.RLock()


class LambdaContext:
    """What a handler may ask about its invocation; here it always has time."""

    function_name = "local"
    memory_limit_in_mb = 2048
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:local"

    def __init__(self, milliseconds: int = 60_000) -> None:
        self.aws_request_id = uuid.uuid4().hex
        self._milliseconds = milliseconds

    def get_remaining_time_in_millis(self) -> int:
        """Return the time that is left."""
        return self._milliseconds


def require_function(function: str) -> str:
    """Return the name of a function, or say which there are."""
    names = sorted(path.parent.name for path in FUNCTIONS.glob("*/handler.py"))
    if function not in names:
        raise RefusedError(f"there is no function {function!r} (there are: {', '.join(names)})")
    return function


@cache
def handler_of(function: str) -> Callable[[dict[str, Any], Any], Any]:
    """Return the handler of a function, imported once."""
    name = f"lamplighter_functions_{function}"
    spec = importlib.util.spec_from_file_location(name, FUNCTIONS / function / "handler.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    handler: Callable[[dict[str, Any], Any], Any] = module.handler
    return handler


def call(function: str, event: dict[str, Any], context: LambdaContext | None = None) -> Any:
    """Call a handler with an event; both go through JSON, as they do on their way to a Lambda."""
    arguments = json.loads(json.dumps(event))
    # Metrics are written there, which CloudWatch would take.
    with _one_at_a_time, redirect_stdout(io.StringIO()):
        answer = handler_of(function)(arguments, context or LambdaContext())
    return json.loads(json.dumps(answer))
