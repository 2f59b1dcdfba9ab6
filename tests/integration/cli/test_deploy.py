"""`deploy`, `diff` and `destroy`: what they refuse, and what they ask of the CDK."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError

from lamplighter import aws
from lamplighter_cli import cdk, console, extras
from lamplighter_cli import destroy as module
from lamplighter_cli.stack_contents import contents_of, empty
from lamplighter_local.stack import LocalStack
from tests.integration.cli.conftest import Command
from tests.integration.cli.pretended_cdk import (
    calls_of,
    enter_folder_with_node,
    write_app,
    write_command,
)

VERSION = "/cdk-bootstrap/hnb659fds/version"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, where the commands are typed, with a Node and nothing else."""
    return enter_folder_with_node(tmp_path, monkeypatch)


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """Return the file in which a CDK on the search path notes its calls."""
    return write_command(tmp_path / "bin")


@pytest.fixture
def account(stack: LocalStack) -> Iterator[None]:
    """Let there be an account that was bootstrapped."""
    aws.client("ssm").put_parameter(Name=VERSION, Value="21", Type="String")
    yield
    aws.client("ssm").delete_parameter(Name=VERSION)


def _option(call: dict[str, Any], name: str) -> str:
    arguments = call["arguments"]
    found: str = arguments[arguments.index(name) + 1]
    return found


def _context(call: dict[str, Any]) -> list[str]:
    arguments = call["arguments"]
    return [text for option, text in pairwise(arguments) if option == "-c"]


# What is missing.


@pytest.mark.parametrize("command", ["deploy", "diff", "destroy"])
def test_without_npx_is_refused(alone: Command, command: str) -> None:
    """One line says what to install; nothing was asked of AWS."""
    done = alone(command)

    assert (done.code, done.err) == (
        1,
        "error: npx was not found: install Node.js 22 or newer, which comes with it\n",
    )


def test_without_node_is_refused(alone: Command, tmp_path: Path) -> None:
    """Neither the CDK nor its command line runs without it."""
    (tmp_path / "bin" / "node").unlink()

    assert alone("deploy").err == "error: node was not found: the CDK needs Node.js 22 or newer\n"


def test_without_the_extra_is_refused(alone: Command, calls: Path) -> None:
    """The line is the one to type."""
    with patch.object(extras, "find_spec", lambda _: None):
        done = alone("deploy")

    assert done.err == "error: aws_cdk is not installed: pip install 'lamplighter[infra]'\n"
    assert not calls_of(calls)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-c", "log_dys=14"), "there is no flag 'log_dys'; did you mean log_days?"),
        (("-c", "log_days=2"), "log_days='2' must be one of 1, 3, 5"),
        (("-c", "log_days"), "-c 'log_days': write NAME=VALUE, such as log_days=14"),
        (("-c", "stage=qa"), "-c 'stage=qa': use --stage qa"),
        (("--stage", "QA"), "stage 'QA': use up to 20 small letters"),
    ],
)
@pytest.mark.parametrize("has_app", [False, True])
def test_flag_that_is_not_one_is_refused_at_once(
    alone: Command, calls: Path, folder: Path, options: tuple[str, ...], said: str, *, has_app: bool
) -> None:
    """Nothing is synthesized for a typing error, whosever app it is."""
    if has_app:
        write_app(folder)
    done = alone("deploy", *options)

    assert (done.code, done.err.startswith(f"error: {said}")) == (1, True), done.err
    assert not calls_of(calls)


@pytest.mark.parametrize("command", ["deploy", "diff", "destroy"])
def test_without_credentials_is_refused(
    alone: Command, calls: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the CDK would ask the metadata of an instance for long."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    done = alone("--region", "eu-central-1", command)

    assert done.err == "error: no AWS credentials: sign in, or choose a --profile\n"
    assert not calls_of(calls)


def test_without_a_region_is_refused(
    alone: Command, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The region decides where everything will be."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    done = alone("deploy")

    assert done.err == "error: no AWS region: set --region or AWS_REGION\n"
    assert not calls_of(calls)


@pytest.mark.usefixtures("stack")
def test_account_that_was_never_bootstrapped_is_refused(alone: Command, calls: Path) -> None:
    """The line has the command that changes it."""
    done = alone("deploy")

    where = "aws://123456789012/us-east-1"
    assert done.err == (
        f"error: {where} was never bootstrapped: run `npx aws-cdk@2.1147.0 bootstrap {where}`\n"
    )
    assert not calls_of(calls)


def test_local_deployment_is_refused(alone: Command, calls: Path) -> None:
    """There is nothing to deploy to."""
    done = alone("--local", "deploy")

    assert done.err == "error: --local has nothing to deploy: run the command without it\n"


# What is asked of the CDK.


@pytest.mark.usefixtures("account")
def test_folder_without_an_app_deploys_that_of_the_package(
    alone: Command, calls: Path, folder: Path
) -> None:
    """With the flags that were given; nothing is left in the folder."""
    done = alone("deploy", "--stage", "qa", "-c", "log_days=14")

    (call,) = calls_of(calls)
    assert done.code == 0, done.err
    assert call["arguments"][0] == "deploy"
    assert _option(call, "--app").endswith("-m lamplighter_infra.app")
    assert _option(call, "--require-approval") == "broadening"
    assert {"stage=qa", "log_days=14"} <= set(_context(call))
    assert call["variables"]["AWS_REGION"] == "us-east-1"
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("account")
def test_project_with_an_app_deploys_that(alone: Command, calls: Path, folder: Path) -> None:
    """It finds its own stage, and the construct in it all other flags; Python is this one."""
    write_app(folder)
    alone("deploy", "--yes", "-c", "log_days=14")

    (call,) = calls_of(calls)
    assert "--app" not in call["arguments"]
    assert _option(call, "--require-approval") == "never"
    assert _context(call) == ["stage=dev", "lamplighter:log_days=14"]
    assert shutil.which("python", path=call["variables"]["PATH"]) is not None


def _add_to_assembly(folder: Path, files: dict[str, Any], artifacts: dict[str, Any]) -> None:
    """Give the app of a project further files, and further artifacts."""
    file = folder / "assembly.json"
    assembly = json.loads(file.read_text())
    manifest = json.loads(assembly["manifest.json"])
    manifest["artifacts"] |= artifacts
    assembly |= {name: json.dumps(content) for name, content in files.items()}
    file.write_text(json.dumps({**assembly, "manifest.json": json.dumps(manifest)}))


def _stack_artifact(name: str, template: str) -> dict[str, Any]:
    return {
        "type": "aws:cloudformation:stack",
        "environment": "aws://unknown-account/unknown-region",
        "displayName": name,
        "properties": {"templateFile": template},
    }


@pytest.mark.usefixtures("account")
def test_stack_beside_the_deployment_is_left_alone(
    alone: Command, calls: Path, folder: Path
) -> None:
    """The CDK refuses an app with several stacks if none is named; it adds what one depends on."""
    write_app(folder)
    _add_to_assembly(
        folder, {"lake.json": {"Resources": {}}}, {"Lake": _stack_artifact("Lake", "lake.json")}
    )
    assert alone("deploy").code == 0

    (call,) = calls_of(calls)
    context = call["arguments"].index("-c")
    assert call["arguments"][context - 1] == "lamplighter-dev"
    assert "Lake" not in call["arguments"]


@pytest.mark.usefixtures("account")
def test_two_deployments_in_an_app_are_refused(alone: Command, calls: Path, folder: Path) -> None:
    """Else `deploy --stage dev` could deploy another stage too."""
    write_app(folder)
    template = {"Outputs": {"TablePrefix": {"Value": "y"}}}
    _add_to_assembly(
        folder, {"prod.json": template}, {"Prod": _stack_artifact("Prod", "prod.json")}
    )
    done = alone("deploy")

    assert (done.code, "it has lamplighter-dev, Prod:" in done.err) == (1, True), done.err
    assert not calls_of(calls)


@pytest.mark.usefixtures("account")
def test_stack_in_a_stage_of_the_cdk_is_found(alone: Command, calls: Path, folder: Path) -> None:
    """It is named by its path; its files are in a folder of their own."""
    write_app(folder, {"Resources": {}})
    inner = {"artifacts": {"Inner": _stack_artifact("Eu/Lamp", "lamp.json")}}
    files = {
        "assembly-Eu/manifest.json": inner,
        "assembly-Eu/lamp.json": {"Outputs": {"TablePrefix": {"Value": "y"}}},
    }
    stage = {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-Eu"}}
    _add_to_assembly(folder, files, {"assembly-Eu": stage})
    assert alone("deploy").code == 0

    (call,) = calls_of(calls)
    assert "Eu/Lamp" in call["arguments"]


@pytest.mark.usefixtures("account")
def test_what_to_type_next_names_the_stack(alone: Command, calls: Path) -> None:
    """Of whichever app it is: it is found by its outputs."""
    assert alone("deploy").err == "deployed; next: lamplighter --stack lamplighter-dev push\n"


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("command", ["deploy", "diff"])
def test_exit_code_of_the_cdk_passes_through(
    alone: Command, calls: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure is one for whoever called."""
    monkeypatch.setenv("CDK_EXITS", "17")

    assert alone(command).code == 17


@pytest.mark.usefixtures("account")
def test_region_that_was_chosen_is_that_of_the_cdk(
    alone: Command, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the environment says of another."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    alone("--region", "us-east-1", "diff")

    (call,) = calls_of(calls)
    assert call["variables"]["AWS_REGION"] == "us-east-1"


@pytest.mark.usefixtures("account")
class TestCommandLine:
    def test_that_of_the_project_comes_first(
        self, alone: Command, calls: Path, folder: Path
    ) -> None:
        """A project that has pinned one uses that."""
        own = write_command(folder / "node_modules" / ".bin")
        alone("diff")

        assert (len(calls_of(own)), len(calls_of(calls))) == (1, 0)

    @pytest.mark.parametrize("version", ["2.1146.9", "1.204.0", "3.0.0", "nonsense"])
    def test_one_that_does_not_fit_is_left_to_npx(
        self, alone: Command, tmp_path: Path, version: str
    ) -> None:
        """It would not understand what the library writes."""
        other = write_command(tmp_path / "bin", version=version)
        npx = write_command(tmp_path / "bin", "npx")
        alone("diff")

        (call,) = calls_of(npx)
        assert call["arguments"][:3] == ["--yes", f"aws-cdk@{cdk.CDK_VERSION}", "diff"]
        assert not calls_of(other)

    def test_newer_one_is_used(self, alone: Command, tmp_path: Path) -> None:
        """It understands what older libraries write."""
        newer = write_command(tmp_path / "bin", version="2.1200.3")
        alone("diff")

        assert len(calls_of(newer)) == 1


# Deleting.


@pytest.fixture
def deployed(account: None, folder: Path) -> Iterator[str]:
    """Return the bucket of a deployment that has one table to keep and a bucket to lose."""
    write_app(folder)
    name = "lamplighter-dev-data"
    table = {
        "TableName": "kept",
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    }
    template = {
        "Resources": {
            "Kept": {
                "Type": "AWS::DynamoDB::Table",
                "DeletionPolicy": "RetainExceptOnCreate",
                "Properties": table,
            },
            "Data": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name}},
        },
        "Outputs": {"TablePrefix": {"Value": "x"}, "Bucket": {"Value": name}},
    }
    client = aws.client("cloudformation")
    client.create_stack(StackName="lamplighter-dev", TemplateBody=json.dumps(template))
    aws.client("s3").put_object(Bucket=name, Key="bundles/shop.zip", Body=b"zipped")
    yield name
    empty(name)
    client.delete_stack(StackName="lamplighter-dev")
    with suppress(ClientError):
        aws.client("dynamodb").delete_table(TableName="kept")


def _objects(bucket: str) -> int:
    return int(aws.client("s3").list_objects_v2(Bucket=bucket)["KeyCount"])


def test_destroy_says_what_goes_and_what_stays(alone: Command, calls: Path, deployed: str) -> None:
    """The bucket is emptied, which CloudFormation refuses to do."""
    done = alone("destroy", "--yes")

    assert done.code == 0, done.err
    assert done.err.splitlines() == [
        "deleted with stack lamplighter-dev, and everything in them:",
        f"  bucket {deployed}",
        "what stays, and is billed until you delete it:",
        "  table kept",
        f"deleted 1 object in {deployed}",
    ]
    (call,) = calls_of(calls)
    assert call["arguments"][0] == "destroy"
    assert call["arguments"][-2:] == ["--force", "lamplighter-dev"]
    assert _objects(deployed) == 0


@pytest.mark.parametrize(
    "place", ["unknown-account/eu-west-1", "111111111111/us-east-1", "111111111111/eu-west-1"]
)
def test_destroy_of_a_stack_elsewhere_is_refused(
    alone: Command, calls: Path, deployed: str, folder: Path, place: str
) -> None:
    """A stack of the same name may be here too: its bucket is not emptied."""
    file = folder / "assembly.json"
    file.write_text(file.read_text().replace("unknown-account/unknown-region", place))
    done = alone("destroy", "--yes")

    wanted = place.replace("unknown-account", "123456789012")
    assert done.err == (
        f"error: stack 'lamplighter-dev' is in aws://{wanted}, but the credentials lead to"
        " aws://123456789012/us-east-1: choose another --profile or --region\n"
    )
    assert (calls_of(calls), _objects(deployed)) == ([], 1)


@pytest.mark.usefixtures("deployed")
def test_app_that_asks_where_it_is_deployed_can_be_destroyed(
    alone: Command, calls: Path, folder: Path
) -> None:
    """The command line of the CDK sets these variables, and many apps cannot do without."""
    app = folder / "app.py"
    text = "import os\nassert os.environ['CDK_DEFAULT_ACCOUNT'] == '123456789012'\n"
    app.write_text(
        f"{text}assert os.environ['CDK_DEFAULT_REGION'] == 'us-east-1'\n{app.read_text()}"
    )

    assert alone("destroy", "--yes").code == 0
    assert len(calls_of(calls)) == 1


def test_parts_that_a_failed_deletion_has_left_are_all_there_is(deployed: str) -> None:
    """What is gone already, or was never made, is neither told nor touched again."""
    gone = [
        {
            "LogicalResourceId": name,
            "ResourceType": kind,
            "ResourceStatus": state,
            "PhysicalResourceId": identifier,
        }
        for name, kind, state, identifier in (
            ("Spark", "AWS::EMRServerless::Application", "DELETE_COMPLETE", "00gone"),
            ("Log", "AWS::Logs::LogGroup", "CREATE_FAILED", ""),
        )
    ]
    client = aws.client("cloudformation")
    there = client.list_stack_resources(StackName="lamplighter-dev")["StackResourceSummaries"]
    pages = [{"StackResourceSummaries": [*there, *gone]}]
    with patch.object(client, "get_paginator") as paginator:
        paginator.return_value.paginate.return_value = pages
        found = contents_of("lamplighter-dev")

    assert found is not None
    assert (found.applications, found.going) == ((), (f"bucket {deployed}",))


@pytest.mark.usefixtures("deployed")
def test_what_invokes_functions_is_found_in_the_stack() -> None:
    """By the ids that EventBridge and Lambda take."""
    parts = [
        {
            "LogicalResourceId": name,
            "ResourceType": kind,
            "ResourceStatus": "CREATE_COMPLETE",
            "PhysicalResourceId": name.lower(),
        }
        for name, kind in (
            ("Tick", "AWS::Events::Rule"),
            ("Claims", "AWS::Lambda::EventSourceMapping"),
            ("Spark", "AWS::EMRServerless::Application"),
        )
    ]
    with patch.object(aws.client("cloudformation"), "get_paginator") as paginator:
        paginator.return_value.paginate.return_value = [{"StackResourceSummaries": parts}]
        found = contents_of("lamplighter-dev")

    assert found is not None
    assert (found.rules, found.mappings, found.applications) == (("tick",), ("claims",), ("spark",))


def test_bucket_that_cannot_be_emptied_ends_destroy(
    alone: Command, calls: Path, deployed: str
) -> None:
    """What may not be deleted is named, and the stack is left alone."""
    error = {"Key": "bundles/shop.zip", "Code": "AccessDenied", "Message": "Access Denied"}
    with patch.object(aws.client("s3"), "delete_objects", lambda **_: {"Errors": [error]}):
        done = alone("destroy", "--yes")

    message = f"error: bundles/shop.zip in {deployed} stays: Access Denied\n"
    assert (done.code, done.err.endswith(message)) == (1, True), done.err
    assert not calls_of(calls)


def test_destroy_without_anybody_to_ask_does_nothing(
    alone: Command, calls: Path, deployed: str
) -> None:
    """A script says --yes, or does not mean it."""
    done = alone("destroy")

    assert (done.code, done.err.splitlines()[-1]) == (
        3,
        "error: this is not a terminal: pass --yes to delete lamplighter-dev",
    )
    assert (calls_of(calls), _objects(deployed)) == ([], 1)


@pytest.mark.parametrize(("typed", "code"), [("lamplighter-dev", 0), ("yes", 3), ("", 3)])
def test_destroy_asks_for_the_name_of_the_stack(
    alone: Command, calls: Path, deployed: str, typed: str, code: int
) -> None:
    """What is typed by habit is not enough."""
    with (
        patch.object(console, "is_interactive", lambda: True),
        patch("typer.prompt", lambda *_, **__: typed),
    ):
        done = alone("destroy")

    assert done.code == code
    assert (len(calls_of(calls)), _objects(deployed)) == ((1, 0) if code == 0 else (0, 1))


@pytest.mark.usefixtures("deployed")
def test_destroy_of_a_protected_stack_is_refused(alone: Command, calls: Path) -> None:
    """Before anything is deleted; the line has the command that lifts it."""
    found = contents_of("lamplighter-dev")
    assert found is not None
    # The emulator protects no stacks.
    with patch.object(module, "contents_of", lambda _: replace(found, is_protected=True)):
        done = alone("destroy", "--yes")

    assert done.err.startswith("error: stack 'lamplighter-dev' is protected: run `aws cloudf")
    assert not calls_of(calls)


@pytest.mark.usefixtures("deployed")
def test_destroy_stops_the_application_first(alone: Command, calls: Path) -> None:
    """CloudFormation cannot delete one that runs."""
    emr = aws.client("emr-serverless")
    made = emr.create_application(name="x", releaseLabel="emr-7.0.0", type="SPARK", clientToken="x")
    identifier = made["applicationId"]
    emr.start_application(applicationId=identifier)
    found = contents_of("lamplighter-dev")
    assert found is not None
    # The emulator makes none with a stack.
    with patch.object(module, "contents_of", lambda _: replace(found, applications=(identifier,))):
        assert alone("destroy", "--yes").code == 0

    answer = emr.get_application(applicationId=identifier)
    assert answer["application"]["state"] == "STOPPED"
    assert len(calls_of(calls)) == 1


def test_destroy_stops_scheduling_before_anything_else(
    alone: Command, calls: Path, deployed: str
) -> None:
    """Else the tick would start the next job while the application stops."""
    events = aws.client("events")
    events.put_rule(Name="lamplighter-dev-tick", ScheduleExpression="rate(1 minute)")
    found = contents_of("lamplighter-dev")
    assert found is not None
    changed: list[Any] = []

    def update(**arguments: Any) -> None:
        changed.append((arguments, _objects(deployed)))

    live = replace(found, rules=("lamplighter-dev-tick", "gone"), mappings=("mapping",))
    with (
        patch.object(module, "contents_of", lambda _: live),
        patch.object(aws.client("lambda"), "update_event_source_mapping", update),
    ):
        assert alone("destroy", "--yes").code == 0

    assert events.describe_rule(Name="lamplighter-dev-tick")["State"] == "DISABLED"
    assert changed == [({"UUID": "mapping", "Enabled": False}, 1)]
    events.delete_rule(Name="lamplighter-dev-tick")


@pytest.mark.usefixtures("deployed")
def test_destroy_of_a_stage_that_is_not_there_is_refused(alone: Command, calls: Path) -> None:
    """A typing error is told as what it is."""
    done = alone("destroy", "--stage", "qa", "--yes")

    assert done.err == (
        "error: there is no stack 'lamplighter-qa': see --stage, --region and --profile\n"
    )
    assert not calls_of(calls)
