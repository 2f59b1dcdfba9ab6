"""The flags of a stage: read, checked, and refused in one sentence."""

from typing import Any

import pytest

from lamplighter.errors import SettingsError
from lamplighter_infra.config import Config

_ACCESS_POINT = "arn:aws:elasticfilesystem:eu-central-1:111111111111:access-point/fsap-01"
_IN_A_NETWORK = {
    "vpc_id": "vpc-1",
    "watch_subnets": "subnet-1",
    "watch_security_groups": "sg-1",
}


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
    assert (config.settings.due_shards, config.keep_data) == (64, True)
    assert (config.watch_buckets, config.data_buckets) == (("landing", "raw"), ("lake",))
    assert config.stack_name == "lamplighter-prod"


def test_stages_differ_in_what_they_keep() -> None:
    """Production keeps its data, development does not; any other stage is careful."""
    kept = {
        stage: Config.from_context({"stage": stage}).keep_data for stage in ("dev", "prod", "qa")
    }
    assert kept == {"dev": False, "prod": True, "qa": True}


@pytest.mark.parametrize(
    ("flags", "limits"),
    [
        ({"stage": "dev"}, (16, 64, 400)),
        ({"stage": "prod"}, (64, 256, 2000)),
        ({"stage": "dev", "spark_vcpus": "32"}, (32, 64, 400)),
        ({"stage": "dev", "emr_application_id": "00abc"}, (0, 0, 0)),
        ({"emr_application_id": "00abc", "spark_vcpus": 8}, (8, 0, 0)),
    ],
)
def test_limits_of_jobs_follow_the_stage(
    flags: dict[str, Any], limits: tuple[int, int, int]
) -> None:
    """A stage limits its own application; the limits of an existing one are not guessed."""
    chosen = Config.from_context(flags).settings
    assert (chosen.spark_vcpus, chosen.spark_memory_gb, chosen.spark_disk_gb) == limits


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            {"alarm_mail": "a@example.com"},
            "there is no flag 'alarm_mail'; did you mean alarm_email?",
        ),
        ({"stage": "Prod"}, "stage 'Prod': use up to 20 small letters"),
        (
            {"bundle_roles": '{"orders": "orders-jobs"}'},
            "bundle_roles: 'orders-jobs' for bundle 'orders' must be the ARN of a role",
        ),
        ({"name": "Shop"}, "name 'Shop': use up to 32 small letters"),
        ({"stage": "prod", "keep_data": "false"}, "the data of prod are never deleted"),
        ({"keep_data": "maybe"}, "keep_data='maybe' must be true or false"),
        (
            {"watch_sesion_seconds": "30"},
            "there is no flag 'watch_sesion_seconds'; did you mean watch_session_seconds?",
        ),
        ({"settings": "{}"}, "there is no flag 'settings'"),
        (
            {"due_shards": "many"},
            "due_shards='many' must be a whole number between 1 and 256",
        ),
        ({"due_shards": 0}, "due_shards=0 must be a whole number between 1 and 256"),
        ({"price_vcpu_hour": "-1"}, "price_vcpu_hour='-1' must be a number between 0 and 1,000"),
        ({"unknown_assets": "drop"}, "unknown_assets='drop' must be one of reject, register"),
        ({"executor": "glue"}, "executor='glue' must be emr-serverless"),
        ({"variables": '{"a": "b"}'}, "there is no flag 'variables'"),
        ({"secrets": "secretsmanager:*"}, "must be secretsmanager:NAME or ssm:PARAMETER, without"),
        ({"secrets": "warehouse"}, "secrets: 'warehouse' must be secretsmanager:NAME"),
        ({"spark_vcpus": "-1"}, "spark_vcpus='-1' must be a whole number between 0 and 100,000"),
        (
            {"spark_driver_cores": "3"},
            "default sizes of jobs (spark_…_cores, …_memory_gb): driver_cores=3: a worker has",
        ),
        ({"log_days": "8"}, "log_days='8' must be one of 1, 3,"),
        ({"watch_queues": "[1]"}, "watch_queues='[1]' must be a name, or a JSON list"),
        (
            {"state_machines": "arn:aws:states:eu-central-1:222222222222:stateMachine:export"},
            "must be the name of a state machine of this account and Region",
        ),
        ({"vpc_id": "vpc-1"}, "vpc_id alone does nothing: give one of sandbox_subnets"),
        (
            {"vpc_id": "vpc-1", "sandbox_subnets": "subnet-1"},
            "sandbox_subnets and s3_prefix_list (of the gateway endpoint for S3) go together",
        ),
        ({"watch_subnets": "subnet-1"}, "watch_subnets are subnets of vpc_id"),
        (
            {"vpc_id": "vpc-1", "watch_subnets": "subnet-1"},
            "watch_subnets and watch_security_groups go together",
        ),
        ({"watch_mount_path": "/mnt/inbox"}, "watch_access_point and watch_mount_path go together"),
        (
            {"watch_access_point": _ACCESS_POINT, "watch_mount_path": "/mnt/inbox"},
            "watch_access_point is reached from subnets: give watch_subnets",
        ),
        (
            {**_IN_A_NETWORK, "watch_access_point": "fs-1", "watch_mount_path": "/mnt/inbox"},
            "watch_access_point 'fs-1' must be the ARN of an access point of EFS",
        ),
        (
            {**_IN_A_NETWORK, "watch_access_point": _ACCESS_POINT, "watch_mount_path": "/inbox"},
            "watch_mount_path '/inbox' must be a folder below /mnt",
        ),
        ({"spark_subnets": "subnet-1"}, "spark_subnets are subnets of vpc_id"),
        ({"snap_start": "sandbox"}, "snap_start: 'sandbox' is not one of claim, ingest"),
        ({"target": "moon"}, "target='moon' must be one of aws, local"),
    ],
)
def test_flags_that_cannot_be_are_refused(flags: dict[str, Any], says: str) -> None:
    """A flag that AWS or another flag contradicts is named, with what it may be."""
    with pytest.raises(SettingsError) as refused:
        Config.from_context(flags)
    assert says in str(refused.value)
