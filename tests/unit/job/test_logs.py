"""Logs of a job: one line of JSON per message, and nobody else's handlers touched."""

import io
import json
import logging
from typing import Any

import pytest

from lamplighter_job.logs import json_logs

FIELDS = {"dag_id": "orders_hourly", "task_id": "clean"}


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return what was logged."""
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_messages_from_anywhere_become_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Each message is one line with the step's fields; those below INFO are left out."""
    with json_logs(FIELDS):
        logging.getLogger("jobs.orders").info("read %d\nrows", 3)
        logging.getLogger("jobs.orders").debug("not shown")
    (line,) = lines(capsys)
    assert line["message"] == "read 3\nrows"
    assert (line["level"], line["logger"], line["dag_id"]) == (
        "INFO",
        "jobs.orders",
        FIELDS["dag_id"],
    )
    assert line["timestamp"].endswith("Z")


def test_exception_logged_has_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """The traceback travels in the same line."""
    with json_logs(FIELDS):
        try:
            raise ValueError("boom")  # noqa: TRY301 - to have a traceback
        except ValueError:
            logging.getLogger("jobs").exception("it failed")
    (line,) = lines(capsys)
    assert "ValueError: boom" in line["exception"]


def test_chatter_of_the_bridge_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """What the connection to the JVM says at INFO is not of the step."""
    with json_logs(FIELDS):
        logging.getLogger("py4j.clientserver").info("closing down")
        logging.getLogger("py4j.clientserver").warning("broken")
    assert [line["message"] for line in lines(capsys)] == ["broken"]


def test_handlers_of_a_program_stay_as_they_are() -> None:
    """A handler set up by the program hears everything and survives."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    root = logging.getLogger()
    level = root.level
    with json_logs(FIELDS):
        root.addHandler(handler)
        logging.getLogger("jobs").info("hello")
    try:
        assert heard.getvalue() == "hello\n"
        assert handler in root.handlers
        assert root.level == level
    finally:
        root.removeHandler(handler)
