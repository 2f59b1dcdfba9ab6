"""The dashboard of a synthesized stack, as what it shows."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.infra.synthesis import Synthesis, short


class Drawn(NamedTuple):
    """A metric in a graph."""

    title: str
    namespace: str
    name: str
    dimensions: dict[str, str]


def widgets(synthesis: Synthesis) -> list[dict[str, Any]]:
    """Return the widgets of the dashboard, in their order."""
    (board,) = synthesis.resources("AWS::CloudWatch::Dashboard").values()
    found: list[dict[str, Any]] = json.loads(short(board["DashboardBody"]))["widgets"]
    return found


def drawn_metrics(synthesis: Synthesis) -> Iterator[Drawn]:
    """Yield the metrics of all graphs; expressions are none."""
    for title, shown in _lines(synthesis):
        if isinstance(shown[0], str):
            namespace, name, *rest = shown
            pairs = [each for each in rest if isinstance(each, str)]
            dimensions = dict(zip(pairs[::2], pairs[1::2], strict=True))
            yield Drawn(title, namespace, name, dimensions)


def expressions(synthesis: Synthesis) -> Iterator[str]:
    """Yield the expressions of all graphs."""
    for _, shown in _lines(synthesis):
        if isinstance(shown[0], dict):
            yield shown[0]["expression"]


def queries(synthesis: Synthesis) -> dict[str, str]:
    """Return the queries of the tables, by title."""
    found = [each["properties"] for each in widgets(synthesis) if each["type"] == "log"]
    assert {each["view"] for each in found} == {"table"}
    return {each["title"]: each["query"] for each in found}


def _lines(synthesis: Synthesis) -> Iterator[tuple[str, list[Any]]]:
    for widget in widgets(synthesis):
        properties = widget["properties"]
        for shown in properties.get("metrics", ()):
            yield properties["title"], shown
