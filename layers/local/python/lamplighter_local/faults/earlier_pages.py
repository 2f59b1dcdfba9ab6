"""Remembers the pages that queries of an index were answered with, to serve them once more.

An index follows its table with a delay that nobody bounds, so an earlier page of the same query is
an answer that DynamoDB may give.

Owns: which earlier pages answer a query. Refuses: pages that hold an item which the query excludes.
"""

import copy
import json
import re
import threading
from collections import defaultdict, deque
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

Answer = dict[str, Any]

# How many pages back an index may be: enough to be wrong in interesting ways.
REMEMBERED = 8
# In a key condition, the values that are an upper bound: after `<`, `<=` and a BETWEEN's AND.
UPPER_BOUND = re.compile(r"(?:<=?\s*|\bAND\s+)(:\w+)", re.IGNORECASE)


class EarlierPages:
    """The last pages of each query, by what was asked.

    Two queries are the same if they differ in nothing but an upper bound that has risen: "due by
    now" is the same question later on, and whatever was due before now still is.
    """

    def __init__(self) -> None:
        self._pages: dict[str, deque[tuple[list[Any], Answer]]] = defaultdict(
            lambda: deque(maxlen=REMEMBERED)
        )
        self._lock = threading.Lock()

    def remember(self, operation: str, request: Mapping[str, Any], answer: Answer) -> Answer:
        """Return `answer`, which from now on is an earlier page if it came from an index."""
        if _asks_an_index(operation, request):
            question, bounds = _question(request)
            with self._lock:
                self._pages[question].append((bounds, copy.deepcopy(answer)))
        return answer

    def of(self, operation: str, request: Mapping[str, Any]) -> list[Answer]:
        """Return the pages that may answer this request once more, oldest first."""
        if not _asks_an_index(operation, request):
            return []
        question, bounds = _question(request)
        with self._lock:
            pages = list(self._pages.get(question, ()))
        return [copy.deepcopy(page) for before, page in pages if _none_fell(before, bounds)]


def _asks_an_index(operation: str, request: Mapping[str, Any]) -> bool:
    return operation == "Query" and "IndexName" in request and not request.get("ConsistentRead")


def _question(request: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Return a request without its upper bounds, as text, and those bounds."""
    values = dict(request.get("ExpressionAttributeValues", {}))
    names = UPPER_BOUND.findall(str(request.get("KeyConditionExpression", "")))
    bounds = [_comparable(values.pop(name)) for name in names if name in values]
    question = {**request, "ExpressionAttributeValues": values}
    return json.dumps(question, sort_keys=True, default=repr), bounds


def _comparable(value: Mapping[str, Any]) -> Any:
    ((kind, content),) = value.items()
    return Decimal(content) if kind == "N" else content


def _none_fell(before: list[Any], bounds: list[Any]) -> bool:
    return all(earlier <= later for earlier, later in zip(before, bounds, strict=True))
