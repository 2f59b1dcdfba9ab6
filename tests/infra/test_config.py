"""The flags of a stage: read, checked, and refused in one sentence."""

import pytest

from infra.config import Config
from lamplighter.errors import SettingsError


def test_flags_of_a_command_are_texts_and_become_values() -> None:
    """What the command line passes as text is read as the type of its field."""
    config = Config.from_context(
        {
            "stage": "prod",
            "due_shards": "64",
            "keep_data": "true",
            "watch_buckets": '["landing", "raw"]',
            "data_buckets": "lake",
            "@aws-cdk/core:something": True,
            "aws:cdk:enable-path-metadata": True,
        }
    )
    assert (config.due_shards, config.keep_data) == (64, True)
    assert (config.watch_buckets, config.data_buckets) == (("landing", "raw"), ("lake",))
    assert config.stack_name == "lamplighter-prod"


def test_stages_differ_in_what_they_keep() -> None:
    """Production keeps its data, development does not; any other stage is careful."""
    kept = {
        stage: Config.from_context({"stage": stage}).keep_data for stage in ("dev", "prod", "qa")
    }
    assert kept == {"dev": False, "prod": True, "qa": True}


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            {"alarm_mail": "a@example.com"},
            "there is no flag 'alarm_mail'; did you mean alarm_email?",
        ),
        ({"stage": "Prod"}, "stage 'Prod': use up to 20 small letters"),
        ({"name": "Shop"}, "name 'Shop': use up to 32 small letters"),
        ({"stage": "prod", "keep_data": "false"}, "the data of prod are never deleted"),
        ({"keep_data": "maybe"}, "keep_data='maybe' must be true or false"),
        ({"due_shards": "many"}, "due_shards='many' must be a whole number"),
        ({"due_shards": "0"}, "due_shards must be between 1 and 256"),
        ({"look_ahead_seconds": "900"}, "look_ahead_seconds must be between 60 and 840"),
        ({"log_days": "8"}, "log_days must be one of"),
        ({"watch_queues": "[1]"}, "watch_queues must be a name, or a JSON list"),
        ({"vpc_id": "vpc-1"}, "a network needs vpc_id, sandbox_subnets and s3_prefix_list"),
        ({"spark_subnets": "subnet-1"}, "spark_subnets are subnets of vpc_id"),
        ({"snap_start": "sandbox"}, "snap_start: 'sandbox' is not one of claim, ingest"),
        ({"target": "moon"}, "target 'moon' must be aws or local"),
        ({"variables": f'{{"a": "{"b" * 2000}"}}'}, "variables and watch_* have more than 1500"),
    ],
)
def test_flags_that_cannot_be_are_refused(flags: dict[str, str], says: str) -> None:
    """A flag that AWS or another flag contradicts is named, with what it may be."""
    with pytest.raises(SettingsError) as refused:
        Config.from_context(flags)
    assert says in str(refused.value)
