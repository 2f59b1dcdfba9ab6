"""Reports: how an end is told, within their limits."""

import json
import math
from typing import Any

import pytest

from lamplighter_job import report
from lamplighter_job.context import Context, context_from
from lamplighter_job.errors import ReportError
from lamplighter_job.json_values import MAX_JSON
from tests.spark.documents import context_document


def raised(error: BaseException) -> BaseException:
    """Return an error as one has it that was raised."""
    try:
        raise error  # noqa: TRY301 - to have a traceback
    except BaseException as caught:  # noqa: BLE001 - any error may be asked about
        return caught


def test_success_reports_every_outlet() -> None:
    """Assets come with their facts and aliases with what was added to them."""
    outlets = [{"kind": "asset", "name": "orders"}, {"kind": "alias", "name": "any_table"}]
    context = context_from(context_document(outlets=outlets))
    context.outlet("orders").extra["rows"] = 3
    context.outlet("any_table").add(name="fx")
    assert json.loads(report.succeeded(context).to_bytes("mine")) == {
        "version": 1,
        "state": "success",
        "reason": None,
        "outlets": {"orders": {"rows": 3}},
        "aliases": {"any_table": [{"name": "fx", "uri": None, "extra": {}}]},
        "outputs": {},
        "secret": "mine",
    }


def leaving(value: Any) -> Context:
    """Return a context whose program has left one output."""
    context = context_from(context_document())
    context.output["x"] = value
    return context


@pytest.mark.parametrize("value", [3, None, "ünï", [1, {"a": True}], {"b": {"c": 0.5}}])
def test_success_reports_the_outputs(value: Any) -> None:
    """What a program leaves for later steps is reported as it is."""
    assert report.succeeded(leaving(value)).document["outputs"] == {"x": value}


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, b"x", object()])
def test_output_that_is_no_json_is_an_error(value: Any) -> None:
    """Whatever JSON cannot say is refused, with what to use instead."""
    with pytest.raises(ReportError, match=r"context\.output must hold JSON values only"):
        report.succeeded(leaving(value))


def test_outputs_are_refused_just_above_the_limit() -> None:
    """The limit is for all outputs of a step together, as JSON."""
    longest = MAX_JSON - len('{"x": ""}')
    assert report.succeeded(leaving("a" * longest)).state == report.SUCCESS
    with pytest.raises(ReportError, match=r"context.output has 32,001 characters.*write large"):
        report.succeeded(leaving("a" * (longest + 1)))


def test_skips_and_failures_report_no_outputs() -> None:
    """What a program had filled in before it gave up is not for others."""
    for outcome in (report.skipped("no files"), report.failed(raised(ValueError("no")))):
        assert outcome.document["outputs"] == {}


@pytest.mark.parametrize(("reason", "told"), [("no files", "no files"), ("", None)])
def test_skip_reports_its_reason(reason: str, told: str | None) -> None:
    """A skip is no failure, has no facts, and gives its reason if it has one."""
    outcome = report.skipped(reason)
    assert outcome.exit_code == 0
    assert outcome.document["reason"] == told
    assert outcome.document["outlets"] == outcome.document["aliases"] == {}


def test_failure_reports_type_message_and_traceback() -> None:
    """The first line says what happened, the end of the traceback where."""
    outcome = report.failed(raised(ValueError("no such day")))
    assert outcome.exit_code == 1
    assert outcome.summary == "ValueError: no such day"
    reason = outcome.document["reason"]
    assert reason.startswith("ValueError: no such day\n\nTraceback")
    assert "in raised" in reason


def test_failure_with_a_long_story_is_cut_in_front() -> None:
    """Of a long traceback the end is kept, and the headline stays."""
    outcome = report.failed(raised(ValueError("x" * 50_000)))
    reason = outcome.document["reason"]
    assert len(reason) == report.MAX_REASON
    assert reason.startswith("ValueError: xxx")


@pytest.mark.parametrize("code", [3, "bad input"])
def test_failure_by_exit_says_so(code: object) -> None:
    """A program that leaves with a code of its own is quoted."""
    summary = report.failed(raised(SystemExit(code))).summary
    assert summary == f"the program ended itself with sys.exit({code!r})"
