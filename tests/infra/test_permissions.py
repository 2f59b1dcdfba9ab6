"""What functions and people may do: as reviewed in `permissions.txt`, and nothing else."""

import json
import os
from typing import Any

import pytest

from lamplighter.topology import FUNCTIONS
from lamplighter_infra.functions import PERMISSIONS
from tests.infra.permissions_file import FILE, Line, lines_of, read_sections, write_sections
from tests.infra.synthesis import LONGEST, Synthesis, shortened, synthesize

# A thing with a star in it: whose parts cannot be named before they are there.
_PATTERNS = {
    "log-group:/aws/lambda/": "streams are made by Lambda",
    "log-group:/aws/emr-serverless/": "streams are made by EMR Serverless",
    "log-group:*": "log groups are looked up by listing",
    "bucket/bundles/*": "named by their content",
    "bucket/pushes/*": "numbered",
    "bucket/results/*": "named at random",
    "bucket/jobs/*": "one folder for each job",
    "bucket/logs/*": "laid out by EMR Serverless",
    "bucket/runtime/*": "named by their content",
    "application/jobruns/*": "jobs get their ids when they start",
    "execution:": "executions are named by the submissions of steps",
    "stack/": "its id is made with it",
    "lake": "the data of others",
    "file-system/*": "its access point is named",
}
# Where the API takes nothing else.
_STARS = {
    (function, f"ec2:{action}")
    for function in ("sandbox", "task", "watch")
    for action in (
        "AssignPrivateIpAddresses",
        "CreateNetworkInterface",
        "DeleteNetworkInterface",
        "DescribeNetworkInterfaces",
        "DescribeSubnets",
        "UnassignPrivateIpAddresses",
    )
}


def policies_of(synthesis: Synthesis) -> dict[str, list[Line]]:
    """Return who may do what: functions, jobs, and the two policies for people."""
    stack = synthesis.config.stack_name
    found: dict[str, list[Line]] = {}
    for name, role in synthesis.resources("AWS::IAM::Role").items():
        # What Python tasks run may do nothing before a deployer says so.
        policies = role.get("Policies", [])
        found[_who(name, role, stack)] = [
            line for each in policies for line in lines_of(each["PolicyDocument"], stack=stack)
        ]
    for policy in synthesis.resources("AWS::IAM::ManagedPolicy").values():
        who = policy["ManagedPolicyName"].removeprefix(f"{stack}-").split("-")[0]
        found[who] = lines_of(policy["PolicyDocument"], stack=stack)
    return found


def _who(name: str, role: dict[str, Any], stack: str) -> str:
    if name.startswith("RuntimeRole"):
        return "runtime"
    text: str = role["RoleName"]
    return text.removeprefix(f"{stack}-").split("-")[0]


@pytest.fixture(scope="session")
def policies(dev: Synthesis) -> dict[str, list[Line]]:
    """Return the permissions of everyone in the smallest stack."""
    return policies_of(dev)


def test_permissions_are_those_that_were_reviewed(policies: dict[str, list[Line]]) -> None:
    """Every permission of everyone stands in the file, and nothing else does.

    After a deliberate change:
    LAMPLIGHTER_WRITE_PERMISSIONS=1 pytest tests/infra/test_permissions.py
    """
    if os.environ.get("LAMPLIGHTER_WRITE_PERMISSIONS"):
        write_sections(policies)
    reviewed = read_sections()
    assert set(reviewed) == set(policies)
    for who, lines in policies.items():
        assert [str(line) for line in lines] == [str(line) for line in reviewed[who]], who


def test_every_function_has_permissions_and_a_folder(policies: dict[str, list[Line]]) -> None:
    """There is no function without permissions, and no permissions without a function."""
    folders = {path.parent.name for path in (FILE.parents[2] / "functions").glob("*/handler.py")}
    assert set(FUNCTIONS) == set(PERMISSIONS) == folders
    assert set(policies) == {*FUNCTIONS, "jobs", "python", "runtime", "reader", "operator"}


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_no_policy_allows_everything(stage: str, request: pytest.FixtureRequest) -> None:
    """No action has a star, and things have one only where no name could stand."""
    for who, lines in policies_of(request.getfixturevalue(stage)).items():
        for line in lines:
            assert "*" not in line.action, (who, line)
            if line.thing == "*":
                assert (who, line.action) in _STARS, (who, line)
            elif "*" in line.thing:
                known = any(pattern in line.thing for pattern in _PATTERNS)
                assert known or line.thing.startswith("cdk-"), (who, line)


def test_author_code_reaches_no_table_queue_or_job(policies: dict[str, list[Line]]) -> None:
    """The sandbox reads bundles and puts answers, and that is all."""
    things = {line.thing for line in policies["sandbox"] if not line.action.startswith("logs:")}
    assert things == {"bucket/bundles/*", "bucket/results/*", "key"}


def test_author_code_in_a_network_cannot_use_it(prod: Synthesis) -> None:
    """What Lambda needs to place functions in a network is denied to the functions themselves."""
    for function in ("sandbox", "task", "watch"):
        lines = policies_of(prod)[function]
        allowed = {line.action for line in lines if line.thing == "*" and not line.effect}
        denied = {line.action for line in lines if line.thing == "*" and line.effect}
        assert allowed == denied != set()


def test_only_submit_starts_jobs(policies: dict[str, list[Line]]) -> None:
    """One function starts jobs, with the one role that jobs have, and hands it to nobody else."""
    starting = {who for who, lines in policies.items() for line in lines if "Start" in line.action}
    passing = {
        (who, line.condition)
        for who, lines in policies.items()
        for line in lines
        if line.action == "iam:PassRole"
    }
    assert starting == {"submit"}
    assert passing == {("submit", "if iam:PassedToService is emr-serverless.amazonaws.com")}


def test_readers_change_nothing(policies: dict[str, list[Line]]) -> None:
    """Everything that a reader may do is a look at something."""
    looks = ("Get", "BatchGet", "Query", "Scan", "Describe", "List", "Filter")
    verbs = (*looks, "Decrypt", "GenerateDataKey")
    for line in policies["reader"]:
        assert line.action.split(":")[1].startswith(verbs), line


def test_policies_are_short_enough_for_iam() -> None:
    """A policy for people has 6,144 characters at most, one of a role 10,240, whatever the name."""
    longest = synthesize(LONGEST)
    for kind, limit in (("AWS::IAM::ManagedPolicy", 6144), ("AWS::IAM::Role", 10_240)):
        for name, made in longest.resources(kind).items():
            policy = made["PolicyDocument"] if "PolicyDocument" in made else made.get("Policies")
            assert len(json.dumps(shortened(policy), separators=(",", ":"))) <= limit, name
