"""One deployment on an emulator that executes the functions, for all tests of this folder.

It is deployed by the real command line of the CDK, and reached by the real command line of ours.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pendulum
import pytest

from lamplighter import aws, settings
from lamplighter.settings import Settings
from lamplighter_cli.deployment import Target, in_force
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_operations.variables import set_variable
from tests.deployed import life
from tests.tools import emulated
from tests.tools.emr_server import serving_emr
from tests.tools.emulated import Emulator

STACK = "lamplighter-dev"
READER = ("reader",)
OPERATOR = ("reader", "operator")
_COMMAND = Path(sys.executable).with_name("lamplighter")
_EXAMPLES = Path(__file__).parents[2] / "examples"
_FURTHER_DAGS = """\
import pendulum
from lamplighter import DAG, Asset, AssetWatcher, PythonTask, SparkTask, StepFunctionsTask
from lamplighter.triggers import EventBridgeTrigger, SqsTrigger

with DAG("every_minute", schedule="* * * * *", start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
         catchup=False):
    SparkTask("work", job="jobs.fx:load")

with DAG("held", schedule=None, max_active_runs=8):
    SparkTask("first", job="jobs.fx:load") >> SparkTask("second", job="jobs.fx:load")

sales = Asset("sales", watchers=[
    AssetWatcher("tills", EventBridgeTrigger({"source": ["shop.till"]})),
    AssetWatcher("web", SqsTrigger("web-orders")),
])
with DAG("sold", schedule=sales):
    SparkTask("work", job="jobs.fx:load")

# Its first run begins with the push, and is looked at later.
with DAG("kinds", schedule="@daily", start_date=pendulum.datetime(2026, 1, 1), catchup=False):
    load = SparkTask("load", job="jobs.fx:load")
    export = StepFunctionsTask("export", state_machine="export", input={"day": "{{ ds }}"})
    check = PythonTask("check", job="jobs.check:check", inputs=[export], outlets=[Asset("checked")])
    load >> export >> check
"""
_PYTHON_STEP = """\
def check(context):
    print("checking", context.input("export")["day"])
    context.outlet("checked").extra["day"] = context.input("export")["day"]
    context.output["is_right"] = context.input("export")["day"] == str(context.logical_date.date())
"""
# It waits, so that its end is told by an event and not found by whoever started it.
_STATE_MACHINE = {
    "StartAt": "Wait",
    "States": {
        "Wait": {"Type": "Wait", "Seconds": 2, "Next": "Tell"},
        "Tell": {"Type": "Pass", "Parameters": {"day.$": "$.day"}, "End": True},
    },
}
WATCHED_QUEUE = "web-orders"
# A message whose function dies, as where the machine is busy, is hidden for six minutes.
SOON_SECONDS = 480


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process have the deployment, and let it be reached."""
    for item in items:
        if isinstance(item, pytest.Function) and "deployed" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("deployed"))
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1"]))


@dataclass
class Deployed:
    """The deployment."""

    there: Emulator
    emr: FakeEmr
    flags: dict[str, str] = field(default_factory=dict)
    _people: dict[Sequence[str], dict[str, str]] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """The settings that the outputs of the stack tell."""
        return settings.current()

    @property
    def place(self) -> dict[str, str]:
        """Where it is, as arguments of a client."""
        return {
            "region_name": emulated.REGION,
            "endpoint_url": self.there.endpoint,
            "verify": str(self.there.certificate),
        }

    def deploy(self, **changed: str) -> str:
        """Deploy with the flags of before and these; return what the CDK said."""
        self.flags |= changed
        return emulated.deploy(self.there, self.flags)

    def command(self, *arguments: str, exits: tuple[int, ...] = (0,)) -> Any:
        """Return what a command of ours prints as JSON, for an operator."""
        done = self.run(*arguments, who=OPERATOR)
        assert done.returncode in exits, done.stderr or done.stdout
        return json.loads(done.stdout)

    def run(self, *arguments: str, who: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of ours for someone who has these policies, and no other right."""
        return subprocess.run(
            [_COMMAND, "--stack", STACK, *arguments, "--json"],
            env={**os.environ, **self._credentials(who)},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def _credentials(self, who: Sequence[str]) -> dict[str, str]:
        if who not in self._people:
            self._people[who] = _hire(who)
        return self._people[who]

    def stolen_credentials(self, function: str) -> dict[str, str]:
        """Return credentials of a function, as if somebody had found them."""
        return _session(
            f"arn:aws:iam::{emulated.ACCOUNT}:role/{STACK}-{function}-{emulated.REGION}"
        )

    def push(self) -> None:
        """Push the example of the shop as if it were three hours old, with DAGs for these tests.

        And the smallest one, as it is.
        """
        root = self.there.folder / "bundle"
        if not root.is_dir():
            shutil.copytree(_EXAMPLES, root, ignore=shutil.ignore_patterns("__pycache__"))
            shop = root / "dags" / "web_shop.py"
            start = pendulum.now("UTC").subtract(hours=3).start_of("hour")
            text = shop.read_text()
            for was, now in (
                ('START = pendulum.datetime(2026, 1, 1, tz="Europe/Zurich")', "START = {}"),
                # It owes a run for each workday: without this, more every day.
                ("start_date=pendulum.datetime(2026, 1, 1)", "start_date={}"),
            ):
                assert was in text
                text = text.replace(was, now.format(f'pendulum.parse("{start.isoformat()}")'))
            shop.write_text(text)
            (root / "dags" / "further.py").write_text(_FURTHER_DAGS)
            (root / "jobs" / "check.py").write_text(_PYTHON_STEP)
        self.command("push", str(root), "--bundle", "shop", "--yes")
        self.command("push", str(_EXAMPLES / "hello"))

    def soon(self, is_so: Callable[[], Any], *, sweeps: bool = False) -> Any:
        """Return what a question answers as soon as that is something, or is after a sweep."""
        until = time.monotonic() + SOON_SECONDS
        while True:
            found = is_so()
            if found or time.monotonic() > until:
                assert found, f"not within {SOON_SECONDS} seconds: {self._log()}"
                return found
            if sweeps:
                self._sweep()
            time.sleep(1)

    def _sweep(self) -> None:
        """Call the sweep before its time, because it has five minutes."""
        time.sleep(10)
        client = aws.client("lambda", read_seconds=60)
        answer = client.invoke(FunctionName=f"{STACK}-sweep")
        assert "FunctionError" not in answer, answer["Payload"].read()

    def _log(self) -> str:
        """Return what went wrong in the emulator, and what it said last."""
        lines = self.there.log.read_text(errors="replace").splitlines()
        wrong = [line[:1000] for line in lines if "WARNING" in line or '"ERROR"' in line]
        return "\n".join(["", *wrong[-20:], "...", *(line[:200] for line in lines[-20:])])


def _make_state_machines() -> None:
    """Make the state machines that steps may start, as their owner would."""
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "states"}}
    role = aws.client("iam").create_role(
        RoleName="state-machines", AssumeRolePolicyDocument=json.dumps({"Statement": [trust]})
    )["Role"]["Arn"]
    for name, definition in (("export", _STATE_MACHINE), ("life", life.STATE_MACHINE)):
        aws.client("stepfunctions").create_state_machine(
            name=name, definition=json.dumps(definition), roleArn=role
        )


def _hire(policies: Sequence[str]) -> dict[str, str]:
    """Return the credentials of a role that has these policies of the stack."""
    iam = aws.client("iam")
    name = "-".join(policies)
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": emulated.ACCOUNT}}
    role = iam.create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps({"Statement": [trust]})
    )["Role"]["Arn"]
    for policy in policies:
        full_name = f"{STACK}-{policy}-{emulated.REGION}"
        arn = f"arn:aws:iam::{emulated.ACCOUNT}:policy/{full_name}"
        iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    return {name.upper(): text for name, text in _session(role).items()}


def _session(role: str) -> dict[str, str]:
    """Return temporary credentials of a role, as arguments of a client."""
    session = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="someone")["Credentials"]
    return {
        "aws_access_key_id": session["AccessKeyId"],
        "aws_secret_access_key": session["SecretAccessKey"],
        "aws_session_token": session["SessionToken"],
    }


# Not of the session: what leads to the emulator would lead other tests of this process there too.
@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    """Deploy to an emulator, with the project's own EMR Serverless beside it."""
    missing = emulated.why_not()
    if missing is not None:
        pytest.skip(missing)
    emr = FakeEmr()
    with (
        TemporaryDirectory(prefix="lamplighter-deployed-") as name,
        emulated.emulator(Path(name)) as there,
        emulated.leading_to(there),
        serving_emr(emr) as address,
    ):
        made = Deployed(there, emr)
        emulated.bootstrap(there)
        # It is someone else's, and Lambda asks for it when it is told to listen.
        aws.client("sqs").create_queue(
            QueueName=WATCHED_QUEUE, Attributes={"VisibilityTimeout": "180"}
        )
        _make_state_machines()
        made.deploy(
            emr_endpoint=address,
            # Each function that runs at once unpacks the layers for itself.
            concurrency="2",
            # The emulator tells nobody of invocations that ended well: the sweep finds Python jobs.
            job_poll_seconds="60",
            # The fake has room for all jobs, and some stories let many wait there.
            spark_vcpus="1000",
            spark_memory_gb="4000",
            spark_disk_gb="20000",
            watch_event_sources="shop.till",
            watch_queues=WATCHED_QUEUE,
            state_machines='["export", "life"]',
        )
        with in_force(Target(stack=STACK)):
            set_variable("data_root", "s3://lake")
            made.push()
            yield made
