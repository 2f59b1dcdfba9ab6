"""Settings of a deployment: chosen by flags, checked when the stack is made, told to functions."""

import json
import re
from dataclasses import fields
from typing import get_args
from unittest.mock import patch

import aws_cdk as cdk
import pytest

from lamplighter.checked_fields import Range
from lamplighter.errors import SettingsError
from lamplighter.settings import ChosenSettings, Settings
from lamplighter.topology import FUNCTIONS, RETENTION_DAYS
from lamplighter_infra import app
from lamplighter_infra.functions import LIMITS
from tests.infra.synthesis import ACCOUNT, LONGEST, REGION, SETTINGS, Synthesis, synthesize


def test_chosen_settings_are_those_of_functions_and_command_line(prod: Synthesis) -> None:
    """What flags choose travels in the one variable of every function, and as outputs."""
    limits = {"spark_vcpus": 64, "spark_memory_gb": 256, "spark_disk_gb": 2000}
    chosen = vars(ChosenSettings.named({**SETTINGS, **limits}))
    told = vars(Settings.from_outputs(prod.outputs))
    assert {name: told[name] for name in chosen} == chosen
    for function in set(FUNCTIONS) - {"sandbox"}:
        given = json.loads(prod.variables(function)["LAMPLIGHTER_SETTINGS"])
        assert {name: value for name, value in given.items() if name in chosen} == {
            "watch_session_seconds": 45,
            "run_retention_days": 400,
            "price_vcpu_hour": 0.06,
            "bundle_roles": SETTINGS["bundle_roles"],
            "watcher_roles": SETTINGS["watcher_roles"],
            **limits,
        }


def test_what_belongs_to_runs_is_kept_as_long_as_they_are(prod: Synthesis) -> None:
    """Files of jobs outlive the rows of their runs, and logs are there as long as those."""
    days = {
        rule["Prefix"]: rule["ExpirationInDays"]
        for bucket in prod.resources("AWS::S3::Bucket").values()
        for rule in bucket["LifecycleConfiguration"]["Rules"]
        if "Prefix" in rule
    }
    assert (days["jobs/"], days["logs/"]) == (430, 400)


def test_environment_that_lambda_has_no_room_for_is_refused() -> None:
    """Lambda takes 4 KB; the error says what to shorten."""
    with pytest.raises(SettingsError) as refused:
        synthesize({**LONGEST, "watch_event_sources": ["b" * 3_000]})
    assert re.fullmatch(
        r"the settings of function \w+ may take \d,\d\d\d bytes, and Lambda has room for 4,096:"
        r" shorten watch_event_sources, \w+, \w+",
        str(refused.value),
    )


def test_environment_that_is_not_refused_has_room() -> None:
    """Whatever AWS calls the resources of a stack with the longest name, it is below 4 KB."""
    made = synthesize(LONGEST)
    url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{made.config.stack_name}-jobstates-dlq"
    for function in FUNCTIONS:
        variables = made.variables(function)
        texts = (re.sub("<[^>]*>", url, text) for text in variables.values())
        assert sum(len(text.encode()) for text in (*variables, *texts)) <= 4_096


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "watch_sesion_seconds",
            "30",
            "there is no flag 'watch_sesion_seconds'; did you mean watch_session_seconds?",
        ),
        (
            "watch_session_seconds",
            "soon",
            "watch_session_seconds='soon' must be a whole number between 1 and 150",
        ),
        ("watch_event_sources", ["b" * 5_000], "the settings of function register may take "),
    ],
)
def test_app_ends_with_one_line(
    name: str, value: object, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad name, a bad value, or too much of it ends the command with one line and code 1."""
    with patch.object(cdk, "App", lambda: _app(context={name: value})):
        assert app.main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {says}")


_app = cdk.App


def test_limits_of_settings_are_within_those_of_functions() -> None:
    """No session of watchers is longer than its function may take, no start of a job shorter."""
    limits: dict[str, Range] = {
        each.name: limit
        for each in fields(ChosenSettings)
        for limit in get_args(each.type)[1:]
        if isinstance(limit, Range)
    }
    seconds = LIMITS["watch"].timeout_seconds
    assert limits["shared_stream_ack_timeout"].maximum == seconds / 2
    assert limits["watch_session_seconds"].maximum <= seconds - 30
    assert limits["job_start_timeout_seconds"].minimum > LIMITS["submit"].timeout_seconds
    assert limits["run_retention_days"].minimum > RETENTION_DAYS
    assert limits["event_retention_days"].minimum > 2 * RETENTION_DAYS
