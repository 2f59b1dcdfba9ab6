"""Settings: what a process is told by its environment, and what it is told when that is wrong."""

from contextlib import suppress

import pytest

from lamplighter import runtime, settings
from lamplighter.errors import SettingsError
from lamplighter.settings import Settings, output_key


def test_settings_of_an_empty_environment_are_the_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What nobody decided is as it is written down."""
    for name in ("DUE_SHARDS", "TABLE_PREFIX", "CLAIMS_QUEUE_URL"):
        monkeypatch.delenv(f"LAMPLIGHTER_{name}", raising=False)

    assert Settings.from_environment() == Settings()


def test_settings_are_read_by_name_and_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts stay texts, numbers become numbers."""
    monkeypatch.setenv("LAMPLIGHTER_TABLE_PREFIX", "7")
    monkeypatch.setenv("LAMPLIGHTER_DUE_SHARDS", "7")

    found = Settings.from_environment()

    assert (found.table_prefix, found.due_shards) == ("7", 7)


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", ""])
def test_number_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A number that cannot be used names its variable."""
    monkeypatch.setenv("LAMPLIGHTER_DUE_SHARDS", text)

    with pytest.raises(SettingsError, match="LAMPLIGHTER_DUE_SHARDS"):
        Settings.from_environment()


def test_resource_that_was_not_named_is_missed() -> None:
    """A function that needs a queue says which variable would name it."""
    with pytest.raises(SettingsError, match="LAMPLIGHTER_CLAIMS_QUEUE_URL"):
        Settings().queue_url("claims")

    assert Settings(queue_urls={"claims": "there"}).queue_url("claims") == "there"


def test_output_is_named_like_its_field() -> None:
    """A field and its output have one name, written in two ways."""
    assert output_key("events_fifo_dlq_url") == "EventsFifoDlqUrl"


def test_settings_as_environment_are_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables say what differs from the defaults, and a process with them has the settings."""
    given = Settings(bucket="here", due_shards=64, unknown_assets="register")
    variables = given.as_environment()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert set(variables) == {
        "LAMPLIGHTER_BUCKET",
        "LAMPLIGHTER_DUE_SHARDS",
        "LAMPLIGHTER_UNKNOWN_ASSETS",
    }
    assert Settings.from_environment() == given


def test_settings_as_outputs_are_read_back() -> None:
    """What a stack says of itself is what it was made with, numbers and prices included."""
    made = Settings(table_prefix="sales-", bucket="b", due_shards=3, price_vcpu_hour=0.1)

    outputs = made.as_outputs()

    assert Settings.from_outputs(outputs) == made
    assert "ClaimsQueueUrl" not in outputs  # CloudFormation has no empty outputs


def test_outputs_of_another_meaning_are_ignored() -> None:
    """A stack may say more of itself than we want to know."""
    assert Settings.from_outputs({"ApiUrl": "x", "Bucket": "b"}) == Settings(bucket="b")


def test_output_that_is_no_number_names_itself() -> None:
    """A wrong output is found by the name that it has in the stack."""
    with pytest.raises(SettingsError, match="DueShards='many'"):
        Settings.from_outputs({"DueShards": "many"})


def test_missing_resource_names_the_output_too() -> None:
    """Whoever has named a stack learns which of its outputs is missing."""
    with pytest.raises(SettingsError, match="the output EventsQueueUrl"):
        Settings().queue_url("events")


def test_given_settings_are_in_force_until_the_block_ends() -> None:
    """Settings that are given count for everyone, and end with their block, also by an error."""
    outer, inner = Settings(due_shards=2), Settings(due_shards=3)

    with runtime.using(settings=outer):
        with suppress(LookupError), runtime.using(settings=inner):
            assert settings.current() is inner
            raise LookupError
        assert settings.current() is outer
