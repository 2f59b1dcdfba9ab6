"""What a release has written is read: documents, rows, messages, contexts and reports."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from lamplighter.loading import author_code_as_data
from lamplighter.runs.job_request import JobReport, _report_of
from lamplighter.serialization import SCHEMA, content_hash, decode_dag, encode_dag, upgrade
from lamplighter.store.models import TABLES
from lamplighter.store.rows import Row
from lamplighter.store.wire import _item
from lamplighter_job.context import context_from
from tests.tools.releases import fixture


def test_documents_of_dags_are_read_exactly(release: Path) -> None:
    """Each is read, and written again as what it is; its hash stays, so that no version is new."""
    documents = fixture.read(release, "documents")
    for name, document in documents.items():
        with author_code_as_data():
            again = encode_dag(decode_dag(document))
        assert again == upgrade(document), name
        if document["schema"] == SCHEMA:
            assert content_hash(again) == content_hash(document), name


@pytest.mark.parametrize("model", TABLES, ids=lambda model: model.__name__)
def test_rows_are_read_and_written_as_they_are(release: Path, model: type[Row]) -> None:
    """No value of a row is lost or changed by reading it, and none that is needed is missing."""
    needed = {name for name, each in model.get_attributes().items() if not each.null}
    for item in fixture.read_tables(release).get(model.__name__, []):
        row = model.from_raw_data(deepcopy(item))
        assert _sorted(_item(row)) == _sorted(item)
        # Dates of a backfill are in rows of their own kind, with few columns.
        assert "dates" in item or needed <= row.attribute_values.keys()


def _sorted(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with its sets in one order."""
    return {
        name: {kind: sorted(each) if kind == "SS" else each for kind, each in value.items()}
        for name, value in item.items()
    }


def test_contexts_are_read(release: Path) -> None:
    """A job that was started before an upgrade finds its context, whatever its runner is."""
    contexts = [json.loads(text) for text in _objects(release, "context.json")]
    kinds = {context_from(each).run_type for each in contexts if "state_machine" not in each}
    assert kinds == {"scheduled", "manual", "backfill", "asset_triggered"}


def test_reports_are_read(release: Path) -> None:
    """The end of a job that an older runner has told is the end of its step."""
    reports = [_report_of(json.loads(text)) for text in _objects(release, "report.json")]
    assert all(isinstance(each, JobReport) and each.problem is None for each in reports)
    assert any(each.is_skipped for each in reports)
    assert any(each.outputs for each in reports)


def _objects(release: Path, name: str) -> list[str]:
    found = fixture.read(release, "objects")
    return [text for key, text in found.items() if key.endswith(name)]
