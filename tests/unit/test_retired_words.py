"""Names that were replaced by words of the field (`docs/glossary.md`) do not come back."""

import io
import re
import tokenize
from dataclasses import fields
from pathlib import Path

import pytest

from lamplighter.settings import Settings
from lamplighter.store.models import TABLES

ROOT = Path(__file__).parents[2]
FOLDERS = ("layers", "functions", "infra", "examples", "docs")
# What to write instead. Each old name is unambiguous wherever it stands.
RETIRED = {
    "lamplighter_spark": "lamplighter_job",
    "asset_refs": "referenced_assets",
    "asset_since": "asset_condition_met_at",
    "born_at": "run_created_at",
    "bury": "send_to_dlq",
    "capacity_retries": "capacity_wait_hours",
    "claim_problem": "claim_error",
    "come_again": "delay_redelivery",
    "ends_running": "cancels_running_runs",
    "failed_in_a_row": "consecutive_failed_runs",
    "fan_shard": "pending_shard",
    "fired_runs": "triggered_runs",
    "foretold": "precomputed",
    "give_up_hours": "max_message_age_hours",
    "Hands": "JobPermissions",
    "in_a_fork": "run_in_fork",
    "infrastructure_retries": "capacity_wait_hours",
    "is_backwards": "run_backwards",
    "is_waited_for": "has_consumers",
    "job_check_seconds": "job_poll_seconds",
    "JobPlace": "SubmissionKey",
    "keep_events_days": "event_retention_days",
    "keep_finished_runs_days": "run_retention_days",
    "last_try": "max_try_number",
    "left_busy": "contended_dags",
    "max_failed_in_a_row": "max_consecutive_failed_runs",
    "most": "limit",
    "old_schedule": "previous_schedule",
    "Outlook": "RunSource",
    "passed_over": "skipped_runs",
    "patiently": "transact_with_retry",
    "paused_because": "pause_reason",
    "served_kinds": "served_run_types",
    "short_limit": "scheduler_timeout_seconds",
    "Sighting": "SourceItem",
    "slot_of": "slot_backfill_id",
    "spark_dollars": "job_dollars",
    "stand_back": "sleep_with_jitter",
    "start_grace_seconds": "job_start_timeout_seconds",
    "switch_at": "schedule_switch_at",
    "tell_finished": "publish_run_finished",
    "token_trust_seconds": "client_token_valid_seconds",
    "turned_away": "capacity_since",
    "wake_after_seconds": "resend_after_seconds",
}
# Ordinary words elsewhere, but no names of columns, settings, metrics or fields of messages.
VAGUE = frozenset(
    {"also", "because", "born", "ending", "given_up", "kept", "letter", "place", "seen", "then"}
)
_WORD = re.compile(r"\w+")


def files(suffix: str) -> list[Path]:
    """Return the files of a kind that ship or are read by people."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob(f"*{suffix}")]
    return [*found, *ROOT.glob(f"*{suffix}")]


def identifiers(path: Path) -> set[str]:
    """Return the names in a module, and the words of its exact strings and code spans."""
    found: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME:
            found.add(token.string)
        elif token.type == tokenize.STRING and _WORD.fullmatch(text := token.string.strip("\"'")):
            found.add(text)
        elif token.type in {tokenize.STRING, tokenize.COMMENT}:
            found |= code_spans(token.string)
    return found


def code_spans(text: str) -> set[str]:
    """Return the words between backticks."""
    return {word for span in re.findall(r"`([^`\n]+)`", text) for word in _WORD.findall(span)}


@pytest.mark.parametrize("path", files(".py"), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_uses_no_retired_identifier(path: Path) -> None:
    """Names, strings and code spans use the words that replaced them."""
    assert {word: RETIRED[word] for word in identifiers(path) & RETIRED.keys()} == {}


@pytest.mark.parametrize("path", files(".md"), ids=lambda path: str(path.relative_to(ROOT)))
def test_document_uses_no_retired_identifier(path: Path) -> None:
    """Code spans of documents use the words that replaced them."""
    found = code_spans(path.read_text(encoding="utf-8"))

    assert {word: RETIRED[word] for word in found & RETIRED.keys()} == {}


def test_column_and_setting_have_no_vague_name() -> None:
    """What is stored or configured says what it is without the sentence around it."""
    columns = {name for model in TABLES for name in model.get_attributes()}
    settings = {field.name for field in fields(Settings)}

    assert (columns | settings) & (VAGUE | RETIRED.keys()) == set()


def test_message_and_metric_have_no_vague_name() -> None:
    """Fields of messages and of reports, which become metrics, say what they are."""
    core = ROOT / "layers/core/python/lamplighter"
    messages = set(re.findall(r'json\.dumps\(\{"(\w+)"', (core / "queues.py").read_text("utf-8")))
    reports = [
        re.findall(r"(?m)^    (\w+): ", body)
        for path in core.rglob("*.py")
        for body in re.findall(
            r"(?ms)^class \w+Report\b.*?(?=^\S)", path.read_text(encoding="utf-8")
        )
    ]
    metrics = {name for names in reports for name in names}
    assert messages
    assert metrics

    assert (messages | metrics) & (VAGUE | RETIRED.keys()) == set()
