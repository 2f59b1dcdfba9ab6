"""Log lines: JSON with the facts as fields, each with the request that it is of."""

import ast
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools import Logger

from lamplighter.entry import Context
from lamplighter.logs import logger_of
from lamplighter_local.handlers import LambdaContext

ROOT = Path(__file__).parents[2]
CORE = ROOT / "layers/core/python/lamplighter"
LIBRARY = logging.getLogger("lamplighter")


@pytest.fixture
def logger() -> Iterator[Logger]:
    """Return the logger of a function; afterwards the library's lines go where they went before."""
    before = LIBRARY.handlers, LIBRARY.propagate, LIBRARY.level
    try:
        yield logger_of("test-of-logs")
    finally:
        LIBRARY.handlers, LIBRARY.propagate = before[:2]
        LIBRARY.setLevel(before[2])


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return what was logged since the last time."""
    out, err = capsys.readouterr()
    assert out == ""  # where metrics are
    return [json.loads(line) for line in err.splitlines()]


def test_line_of_the_library_carries_the_invocation(
    logger: Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line can be tied to its request, whoever writes it, and to the next request after that."""

    @logger.inject_lambda_context
    def handler(event: dict[str, Any], context: Context) -> None:
        logger.info("of the function")
        logging.getLogger("lamplighter.some.module").info("of the library")

    contexts = [LambdaContext(), LambdaContext()]
    for context in contexts:
        handler({}, context)

    found = lines(capsys)
    assert [line["message"] for line in found] == ["of the function", "of the library"] * 2
    expected = [context.aws_request_id for context in contexts for _ in range(2)]
    assert [line["function_request_id"] for line in found] == expected
    assert len(set(expected)) == 2
    for line in found:
        assert line["service"] == "test-of-logs"
        assert {"cold_start", "function_name", "function_arn", "level", "timestamp"} <= line.keys()


def test_facts_of_a_line_are_fields(logger: Logger, capsys: pytest.CaptureFixture[str]) -> None:
    """What a line is about can be searched for by its name; an error is there with its cause."""
    assert logger is not None
    about = {"dag_id": "sales", "run_id": "manual__1"}
    error = ValueError("no such row")
    log = logging.getLogger("lamplighter.runs")
    log.error("run could not be advanced", extra=about, exc_info=error)
    (line,) = lines(capsys)
    assert (line["message"], line["level"]) == ("run could not be advanced", "ERROR")
    assert (line["dag_id"], line["run_id"]) == ("sales", "manual__1")
    assert "ValueError: no such row" in line["exception"]


HANDLERS = sorted((ROOT / "functions").glob("*/handler.py"))


@pytest.mark.parametrize("path", HANDLERS, ids=lambda path: path.parent.name)
def test_handler_binds_the_context_of_lambda(path: Path) -> None:
    """No function logs a line that cannot be tied to its invocation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (handler,) = (
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "handler"
    )
    assert [ast.unparse(each) for each in handler.decorator_list] == [
        "logger.inject_lambda_context"
    ]
    assert f'logger = logger_of("{path.parent.name}")' in path.read_text(encoding="utf-8")


LEVELS = {"debug", "info", "warning", "error", "exception"}


def log_calls(path: Path) -> Iterator[ast.Call]:
    """Yield the calls that write a line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "logger"), attr=level)):
                if level in LEVELS:
                    yield node


def test_message_of_a_line_is_a_constant() -> None:
    """Lines of one kind are found by their message, and what they are about by its fields."""
    found = {
        f"{path}:{call.lineno}"
        for path in (*HANDLERS, *CORE.rglob("*.py"))
        for call in log_calls(path)
        if not isinstance(call.args[0], ast.Constant) or "%" in str(call.args[0].value)
    }
    assert found == set()
