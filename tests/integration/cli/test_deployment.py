"""Which deployment a command talks to, and what it says if that cannot be found."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from lamplighter import DAG, aws, runtime, settings
from lamplighter.runtime import Runtime
from lamplighter.settings import Settings
from lamplighter_local.dev import state as dev_state
from lamplighter_local.dev.state import DevState
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import register_dags

Command = Callable[..., Any]


def make_stack(name: str, outputs: dict[str, str]) -> None:
    """Make a stack of CloudFormation that says something of itself."""
    template = {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {key: {"Value": value} for key, value in outputs.items()},
    }
    aws.client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template))


@pytest.fixture
def elsewhere(stack: LocalStack) -> Iterator[Settings]:
    """Return the settings of the deployment, which only a stack or a file can name from now on."""
    register_dags(DAG("there"))
    with runtime.using(settings=Settings(table_prefix="nowhere-")):
        yield stack.settings


@pytest.fixture
def shop(elsewhere: Settings) -> Iterator[None]:
    """Make a stack that names the deployment."""
    make_stack("shop", elsewhere.as_outputs() | {"ApiUrl": "of another meaning"})
    yield
    aws.client("cloudformation").delete_stack(StackName="shop")


@pytest.mark.usefixtures("shop")
class TestStack:
    def test_stack_is_found_by_its_outputs(self, lamplighter: Command) -> None:
        """Tables and queues are those that the stack names, until the command has ended."""
        result = lamplighter("--stack", "shop", "dags", "list", "--json")
        assert (result.code, [dag["dag_id"] for dag in json.loads(result.out)]) == (0, ["there"])
        assert lamplighter("--stack", "shop", "runs", "trigger", "there").code == 0
        assert settings.current().table_prefix == "nowhere-"

    def test_stack_may_be_named_by_the_environment(
        self, lamplighter: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Once for a whole session."""
        monkeypatch.setenv("LAMPLIGHTER_STACK", "shop")
        assert lamplighter("dags", "show", "there").code == 0

    def test_stack_that_is_not_there_is_told_with_others(self, lamplighter: Command) -> None:
        """Region, account, and what else looks like a deployment."""
        result = lamplighter("--stack", "shp", "dags", "list")
        assert (result.code, result.out) == (1, "")
        assert result.err == (
            "error: there is no stack 'shp' in region us-east-1 of account 123456789012:"
            " there is shop\n"
        )

    def test_stack_in_another_region_is_not_there(self, lamplighter: Command) -> None:
        """The region that was asked is named."""
        result = lamplighter("--stack", "shop", "--region", "eu-west-1", "dags", "list")
        assert result.code == 1
        assert result.err.startswith("error: there is no stack 'shop' in region eu-west-1")
        assert os.environ["AWS_DEFAULT_REGION"] == "us-east-1"

    def test_stack_of_someone_else_is_refused(self, lamplighter: Command) -> None:
        """One without our outputs is not taken for a deployment."""
        make_stack("theirs", {"Bucket": "x"})
        result = lamplighter("--stack", "theirs", "dags", "list")
        assert (result.code, "'theirs' is not a deployment of Lamplighter" in result.err) == (
            1,
            True,
        )

    def test_settings_of_a_function_are_those_of_a_command(
        self, lamplighter: Command, elsewhere: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What a function has in its environment selects its deployment for a command too."""
        for name, text in elsewhere.as_environment().items():
            monkeypatch.setenv(name, text)
        with runtime.activate(Runtime("command")):
            result = lamplighter("dags", "list", "--json")
        assert (result.code, [dag["dag_id"] for dag in json.loads(result.out)]) == (0, ["there"])

    def test_setting_that_cannot_be_is_one_line(
        self, lamplighter: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The line names the variable, the setting, and what it may be."""
        monkeypatch.setenv("LAMPLIGHTER_SETTINGS", '{"due_shards": "many"}')
        with runtime.activate(Runtime("command")):
            result = lamplighter("dags", "list")
        assert (result.code, result.out) == (1, "")
        assert result.err == (
            "error: LAMPLIGHTER_SETTINGS.due_shards='many' must be a whole number between 1 and"
            " 256\n"
        )

    def test_output_that_is_missing_is_named_when_needed(
        self, lamplighter: Command, elsewhere: Settings
    ) -> None:
        """What needs no queue works all the same."""
        make_stack(
            "half",
            replace(elsewhere, queue_urls=elsewhere.queue_urls | {"events": ""}).as_outputs(),
        )
        assert lamplighter("--stack", "half", "dags", "list").code == 0
        result = lamplighter("--stack", "half", "assets", "emit", "orders")
        assert (result.code, "the output EventsQueueUrl" in result.err) == (1, True)


class TestLocal:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keep the file of `lamplighter dev` for this test alone."""
        monkeypatch.setenv("LAMPLIGHTER_STATE_DIR", str(tmp_path))

    def test_local_deployment_is_found_by_its_file(
        self, lamplighter: Command, elsewhere: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its address, names and region are taken, and no profile or key of the user's."""
        monkeypatch.setenv("AWS_PROFILE", "precious")
        address = "https://dynamodb.us-east-1.amazonaws.com"  # which moto answers
        state = DevState(
            address, "us-east-1", os.getpid(), "x", "", "key", "secret", asdict(elsewhere)
        )
        dev_state.write(state)
        result = lamplighter("--local", "dags", "list", "--json")
        assert (result.code, result.err) == (0, "")
        assert [dag["dag_id"] for dag in json.loads(result.out)] == ["there"]
        assert os.environ["AWS_PROFILE"] == "precious"
        assert "AWS_ENDPOINT_URL" not in os.environ

    def test_local_without_dev_is_one_line(
        self, lamplighter: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The user is told what to start."""
        monkeypatch.setenv("LAMPLIGHTER_LOCAL", "1")
        result = lamplighter("dags", "list")
        assert result.err == "error: `lamplighter dev` is not running: start it first\n"
        assert result.code == 1

    def test_local_of_another_version_is_one_line(self, lamplighter: Command) -> None:
        """Settings that this version does not know are no traceback."""
        state = DevState("http://x", "r", os.getpid(), "x", "", "key", "secret", {"new": "setting"})
        dev_state.write(state)
        result = lamplighter("--local", "dags", "list")
        assert (result.code, "started by another version" in result.err) == (1, True)

    def test_local_file_without_a_key_is_one_line(
        self, lamplighter: Command, tmp_path: Path
    ) -> None:
        """A session of before there were keys, or a file that someone wrote, is not believed."""
        old = {"endpoint_url": "http://x", "region": "r", "pid": os.getpid(), "bundle": "x"}
        (tmp_path / "dev.json").write_text(json.dumps({**old, "started_at": "", "settings": {}}))
        result = lamplighter("--local", "dags", "list")
        assert result.err == (
            f"error: {tmp_path}/dev.json is not a file of `lamplighter dev`: remove it and start"
            " `dev` again\n"
        )

    @pytest.mark.parametrize("other", [["--stack", "shop"], ["--endpoint-url", "http://x"]])
    def test_local_and_another_deployment_are_refused(
        self, lamplighter: Command, other: list[str]
    ) -> None:
        """Nobody guesses which was meant: exit code 2, as for every wrong use."""
        assert lamplighter("--local", *other, "dags", "list").code == 2

    def test_commands_without_a_deployment_ask_for_none(
        self, lamplighter: Command, tmp_path: Path
    ) -> None:
        """A bundle is checked whether or not anything is there."""
        (tmp_path / "dags").mkdir()
        assert lamplighter("--local", "check", tmp_path).code == 0
        assert lamplighter("--stack", "nowhere", "runs", "list", "--help").code == 0


def test_command_starts_without_the_emulator() -> None:
    """Whoever has only the command line installed has no moto and no Spark."""
    code = "import sys, lamplighter_cli.app; print({'moto', 'pyspark'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
