"""The page about tables: keys, indexes and columns, from the models."""

import ast
import inspect
from typing import Any

from pynamodb.indexes import GlobalSecondaryIndex

from lamplighter.store.models import TABLES
from lamplighter.store.rows import Row
from tests.reference.markdown import Page, code, paragraphs, sentence
from tests.reference.source import module

_TYPES = {
    "UnicodeAttribute": "text",
    "NumberAttribute": "number",
    "BooleanAttribute": "true or false",
    "Instant": "instant",
    "JSONAttribute": "JSON",
    "UnicodeSetAttribute": "set of texts",
    "BinaryAttribute": "bytes",
    "TTLAttribute": "expiry",
}


def page() -> Page:
    """Return the page."""
    made = Page(
        "Tables",
        "The tables of a deployment in DynamoDB; the names begin with that of the stack and a"
        " hyphen. A column that may"
        " be missing is marked. A column whose name says it all has no meaning beside it.",
        "Instants are ISO texts in UTC with microseconds, so that they sort by time. JSON"
        " columns are texts.",
    )
    for model in TABLES:
        made.heading(model.__name__)
        made.text(paragraphs(inspect.cleandoc(model.__doc__ or "")))
        comments = comments_of(model)
        made.table(
            ("column", "type", "", "meaning"),
            (
                (
                    code(name),
                    _TYPES[type(each).__name__],
                    _role(each),
                    sentence(comments.get(name, "")),
                )
                for name, each in sorted(
                    model.get_attributes().items(), key=lambda item: list(comments).index(item[0])
                )
            ),
        )
        made.table(
            ("index", "keys", "other columns", "meaning"),
            (
                _index(model, each)
                for each in vars(model).values()
                if isinstance(each, GlobalSecondaryIndex)
            ),
        )
    return made


def _role(column: Any) -> str:
    if column.is_hash_key:
        return "partition key"
    if column.is_range_key:
        return "sort key"
    return "may be missing" if column.null else ""


def _index(model: type[Row], index: Any) -> tuple[str, ...]:
    name = index.Meta.index_name
    schema = model._get_schema()
    (made,) = (each for each in schema["global_secondary_indexes"] if each["index_name"] == name)
    keys = sorted(made["key_schema"], key=lambda key: str(key["KeyType"]))
    others = getattr(index.Meta.projection, "non_key_attributes", None) or ()
    return (
        code(name),
        ", ".join(code(key["AttributeName"]) for key in keys),
        ", ".join(map(code, others)),
        sentence(type(index).__doc__ or ""),
    )


def comments_of(model: type[Row]) -> dict[str, str]:
    """Return the comments beside the columns, in the order of the model."""
    found = module(model.__module__)
    (node,) = (
        each
        for each in found.tree.body
        if isinstance(each, ast.ClassDef) and each.name == model.__name__
    )
    return {
        each.targets[0].id: found.comment_of(each)
        for each in node.body
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    }
