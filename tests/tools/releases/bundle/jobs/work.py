"""Programs that do nothing: the fake services only pretend to run them."""

from typing import Any


def report(context: Any) -> None:
    """Do nothing."""


check = report


def build(spark: Any, context: Any) -> None:
    """Do nothing."""


extract = clean = build
