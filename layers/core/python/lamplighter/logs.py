"""Log lines as JSON: the functions' own and the library's, each with the request that it is of."""

import logging
import sys
from typing import TextIO

from aws_lambda_powertools import Logger


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to whatever stderr is at the moment; stdout belongs to metrics."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Ignore the stream that the base class would keep."""


def logger_of(service: str) -> Logger:
    """Return the JSON logger of a function, which the library's own log lines go through too.

    What the handler binds with `inject_lambda_context` is then on those lines as well.
    """
    logger = Logger(service=service, logger_handler=_Stderr())
    library = logging.getLogger("lamplighter")
    library.handlers, library.propagate = list(logger.handlers), False
    library.setLevel(logger.log_level)
    return logger
