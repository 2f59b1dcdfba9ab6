"""The page about messages: asset events, the event of a finished run, and the queues."""

import ast
import json
from typing import Any

from lamplighter.runs import effects
from lamplighter.topology import FUNCTIONS, MAX_RECEIVES, QUEUES, RETENTION_DAYS
from tests.reference.markdown import Page, code, sentence
from tests.reference.source import module
from tests.reference.tables_of_docs import DOCS

_SENDERS = ("send", "_send_runs")
_NOT_IN_BODIES = {"MessageBody", "DelaySeconds"}


def page() -> Page:
    """Return the page."""
    made = Page("Messages")
    _asset_event(made)
    _run_finished(made)
    _queues(made)
    return made


def _asset_event(made: Page) -> None:
    schema = json.loads((DOCS / "asset-event.schema.json").read_text(encoding="utf-8"))
    made.heading("Asset event")
    made.text(sentence(schema["description"]))
    made.text("The same as JSON Schema: [asset-event.schema.json](../asset-event.schema.json).")
    made.table(
        ("field", "type", "limits", "meaning"),
        (
            (code(name), *_form(each, schema["$defs"]), sentence(each["description"]))
            for name, each in schema["properties"].items()
        ),
    )
    needed = " or ".join(code(one) for each in schema["oneOf"] for one in each["required"])
    made.text(f"Exactly one of {needed} is required. Other fields are rejected.")


def _form(each: dict[str, Any], named: dict[str, Any]) -> tuple[str, str]:
    merged = {**named.get(each.get("$ref", "").rpartition("/")[2], {}), **each}
    if "const" in merged:
        return "number", code(str(merged["const"]))
    kinds = [merged["type"]] if isinstance(merged["type"], str) else merged["type"]
    limits = []
    if "maxLength" in merged:
        limits.append(f"{merged['maxLength']:,} characters")
    if "maxItems" in merged:
        limits.append(f"{merged['maxItems']} names")
    return " or ".join(kinds), ", ".join(limits)


def _run_finished(made: Page) -> None:
    made.heading("Run Finished")
    made.text(
        "When a run has ended, this event is put on the deployment's EventBridge bus, as far as"
        " that succeeds."
    )
    made.text(
        f"Its `source` is {code(effects.EVENT_SOURCE)}, its `detail-type`"
        f" {code(effects.RUN_FINISHED)}."
    )
    texts, instants = effects._TEXTS, effects._INSTANTS
    made.text(
        f"The `detail` has {', '.join(map(code, texts))}, and as instants or null"
        f" {', '.join(map(code, instants))}."
    )
    made.text("Their meanings are those of the columns of [Runs](tables.md#runs).")


def _queues(made: Page) -> None:
    made.heading("Queues")
    made.text(
        f"Each queue has a dead-letter queue. Both keep messages for {RETENTION_DAYS} days; SQS"
        " moves a message there"
        f" after {MAX_RECEIVES:,} deliveries, functions do so by its age."
    )
    made.table(
        ("queue", "dead-letter queue", "function", "sent by", "order", "meaning"),
        (
            (
                code(name),
                code(queue.dlq),
                code(queue.consumer),
                ", ".join(map(code, dict.fromkeys(queue.producers))),
                "within a group" if queue.is_fifo else "",
                _meaning_of_queue(name),
            )
            for name, queue in QUEUES.items()
        ),
    )
    made.heading("Bodies", level=3)
    made.text(
        "What functions send one another. These forms are not for use by others; asset events are."
    )
    made.table(("queue", "keys", "meaning"), sorted(_bodies()))
    made.heading("Functions", level=3)
    made.table(
        ("function", "timer", "meaning"),
        (
            (
                code(name),
                f"every {each.every_minutes} min" if each.every_minutes else "",
                sentence(each.description),
            )
            for name, each in FUNCTIONS.items()
        ),
    )


def _meaning_of_queue(name: str) -> str:
    """Return the comment above a queue in the topology."""
    found = module("lamplighter.topology")
    for node in ast.walk(found.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Queue":
            given = {each.arg: each.value for each in node.keywords}
            if isinstance(given["name"], ast.Constant) and given["name"].value == name:
                return sentence(found.comment_of(node))
    raise LookupError(name)


def _bodies() -> list[tuple[str, str, str]]:
    found = module("lamplighter.queues")
    functions = {node.name: node for node in found.tree.body if isinstance(node, ast.FunctionDef)}
    rows = []
    for name, function in functions.items():
        if not name.startswith("send_"):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in _SENDERS:
                (queue, *_) = call.args
                assert isinstance(queue, ast.Constant)
                of = function if ast.unparse(call.func) == "send" else functions["_send_runs"]
                meaning = sentence(found.definition(name).summary)
                rows.append((code(str(queue.value)), ", ".join(map(code, _keys(of))), meaning))
    return rows


def _keys(function: ast.FunctionDef) -> list[str]:
    keys = {
        node.value
        for each in ast.walk(function)
        for node in _names_in(each)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return sorted(keys - _NOT_IN_BODIES)


def _names_in(node: ast.AST) -> list[ast.expr | None]:
    if isinstance(node, ast.Dict):
        return list(node.keys)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return [node.slice]
    return []
