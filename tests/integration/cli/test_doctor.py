"""What `doctor` finds: each check passes on a sound deployment, and fails on one that is not."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import NoCredentialsError
from pendulum import datetime

from lamplighter import DAG, aws, runtime
from lamplighter.serialization import SCHEMA
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import TABLES, Dags, DagVersions
from lamplighter.store.watchers import count_fired
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import register_dags

Command = Callable[..., Any]
WriteBundle = Callable[[dict[str, str]], Path]
Damage = Callable[[LocalStack], object]


@pytest.fixture
def sound(stack: LocalStack) -> LocalStack:
    """Return a deployment that has just ticked, with a DAG and a run."""
    register_dags(DAG("dag", max_active_runs=1))
    create_manual_run("dag", logical_date=stack.clock.now())
    stack.tick()
    return stack


def checks(lamplighter: Command, *options: str) -> tuple[int, dict[str, list[str]]]:
    """Return the exit code, and the levels that each check has found."""
    result = lamplighter("doctor", "--json", *options)
    found: dict[str, list[str]] = {}
    for finding in json.loads(result.out)["findings"]:
        found.setdefault(finding["check"], []).append(finding["level"])
    return result.code, found


def test_sound_deployment_is_all_well(lamplighter: Command, sound: LocalStack) -> None:
    """Every check is one line that begins with ok, below a headline with the versions."""
    result = lamplighter("doctor")
    assert (result.code, result.err) == (0, "")
    headline, *lines = result.out.splitlines()
    assert headline.startswith("lamplighter ")
    assert [line.partition(":")[0].split(maxsplit=1) for line in lines] == [
        ["ok", name]
        for name in (
            "credentials",
            "tables",
            "queues",
            "dead letters",
            "tick",
            "bundles",
            "imports",
            "rows",
            "schedules",
            "watchers",
            "versions",
            "slots",
        )
    ]


def never_registered(stack: LocalStack) -> None:
    """Number a push that nobody registers."""
    next_push_number("lost")
    stack.clock.advance(timedelta(minutes=16))
    stack.tick()


def from_the_future(_: LocalStack) -> None:
    """Store a definition that only a later version can read."""
    (version,) = DagVersions.query("dag")
    version.document = version.document.replace(f'"schema":{SCHEMA}', '"schema":99')
    version.save()


def dead_letter(stack: LocalStack) -> None:
    """Let a message be dead."""
    url = stack.settings.queue_url("events-dlq")
    aws.client("sqs").send_message(QueueUrl=url, MessageBody="x")


def dead_claim(_: LocalStack) -> None:
    """Let a message of another queue be dead, which only its policy leads to."""
    url = aws.client("sqs").get_queue_url(QueueName="local-claims-dlq")["QueueUrl"]
    aws.client("sqs").send_message(QueueUrl=url, MessageBody="x")


@pytest.mark.parametrize(
    ("damage", "check", "outcome"),
    [
        (lambda stack: stack.clock.advance(timedelta(minutes=5)), "tick", ("error", 1)),
        (never_registered, "bundles", ("error", 1)),
        (from_the_future, "versions", ("error", 1)),
        (dead_letter, "dead letters", ("warning", 0)),
        (dead_claim, "dead letters", ("warning", 0)),
        (
            lambda _: Dags("dag").update([Dags.schedule_error.set("it raises")]),
            "schedules",
            ("warning", 0),
        ),
        (lambda _: count_fired({"orders/raw/1": 2}, limit=1), "watchers", ("warning", 0)),
        (lambda _: Dags("dag").update([Dags.active.set({"gone"})]), "slots", ("drift", 3)),
    ],
    ids=["late", "stuck", "newer", "letter", "claim", "schedule", "parked", "slots"],
)
def test_damage_is_found_by_its_check(
    lamplighter: Command, sound: LocalStack, damage: Damage, check: str, outcome: tuple[str, int]
) -> None:
    """One check says so, and all others are content."""
    damage(sound)
    code, found = checks(lamplighter)
    assert {name: levels for name, levels in found.items() if levels != ["ok"]} == {
        check: [outcome[0]]
    }
    assert code == outcome[1]


@pytest.mark.parametrize(
    ("release", "level", "says"),
    [
        ("emr-spark-8.1.0", "ok", "emr-spark-8.1.0 is supported"),
        ("emr-spark-8.0.0", "warning", "support of emr-spark-8.0.0 ended on 2027-05-20"),
    ],
)
def test_release_without_support_is_a_warning(
    lamplighter: Command, sound: LocalStack, release: str, level: str, says: str
) -> None:
    """The release of the stack's application is held against the dates of AWS."""
    sound.clock.move(to=datetime(2027, 6, 1))
    sound.tick()
    with runtime.using(settings=replace(sound.settings, emr_release=release)):
        result = lamplighter("doctor", "--json")
    found = [each for each in json.loads(result.out)["findings"] if each["check"] == "release"]
    assert [(each["level"], each["text"]) for each in found] == [(level, says)]


def test_import_errors_are_a_warning(
    lamplighter: Command, sound: LocalStack, write_bundle: WriteBundle
) -> None:
    """They are the author's, and the rest goes on."""
    sound.push(write_bundle({"dags/a.py": "1/0"}), bundle="mine")
    code, found = checks(lamplighter)
    assert (code, found["imports"]) == (0, ["warning"])


def test_tick_that_never_ran_is_an_error(lamplighter: Command, stack: LocalStack) -> None:
    """A deployment whose timer is off looks like one with nothing to do."""
    result = lamplighter("doctor")
    assert result.code == 1
    assert "error   tick: has never run → check that the timer" in result.out


@pytest.mark.interferes
def test_missing_tables_end_the_examination(lamplighter: Command, sound: LocalStack) -> None:
    """Nothing more can be asked; each table is named."""
    with runtime.using(settings=replace(sound.settings, table_prefix="elsewhere-")):
        code, found = checks(lamplighter)
    assert code == 1
    assert found["tables"] == ["error"] * len(TABLES)
    assert "slots" not in found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}, "does not have the key"),
        ({"GlobalSecondaryIndexes": []}, "has no index"),
    ],
)
def test_tables_of_another_shape_are_named(
    lamplighter: Command, sound: LocalStack, change: dict[str, Any], words: str
) -> None:
    """A key or an index that is not as the models say is an error."""
    client = aws.client("dynamodb")
    describe = client.describe_table

    def other(**table: str) -> dict[str, Any]:
        return {"Table": {**describe(**table)["Table"], **change}}

    with patch.object(client, "describe_table", other):
        result = lamplighter("doctor")
    assert (result.code, words in result.out) == (1, True)


@pytest.mark.parametrize("url", ["", "https://sqs.us-east-1.amazonaws.com/123456789012/nowhere"])
@pytest.mark.interferes
def test_missing_queue_is_an_error(lamplighter: Command, sound: LocalStack, url: str) -> None:
    """Not named, or not there."""
    urls = sound.settings.queue_urls | {"claims": url}
    with runtime.using(settings=replace(sound.settings, queue_urls=urls)):
        code, found = checks(lamplighter)
    assert (code, found["queues"]) == (1, ["error"])


def test_missing_credentials_are_the_only_finding(lamplighter: Command, sound: LocalStack) -> None:
    """Without them nothing else is asked."""
    client = aws.client("sts")
    with patch.object(client, "get_caller_identity", side_effect=NoCredentialsError):
        assert checks(lamplighter) == (1, {"credentials": ["error"]})


@pytest.fixture
def drifted(sound: LocalStack) -> LocalStack:
    """Return a deployment whose only slot is taken by a run that is gone."""
    Dags("dag").update([Dags.active.set({"gone"})])
    return sound


def test_repair_mends_slots_and_says_so(lamplighter: Command, drifted: LocalStack) -> None:
    """The slot is free again and the run that had lost its own waits for one."""
    (run,) = drifted.runs("dag")
    line = lamplighter("doctor").out.splitlines()[-1]
    assert line.startswith("drift   slots: DAG dag: gone has a slot, but is finished or deleted;")
    assert line.endswith("→ lamplighter doctor --repair")
    result = lamplighter("doctor", "--repair")
    assert result.code == 0
    assert result.out.splitlines()[-1].startswith("ok      slots: repaired: DAG dag: gone")
    assert checks(lamplighter)[0] == 0
    drifted.run_until_idle()
    assert drifted.dag("dag").active == {run.run_key}


def test_dag_that_paused_itself_is_told_with_its_reason(
    lamplighter: Callable[..., Any], stack: LocalStack
) -> None:
    """`doctor` and `dags list` say why; of a pause by a person they say nothing."""
    register_dags(DAG("busy"), DAG("resting"))
    stack.tick()
    pause("resting")
    Dags("busy").update([Dags.is_paused.set(True), Dags.pause_reason.set("600 runs")])
    found = [line for line in lamplighter("doctor").out.splitlines() if "paused itself" in line]
    assert ["busy" in line and "600 runs" in line for line in found] == [True]
    assert "DAG busy paused itself: 600 runs" in lamplighter("dags", "list").out
