"""Settings: what a process is told by its environment, and what it is told when that is wrong."""

import json
from contextlib import suppress
from dataclasses import fields

import pytest

from lamplighter import runtime, settings
from lamplighter.errors import SettingsError
from lamplighter.settings import ChosenSettings, Settings, output_key


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
    """One variable says what differs from the defaults; a process with it has the settings."""
    given = Settings(
        bucket="here",
        due_shards=64,
        unknown_assets="register",
        price_vcpu_hour=0.1,
        watch_queues=("raw", "Zürich.fifo"),
        queue_urls={"events.fifo": "there"},
    )
    variables = given.as_environment()
    monkeypatch.setenv("LAMPLIGHTER_SETTINGS", variables["LAMPLIGHTER_SETTINGS"])

    assert Settings.from_environment() == given
    assert set(variables) == {"LAMPLIGHTER_SETTINGS"}
    assert set(json.loads(variables["LAMPLIGHTER_SETTINGS"])) == {
        "bucket",
        "due_shards",
        "unknown_assets",
        "price_vcpu_hour",
        "watch_queues",
        "events_fifo_queue_url",
    }


def test_single_variable_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever works locally overrides one value, and leaves the others as they are."""
    together = {"bucket": "b", "due_shards": 64, "claims_queue_url": "c", "events_queue_url": "e"}
    monkeypatch.setenv("LAMPLIGHTER_SETTINGS", json.dumps(together))
    monkeypatch.setenv("LAMPLIGHTER_DUE_SHARDS", "2")
    monkeypatch.setenv("LAMPLIGHTER_EVENTS_QUEUE_URL", "other")

    assert Settings.from_environment() == Settings(
        bucket="b", due_shards=2, queue_urls={"claims": "c", "events": "other"}
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '{"due_shard": 30}',
            "LAMPLIGHTER_SETTINGS: there is no setting 'due_shard'; did you mean due_shards?",
        ),
        (
            '{"due_shards": "many"}',
            "LAMPLIGHTER_SETTINGS.due_shards='many' must be a whole number between 1 and 256",
        ),
        (
            '{"due_shards": 257}',
            "LAMPLIGHTER_SETTINGS.due_shards=257 must be a whole number between 1 and 256",
        ),
        ("[]", "LAMPLIGHTER_SETTINGS must be a JSON object of settings by name"),
        ("{", "LAMPLIGHTER_SETTINGS must be a JSON object of settings by name"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    """The line names the variable, the setting in it, and what that may be."""
    monkeypatch.setenv("LAMPLIGHTER_SETTINGS", text)

    with pytest.raises(SettingsError) as refused:
        Settings.from_environment()

    assert str(refused.value) == says


def test_defaults_are_within_their_limits() -> None:
    """Every field of the settings has a type that can be read, and a default that may be given."""
    given = {each.name: getattr(ChosenSettings(), each.name) for each in fields(ChosenSettings)}

    assert ChosenSettings.named(given) == ChosenSettings()


def test_settings_as_outputs_are_read_back() -> None:
    """What a stack says of itself is what it was made with, numbers and prices included."""
    made = Settings(
        table_prefix="sales-",
        bucket="b",
        due_shards=3,
        price_vcpu_hour=0.1,
        watch_buckets=("landing",),
    )

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
