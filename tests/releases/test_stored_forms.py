"""What a release has written is read: documents, rows, messages, contexts and reports."""

import json
from pathlib import Path

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
    for item in fixture.read_tables(release).get(model.__name__, []):
        row = model._complete(json.loads(json.dumps(item)) if not _has_bytes(item) else dict(item))
        assert _item(row) == item


def _has_bytes(item: dict[str, dict[str, object]]) -> bool:
    return any(isinstance(each, bytes) for value in item.values() for each in value.values())


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
