"""The construct in the app of someone else: it fits in, and nobody may do more for it."""

import json
import os
import subprocess
import sys
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam

from lamplighter.errors import SettingsError
from lamplighter.settings import Settings
from lamplighter_infra import Lamplighter, LamplighterStack
from lamplighter_infra.config import Config
from lamplighter_infra.props import Props
from tests.infra.accepted import ACCEPTED
from tests.infra.foreign import GRANTS, STACK, Lakehouse, new_app
from tests.infra.permissions_file import lines_of, read_sections, write_sections
from tests.infra.synthesis import ACCOUNT, REGION, Synthesis, short, shortened

# Props are named as flags are, but for objects that have names and ARNs.
_RENAMED = {"vpc_id": "vpc", "kms_key_arn": "key"}
# The stack has them, or the stage is named apart; an emulator is deployed to by the CLI alone.
_NO_PROPS = {"stage", "account", "region", "target", "emr_endpoint"}


@pytest.fixture(scope="module", name="house")
def build_lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    """Return an app with a network, a bucket and a topic of its own, and the construct."""
    return Lakehouse(tmp_path_factory.mktemp("foreign"))


@pytest.fixture(scope="module", name="made")
def synthesize_lakehouse(house: Lakehouse) -> Synthesis:
    """Return what CloudFormation would get of it."""
    return house.synthesize()


def properties(made: Synthesis, kind: str, start: str) -> dict[str, Any]:
    """Return the properties of the only resource of a type whose id begins so."""
    (found,) = [each for name, each in made.resources(kind).items() if name.startswith(start)]
    return found


def test_props_are_the_fields_of_a_stage() -> None:
    """Everything that flags can choose is a prop, and nothing else is."""
    wanted = {_RENAMED.get(each.name, each.name) for each in fields(Config)} - _NO_PROPS
    assert set(Props.__annotations__) == wanted


def test_foreign_template_has_nothing_for_the_linter(made: Synthesis) -> None:
    """The linter of CloudFormation finds nothing: no circle either, through roles and keys."""
    lint = Path(sys.executable).with_name("cfn-lint")
    # W3005: the CDK states dependencies that are there already. W3010: zones of their network.
    command: list[str | Path] = [lint, "--ignore-checks", "W3005", "W3010", "--", made.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_findings_in_a_foreign_app_have_reasons(made: Synthesis) -> None:
    """What cdk-nag finds in the construct is what it finds in a stack of its own."""
    ours = [(finding, place) for finding, place in made.findings if "/Lamp/" in place]
    assert ours != []
    for finding, place in ours:
        assert any(
            fnmatchcase(finding, one.finding) and fnmatchcase(place, one.place) for one in ACCEPTED
        ), (finding, place)


def test_functions_may_do_what_they_may_in_a_stack_of_their_own(made: Synthesis) -> None:
    """The permissions of functions are those that were reviewed, with what the props name."""
    reviewed = read_sections()
    for name in ("tick", "claim", "ingest", "settle", "sweep", "register", "sandbox"):
        role = properties(made, "AWS::IAM::Role", f"LampCompute{name.capitalize()}Role")
        found = {
            (line.action, line.thing)
            for each in role["Policies"]
            for line in lines_of(each["PolicyDocument"], stack="lamplighter-prod")
        }
        wanted = {(line.action, line.thing) for line in reviewed[name]}
        assert found - wanted == set(), name


def test_grants_are_those_that_were_reviewed(made: Synthesis) -> None:
    """Senders send, pushers push, and neither has a permission beside that.

    After a deliberate change:
    LAMPLIGHTER_WRITE_PERMISSIONS=1 pytest tests/infra/test_construct.py
    """
    found = {
        who: lines_of(
            properties(made, "AWS::IAM::Policy", role)["PolicyDocument"], stack="lamplighter-prod"
        )
        for who, role in {"push": "CiDefault", "send_events": "ProducerDefault"}.items()
    }
    if os.environ.get("LAMPLIGHTER_WRITE_PERMISSIONS"):
        write_sections(found, GRANTS)
    reviewed = read_sections(GRANTS)
    assert {who: [str(line) for line in lines] for who, lines in found.items()} == {
        who: [str(line) for line in lines] for who, lines in reviewed.items()
    }


def test_people_are_granted_the_policies_for_people(made: Synthesis) -> None:
    """Readers have one policy, operators both."""
    attached = {
        name: [short(each) for each in properties(made, "AWS::IAM::ManagedPolicy", name)["Roles"]]
        for name in ("LampManagedPoliciesReader", "LampManagedPoliciesOperator")
    }
    readers, operators = attached.values()
    assert [name[1:7] for name in readers] == ["Reader", "Operat"]
    assert operators == readers[1:]


def test_grant_without_effect_is_refused(house: Lakehouse) -> None:
    """A principal that has no policies here is named where it can be: as a sender of events."""
    with pytest.raises(SettingsError, match="grant_send_events: the policies of"):
        house.lamp.grant_send_events(iam.AccountPrincipal("222222222222"))
    with pytest.raises(SettingsError, match="grant_read takes a role, a user or a group"):
        house.lamp.grant_read(iam.AccountPrincipal("222222222222"))


def test_objects_of_the_app_are_used(made: Synthesis) -> None:
    """Its bucket, network, topic, key, queue and secret stand where their names would stand."""
    role = shortened(properties(made, "AWS::IAM::Role", "LampSparkJobRole"))
    text = json.dumps(role)
    for name in ("arn:aws:s3:::<Lake", "<LakeKey", "<Password"):
        assert name in text, name
    application = properties(made, "AWS::EMRServerless::Application", "LampSparkApplication")
    subnets = [short(each) for each in application["NetworkConfiguration"]["SubnetIds"]]
    assert [name[1:20] for name in subnets] == ["VpcPrivateSubnet1Su", "VpcPrivateSubnet2Su"]
    assert "LampAlarmsTopic" not in "".join(made.template["Resources"])
    alarms = made.resources("AWS::CloudWatch::Alarm").values()
    assert {short(each["AlarmActions"][0])[:7] for each in alarms} == {"<People"}
    (key,) = {
        short(each["SSESpecification"]["KMSMasterKeyId"])[:4]
        for each in made.resources("AWS::DynamoDB::Table").values()
    }
    assert key == "<Key"
    sources = made.resources("AWS::Lambda::EventSourceMapping")
    assert "LampComputeWatched1" in {name[:19] for name in sources}


def test_events_are_taken_from_roles_topics_and_buckets_of_the_app(made: Synthesis) -> None:
    """A role sends itself; a service sends for a topic or a bucket, from this account."""
    policy = shortened(properties(made, "AWS::SQS::QueuePolicy", "LampQueuesEventsPolicy"))
    found = [
        (each["Principal"], each.get("Condition", {}).get("ArnEquals", {}).get("aws:SourceArn"))
        for each in policy["PolicyDocument"]["Statement"]
        if each["Effect"] == "Allow"
    ]
    assert str(found[0][0]["AWS"]).startswith("<Producer")
    services = {who["Service"]: arn for who, arn in found[1:]}
    assert services["sns.amazonaws.com"].startswith("arn:aws:sns:eu-central-1:111111111111:<Prices")
    assert services["s3.amazonaws.com"].startswith("arn:aws:s3:::<Lake")


def test_outputs_of_a_foreign_stack_are_read_by_the_command_line(
    house: Lakehouse, made: Synthesis
) -> None:
    """`lamplighter --stack Lakehouse` finds the settings under the names that it looks for."""
    told = Settings.from_outputs(made.outputs)
    assert told.table_prefix == "lamplighter-prod-"
    assert told.watch_session_seconds == house.lamp.settings.watch_session_seconds == 45
    assert told.queue_urls["events"].startswith("<LampQueuesEvents")
    assert [name[1:6] for name in told.bundle_roles.values()] == ["Sales"]
    reader = properties(made, "AWS::IAM::ManagedPolicy", "LampManagedPoliciesReader")
    assert f":stack/{STACK}/*" in json.dumps(shortened(reader))


def test_stack_keeps_what_is_the_stacks(house: Lakehouse, made: Synthesis) -> None:
    """The construct neither protects the stack of others nor tags what is in it."""
    assert not house.stack.termination_protection
    assert "lamplighter:stack" not in json.dumps(made.template)


def test_parts_can_be_used_by_the_app(house: Lakehouse) -> None:
    """Queues, tables, key, bucket, roles and settings are there for whatever else is made."""
    lamp = house.lamp
    assert lamp.events_queue.queue_arn != lamp.events_fifo_queue.queue_arn
    assert {"Dags", "Runs", "Steps"} <= set(lamp.tables)
    assert lamp.key.key_arn == house.key.key_arn
    assert lamp.bundle_bucket.bucket_name == lamp.settings.bucket
    assert lamp.job_role.role_arn == lamp.settings.emr_job_role_arn
    assert {"tick", "submit", "task"} <= set(lamp.function_roles)


@pytest.mark.parametrize(
    ("props", "says"),
    [
        ({"data_bucket": []}, "there is no prop 'data_bucket'; did you mean data_buckets?"),
        (
            {"settings": {"watch_sesion_seconds": 5}},
            "there is no setting 'watch_sesion_seconds'; did you mean watch_session_seconds?",
        ),
        ({"log_days": 8}, "log_days=8 must be one of 1, 3, 5"),
        ({"data_buckets": [object()]}, "data_buckets: object is neither a text nor a construct"),
        ({"notify": "arn:a", "alarm_email": "a@b.c"}, "alarm_email and notify exclude each other"),
        ({"config": Config(stage="qa"), "log_days": 7}, "config describes a whole stage: leave"),
    ],
)
def test_prop_that_makes_no_sense_is_one_line(
    props: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """Unknown names and bad values are refused by name, before anything is made."""
    _, stack = new_app(tmp_path)
    with pytest.raises(SettingsError) as refused:
        Lamplighter(stack, "Lamp", has_layers=False, **props)
    assert str(refused.value).startswith(says)


def test_second_deployment_in_a_stack_is_refused(house: Lakehouse) -> None:
    """The command line finds a deployment by its stack, so each stack has one."""
    with pytest.raises(SettingsError, match="stack Lakehouse has a Lamplighter already"):
        Lamplighter(house.stack, "Second", stage="qa", has_layers=False)


def test_nested_stack_is_refused(tmp_path: Path) -> None:
    """A nested stack has no name that a person could type."""
    _, stack = new_app(tmp_path)
    with pytest.raises(SettingsError, match="not a nested one"):
        Lamplighter(cdk.NestedStack(stack, "Inner"), "Lamp", has_layers=False)


def test_whole_stack_is_one_call(tmp_path: Path) -> None:
    """Its name, tag and protection follow from the stage, or from the name that it is given."""
    app = cdk.App(outdir=str(tmp_path))
    stack = LamplighterStack(app, stage="qa", name="trains", log_days=14, has_layers=False)
    assert (stack.stack_name, stack.termination_protection) == ("trains", True)
    assert stack.lamplighter.config.log_days == 14


@pytest.mark.parametrize(
    ("synthesizer", "options", "bucket"),
    [
        ("DefaultStackSynthesizer", {"qualifier": "team"}, f"cdk-team-assets-{ACCOUNT}-{REGION}"),
        ("DefaultStackSynthesizer", {"file_assets_bucket_name": "of-the-team"}, "of-the-team"),
        ("CliCredentialsStackSynthesizer", {"file_assets_bucket_name": "theirs"}, "theirs"),
        ("LegacyStackSynthesizer", {}, None),  # a parameter names it
    ],
)
def test_copies_may_read_the_bucket_that_the_assets_are_in(
    tmp_path: Path, synthesizer: str, options: dict[str, str], bucket: str | None
) -> None:
    """Which one that is, the synthesizer of the stack decides."""
    app = cdk.App(outdir=str(tmp_path))
    env = cdk.Environment(account=ACCOUNT, region=REGION)
    stack = cdk.Stack(app, "Mine", env=env, synthesizer=getattr(cdk, synthesizer)(**options))
    Lamplighter(stack, "Lamp", has_layers=False)
    template = json.loads(Path(app.synth().directory, "Mine.template.json").read_text())

    found = template["Resources"].items()
    (copied,) = (each for _, each in found if each["Type"] == "Custom::CDKBucketDeployment")
    (role,) = (each for name, each in found if name.startswith("LampRuntimeRole"))
    (source,) = copied["Properties"]["SourceBucketNames"]
    (policy,) = role["Properties"]["Policies"]
    (read,) = (
        each["Resource"]
        for each in policy["PolicyDocument"]["Statement"]
        if each["Action"] == "s3:GetObject"
    )
    assert short(read) == f"arn:aws:s3:::{short(source)}/*"
    assert bucket is None or short(source) == bucket
