"""Log lines as JSON: the functions' own and the library's, each with the request that it is of.

What looks like a secret is masked in them, in fields as in errors.
"""

import json
import logging
import sys
from typing import Any, TextIO

from aws_lambda_powertools import Logger

from lamplighter.safe_text import masked, masked_text, visible_json


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to whatever stderr is at the moment; stdout belongs to metrics."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Ignore the stream that the base class would keep."""


def _as_json(line: dict[str, Any]) -> str:
    text = json.dumps(
        masked(line),
        default=lambda value: masked_text(str(value)),
        separators=(",", ":"),
        ensure_ascii=False,
    )
    return visible_json(text)


def logger_of(service: str) -> Logger:
    """Return the JSON logger of a function, which the library's own log lines go through too.

    What the handler binds with `inject_lambda_context` is then on those lines as well.
    """
    logger = Logger(service=service, logger_handler=_Stderr(), json_serializer=_as_json)
    library = logging.getLogger("lamplighter")
    library.handlers, library.propagate = list(logger.handlers), False
    library.setLevel(logger.log_level)
    return logger
