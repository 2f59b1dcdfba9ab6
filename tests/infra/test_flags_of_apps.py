"""The flags of a command, in an app that has the construct and a context of its own."""

from typing import Any

import aws_cdk as cdk
import pytest

from lamplighter.errors import SettingsError
from lamplighter_infra import Lamplighter, LamplighterStack
from lamplighter_infra.config import Config
from lamplighter_infra.props import read_props


def _read(context: dict[str, Any], **props: Any) -> Config:
    return read_props(cdk.Stack(cdk.App(context=context), "Stack"), "qa", props)


def test_flag_goes_before_a_prop() -> None:
    """Whoever types it means this deployment; fields and settings alike."""
    flags = {"lamplighter:log_days": "14", "lamplighter:job_poll_seconds": "60"}
    config = _read(flags, log_days=7, concurrency=3, settings={"job_poll_seconds": 120})

    assert (config.log_days, config.concurrency) == (14, 3)
    assert config.settings.job_poll_seconds == 60


def test_context_of_the_app_is_its_own() -> None:
    """It may have any name, also that of a flag."""
    assert _read({"log_days": "14", "team": "shop"}, log_days=7).log_days == 7


def test_flag_that_is_not_one_is_refused() -> None:
    """With the one that was probably meant."""
    with pytest.raises(SettingsError, match=r"no flag 'log_dys'; did you mean log_days\?"):
        _read({"lamplighter:log_dys": "14"})


@pytest.mark.parametrize("name", ["account", "region", "stage"])
def test_what_the_app_decides_is_no_flag(name: str) -> None:
    """A construct is where its stack is."""
    with pytest.raises(SettingsError, match=f"flag {name}: with a construct, the app decides"):
        _read({f"lamplighter:{name}": "x"})


@pytest.mark.parametrize(
    ("stage", "flags", "is_protected"),
    [
        ("dev", {}, False),
        ("dev", {"lamplighter:keep_data": "true"}, True),
        ("qa", {}, True),
        ("qa", {"lamplighter:keep_data": "false"}, False),
    ],
)
def test_stack_that_keeps_its_data_is_protected(
    stage: str, flags: dict[str, str], *, is_protected: bool
) -> None:
    """An app has the rule of the package's own stack."""
    app = cdk.App(context=flags)
    lamp = Lamplighter(cdk.Stack(app, "Mine"), "Lamp", stage=stage, has_layers=False)
    whole = LamplighterStack(app, stage=stage, has_layers=False)

    assert (lamp.keeps_data, whole.termination_protection) == (is_protected, is_protected)
