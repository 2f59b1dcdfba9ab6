"""The dashboard: what it shows is there to be shown."""

import logging
import re
from itertools import groupby

import pytest

from lamplighter.store.models import Runs
from lamplighter.store.runs import log_move
from lamplighter.store.tables import table_definitions
from lamplighter_infra import log_queries
from tests.infra.board import drawn_metrics, expressions, queries, widgets
from tests.infra.synthesis import Synthesis, synthesize

_EMR = "AWS/EMRServerless"
_CAPACITY = {"CPUAllocated", "MaxCPUAllowed", "MemoryAllocated", "MaxMemoryAllowed"}
_JOBS = {"SubmittedJobs", "PendingJobs", "ScheduledJobs", "RunningJobs", "FailedJobs"}
# What a query has beside fields of log lines: its language, and the names that it gives.
_LANGUAGE = {
    *("fields", "filter", "sort", "limit", "stats", "dedup", "desc", "by", "as", "and", "in"),
    *("sum", "count", "strcontains"),
    *("failed", "finished"),
}


def test_rows_of_the_board_have_no_holes(prod: Synthesis) -> None:
    """Every row fills the board, with widgets of one height."""
    rows = groupby(widgets(prod), key=lambda widget: widget["y"])
    for place, row in rows:
        shown = list(row)
        assert sum(widget["width"] for widget in shown) == 24, place
        assert len({widget["height"] for widget in shown}) == 1, place


def test_capacity_and_jobs_are_those_of_the_application(prod: Synthesis) -> None:
    """Metrics of EMR Serverless have the dimensions that it publishes from release 7.10 on."""
    shown = [metric for metric in drawn_metrics(prod) if metric.namespace == _EMR]
    assert {metric.name for metric in shown} == _CAPACITY | _JOBS
    (application,) = prod.resources("AWS::EMRServerless::Application")
    for metric in shown:
        assert metric.dimensions == {
            "ApplicationId": f"<{application}>",
            "ApplicationName": prod.config.stack_name,
        }


def test_capacity_of_an_existing_application_is_searched_for() -> None:
    """Only its id is known, and metrics of single jobs are not found."""
    made = synthesize({"emr_application_id": "00existing"})
    assert not [metric for metric in drawn_metrics(made) if metric.namespace == _EMR]
    found = list(expressions(made))
    assert len(found) == len(_CAPACITY | _JOBS)
    for expression in found:
        assert "{AWS/EMRServerless,ApplicationId,ApplicationName}" in expression
        assert 'ApplicationId="00existing"' in expression


def test_throttles_of_every_table_and_index_are_drawn(prod: Synthesis) -> None:
    """An index that is throttled delays the writes of its table, so it has a line too."""
    wanted = {
        (table.name, index)
        for table in table_definitions(f"{prod.config.stack_name}-")
        for index in (
            None,
            *(each["IndexName"] for each in table.create.get("GlobalSecondaryIndexes", ())),
        )
    }
    for name in ("ReadThrottleEvents", "WriteThrottleEvents"):
        shown = {
            (metric.dimensions["TableName"], metric.dimensions.get("GlobalSecondaryIndexName"))
            for metric in drawn_metrics(prod)
            if metric.name == name
        }
        assert shown == wanted


def test_tables_read_fields_that_are_logged(
    prod: Synthesis, caplog: pytest.LogCaptureFixture
) -> None:
    """The tables of runs ask the line that is logged with each change of a state, by its fields."""
    with caplog.at_level(logging.INFO, logger="lamplighter"):
        log_move(Runs("sales", "2026-01-31", run_id="scheduled__2026-01-31", state="failed"))
    (line,) = caplog.records
    for title, query in queries(prod).items():
        *sources, text = query.split(" | ", len(log_queries.MOVING_RUNS))
        for name, source in zip(log_queries.MOVING_RUNS, sources, strict=True):
            assert source.startswith(f"SOURCE '<Compute{name.capitalize()}Log"), title
        assert f'message = "{line.getMessage()}"' in text, title
        named = set(re.findall(r"(?<!@)\b[a-z_]+\b", re.sub('"[^"]*"', "", text)))
        assert named - _LANGUAGE <= {*vars(line), "message"}, title
