"""What watchers can reach: a network, a file system, roles of bundles; and nothing else."""

from tests.infra.synthesis import EVERYTHING, Synthesis
from tests.infra.test_permissions import policies_of


def _watch(synthesis: Synthesis) -> dict[str, object]:
    (found,) = (
        each
        for each in synthesis.resources("AWS::Lambda::Function").values()
        if each.get("FunctionName") == f"{synthesis.config.stack_name}-watch"
    )
    return found


def test_watchers_are_in_the_subnets_with_the_groups_of_their_flags(prod: Synthesis) -> None:
    """The deployer's groups say what can be reached; the stack adds no rule to them."""
    assert _watch(prod)["VpcConfig"] == {
        "SecurityGroupIds": EVERYTHING["watch_security_groups"],
        "SubnetIds": EVERYTHING["watch_subnets"],
    }
    for kind in ("AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress"):
        rules = prod.resources(kind).values()
        assert not [each for each in rules if each.get("GroupId") == "sg-12345678"]


def test_watchers_without_flags_are_in_no_network(dev: Synthesis) -> None:
    """Nothing is added that nobody asked for."""
    assert not _watch(dev).keys() & {"VpcConfig", "FileSystemConfigs"}
    roles = dev.resources("AWS::IAM::Role").values()
    assert not [role for role in roles if "ManagedPolicyArns" in role]


def test_watchers_see_the_file_system_at_its_path(prod: Synthesis) -> None:
    """The access point is mounted, and may be used through nothing but itself."""
    arn = EVERYTHING["watch_access_point"]
    assert _watch(prod)["FileSystemConfigs"] == [{"Arn": arn, "LocalMountPath": "/mnt/inbox"}]
    lines = [each for each in policies_of(prod)["watch"] if "elasticfilesystem" in each.action]
    assert {(line.action, line.thing, line.condition) for line in lines} == {
        (
            f"elasticfilesystem:{action}",
            "file-system/*",
            f"if elasticfilesystem:AccessPointArn is {arn}",
        )
        for action in ("ClientMount", "ClientWrite")
    }


def test_watchers_may_assume_the_roles_of_bundles_and_no_other(
    prod: Synthesis, dev: Synthesis
) -> None:
    """What author code may do is said by roles that the deployer names, not by the function's."""
    assumed = {
        role["RoleName"]: each["Resource"]
        for role in prod.resources("AWS::IAM::Role").values()
        for given in role.get("Policies", [])
        for each in given["PolicyDocument"]["Statement"]
        if "sts:AssumeRole" in str(each["Action"])
    }
    (watch,) = (name for name in assumed if "-watch-" in name)
    assert assumed.pop(watch) == EVERYTHING["watcher_roles"]["shop"]
    # That of Python tasks, whose programs are authors' too.
    ((task, role),) = assumed.items()
    assert ("-task-" in task, "python-jobs" in str(role)) == (True, True)
    assert not [line for line in policies_of(dev)["watch"] if "sts" in line.action]


def test_only_watchers_get_what_their_flags_bring(prod: Synthesis, dev: Synthesis) -> None:
    """The network and the file system are those of one function."""
    roles = prod.resources("AWS::IAM::Role").values()
    (of_python,) = (each for each in roles if "ManagedPolicyArns" in each)
    assert "python-jobs" in of_python["RoleName"]
    for who, lines in policies_of(prod).items():
        things = {line.thing for line in lines}
        assert ("file-system/*" in things) == (who == "watch"), who
    placing = {line.action for line in policies_of(prod)["watch"] if line.thing == "*"}
    assert placing
    assert all(action.startswith("ec2:") for action in placing)
    assert not [line for line in policies_of(dev)["watch"] if line.thing == "*"]
