"""The environment of a function, which may have 4 KB.

Owns: how long it can become. What only AWS knows when a stack is made, such as the URL of a queue,
is counted as the longest that it can be.
"""

import json
import re
from collections.abc import Mapping

from lamplighter.errors import SettingsError
from lamplighter.settings import VARIABLE
from lamplighter.topology import URL_SETTINGS
from lamplighter_infra.config import Config

_MAX_BYTES = 4_096
_TOKEN = re.compile(r"\$\{Token\[[^\]]*\]\}")
_LONGEST_REGION = "ap-southeast-1"
# The largest of what a deployer has chosen are named.
_NAMED = 3


def require_room(function: str, variables: Mapping[str, str], config: Config) -> None:
    """Refuse an environment that Lambda would refuse."""
    size = sum(len(name) + _size(text, config) for name, text in variables.items())
    if size <= _MAX_BYTES:
        return
    chosen = {
        name: text
        for name, text in json.loads(variables[VARIABLE]).items()
        if not _TOKEN.search(json.dumps(text))
    }
    largest = sorted(chosen, key=lambda name: len(json.dumps(chosen[name])), reverse=True)
    raise SettingsError(
        f"the settings of function {function} may take {size:,} bytes, and Lambda has room for"
        f" {_MAX_BYTES:,}: shorten {', '.join(largest[:_NAMED])}"
    )


def _size(text: str, config: Config) -> int:
    return len(_TOKEN.sub(_longest_name(config), text).encode())


def _longest_name(config: Config) -> str:
    """Return the longest name of a resource: the URL of a queue is longer than any ARN or id."""
    queue = max(URL_SETTINGS, key=len)
    host = f"https://sqs.{_LONGEST_REGION}.amazonaws.com.cn"
    return f"{host}/{'0' * 12}/{config.stack_name}-{queue}"
