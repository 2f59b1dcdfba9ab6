"""`lamplighter promote`, `rollback` and `bundles` as a user types them, with two stacks."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from botocore.client import BaseClient
from pendulum import datetime

from lamplighter import aws
from lamplighter.identifiers import bundle_key
from lamplighter.store.bundles import read_records
from lamplighter.store.models import Catalog
from lamplighter_local import LocalDeployment
from tests.infra.permissions_file import CheckedPermissions
from tests.integration.cli.test_deployment import make_stack
from tests.tools.function_calls import FunctionCall, noted_calls_of
from tests.tools.snapshot import begin_anew

Command = Callable[..., Any]

NOON = datetime(2026, 1, 5, 12, 0, 5)
DEV, PROD = "lamplighter-dev", "lamplighter-prod"

HEAD = """
import pendulum
from lamplighter import DAG
NINE = pendulum.datetime(2026, 1, 5, 9)
"""
HOURLY = HEAD + "DAG('hourly', schedule='0 * * * *', start_date=NINE)\n"
HALF_HOURLY = HOURLY.replace("0 *", "*/30 *") + "DAG('more')\n"
MANY = HOURLY.replace("NINE)", "NINE.subtract(days=10))")


class Two(NamedTuple):
    """Two deployments in one emulator, each with a stack that names it."""

    dev: LocalDeployment
    prod: LocalDeployment
    root: Path

    def write(self, text: str, file: str = "a.py") -> None:
        """Give the bundle a DAG file."""
        (self.root / "dags").mkdir(exist_ok=True)
        (self.root / "dags" / file).write_text(text, encoding="utf-8")

    def register(self) -> None:
        """Let both register what was pushed."""
        for lamp in (self.dev, self.prod):
            lamp.run_until_idle()


@pytest.fixture(scope="module")
def deployments(kept_worker: None) -> Iterator[tuple[LocalDeployment, LocalDeployment]]:
    """Yield two deployments for a module."""
    with LocalDeployment(at=NOON, name=DEV) as dev, LocalDeployment(at=NOON, name=PROD) as prod:
        for lamp in (dev, prod):
            make_stack(lamp.name, lamp.stack.settings.as_outputs())
        yield dev, prod


@pytest.fixture
def two(deployments: tuple[LocalDeployment, LocalDeployment], tmp_path: Path) -> Two:
    """Return both deployments as if they were new."""
    for lamp in deployments:
        begin_anew(lamp.stack, at=NOON)
    return Two(*deployments, tmp_path)


@pytest.fixture
def lamplighter(alone: Command) -> Iterator[Command]:
    """Yield a function that runs the command; it reads from `dev`, and operates `prod`.

    What it asks of AWS is held against the policies for readers and for operators.
    """
    dev = CheckedPermissions(f"{DEV}-")
    prod = CheckedPermissions(f"{PROD}-", beside="reader")

    def note(call: FunctionCall) -> None:
        if f"{DEV}-" in str(call.arguments):
            dev.note(call._replace(function="reader"))
        else:
            prod.note(call)

    def run(*arguments: object) -> Any:
        with noted_calls_of("operator", note):
            return alone(*arguments)

    yield run
    assert dev.forbidden | prod.forbidden == set()


@pytest.fixture
def push(two: Two, alone: Command) -> Callable[..., None]:
    """Return a function that pushes a DAG file as the bundle `shop` and lets it be registered."""

    def push(text: str, *options: str, to: str = DEV, registers: bool = True) -> None:
        two.write(text)
        result = alone("--stack", to, "push", two.root, "--bundle", "shop", "--yes", *options)
        assert (result.code, result.err) == (0, "")
        if registers:
            two.register()

    return push


Push = Callable[..., None]


def records(lamp: LocalDeployment) -> list[Catalog]:
    """Return the records of the pushes of a deployment, the oldest first."""
    with lamp.in_own_runtime():
        return read_records("shop")[::-1]


def archives(lamp: LocalDeployment) -> dict[str, bytes]:
    """Return the archives of a deployment by their keys."""
    s3, bucket = aws.client("s3"), lamp.stack.settings.bucket
    listed = s3.list_objects_v2(Bucket=bucket, Prefix="bundles/").get("Contents", ())
    keys = [found["Key"] for found in listed if found["Key"].endswith(".zip")]
    return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


PROMOTE = ("promote", "shop", "--from", DEV, "--to", PROD)


class TestPromote:
    def test_very_archive_is_pushed_with_its_origin(
        self, two: Two, push: Push, lamplighter: Command
    ) -> None:
        """The bytes are the same, DAGs are registered, and the record says whence and by whom."""
        push(HOURLY)
        result = lamplighter(*PROMOTE, "--why", "tested for a week")
        assert (result.code, result.err) == (0, "")
        first, last = result.out.splitlines()
        assert first == "hourly has 3 runs that are already due"
        assert last.startswith("promoted 'shop': push 1, 1 DAGs, version ")
        two.register()
        assert archives(two.prod) == archives(two.dev)
        assert len(two.prod.runs("hourly")) == 3
        (record,) = records(two.prod)
        assert record.origin == {
            "kind": "promotion",
            "push": 1,
            "deployment": DEV,
            "account": "123456789012",
            "region": "us-east-1",
        }
        assert (record.outcome, record.errors, record.why) == ("registered", 0, "tested for a week")
        assert record.pushed_by.startswith("arn:aws:sts::123456789012:")

    def test_stages_mean_stacks(self, two: Two, push: Push, lamplighter: Command) -> None:
        """`dev` is the stack `lamplighter-dev` where no stack is called `dev`."""
        push(HOURLY)
        result = lamplighter("promote", "shop", "--from", "dev", "--to", "prod")
        assert (result.code, result.err) == (0, "")
        two.register()
        assert [dag.dag_id for dag in two.prod.dags()] == ["hourly"]

    def test_same_archive_is_not_pushed_again(
        self, two: Two, push: Push, lamplighter: Command
    ) -> None:
        """A command that is repeated says so, and takes no number."""
        push(HOURLY)
        lamplighter(*PROMOTE)
        two.register()
        result = lamplighter(*PROMOTE)
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith(
            f"bundle 'shop' in {PROD} has this archive already (push 1, version "
        )
        again = json.loads(lamplighter(*PROMOTE, "--json").out)
        assert (again["push"], again["already_current"]) == (1, True)
        assert len(records(two.prod)) == 1

    def test_json_is_that_of_a_push_and_its_origin(self, push: Push, lamplighter: Command) -> None:
        """Programs that read what `push` prints can read this."""
        push(HOURLY)
        told = json.loads(lamplighter(*PROMOTE, "--json").out)
        assert (told["bundle"], told["push"], told["owed"]) == ("shop", 1, {"hourly": 3})
        assert (told["dags"], told["errors"]) == (["hourly"], [])
        assert (told["origin"]["deployment"], told["already_current"]) == (DEV, False)

    def test_owed_runs_need_a_yes(self, two: Two, push: Push, lamplighter: Command) -> None:
        """As for a push: exit code 3 without `--yes`, and `--skip-owed` creates none."""
        push(MANY)
        result = lamplighter(*PROMOTE)
        assert (result.code, "243 runs are already due" in result.err) == (3, True)
        assert records(two.prod) == []
        assert lamplighter(*PROMOTE, "--skip-owed").code == 0
        two.register()
        assert two.prod.runs("hourly") == []

    def test_changes_of_the_target_are_shown(self, push: Push, lamplighter: Command) -> None:
        """What counts is what is registered there, not in the source."""
        push(HALF_HOURLY, to=PROD)
        push(HOURLY)
        out = lamplighter(*PROMOTE).out
        assert "hourly: schedule */30 * * * * → 0 * * * *" in out
        assert "more is removed from the bundle" in out

    def test_earlier_push_can_be_named(self, two: Two, push: Push, lamplighter: Command) -> None:
        """With `--push` another one than the newest is taken."""
        push(HOURLY)
        push(HALF_HOURLY)
        assert lamplighter(*PROMOTE, "--push", 1).code == 0
        two.register()
        assert [dag.dag_id for dag in two.prod.dags()] == ["hourly"]
        assert records(two.prod)[0].origin["push"] == 1

    def test_push_that_is_not_registered_is_not_promoted(
        self, push: Push, lamplighter: Command
    ) -> None:
        """The one in force is taken instead, and that is said; by its number it is refused."""
        push(HOURLY)
        push(HALF_HOURLY, registers=False)
        result = lamplighter(*PROMOTE)
        assert (result.code, result.err) == (
            0,
            f"push 2 is not registered in {DEV}: taking push 1, which is in force\n",
        )
        refused = lamplighter(*PROMOTE, "--push", 2)
        assert (refused.code, refused.err) == (
            1,
            (
                f"error: push 2 of bundle 'shop' in {DEV} is not registered yet: `lamplighter"
                " bundles show shop` lists the others\n"
            ),
        )

    def test_bundle_without_a_registered_push_is_refused(
        self, push: Push, lamplighter: Command
    ) -> None:
        """There is nothing that was tested."""
        push(HOURLY, registers=False)
        result = lamplighter(*PROMOTE)
        assert (result.code, result.err) == (
            1,
            (
                f"error: no push of bundle 'shop' in {DEV} is registered: push 1 is not registered"
                " yet\n"
            ),
        )

    def test_unknown_bundle_and_push_are_one_line(self, push: Push, lamplighter: Command) -> None:
        """Each says what there is."""
        push(HOURLY)
        result = lamplighter("promote", "shp", "--from", DEV, "--to", PROD)
        assert (result.code, result.err) == (
            1,
            f"error: there is no bundle 'shp' in {DEV}: there is shop\n",
        )
        result = lamplighter(*PROMOTE, "--push", 7)
        assert (result.code, result.err) == (
            1,
            (
                f"error: there is no record of push 7 of bundle 'shop' in {DEV} (the last 50 are"
                " kept: 1)\n"
            ),
        )

    def test_import_errors_need_force(self, two: Two, push: Push, lamplighter: Command) -> None:
        """A source with import errors is refused by what it has registered."""
        two.write("1 / 0\n", "b.py")
        push(HOURLY, "--force")
        result = lamplighter(*PROMOTE)
        assert (result.code, result.err) == (
            1,
            (
                f"error: push 1 of bundle 'shop' has import errors in {DEV} (`lamplighter dags"
                " errors`); --force pushes it anyway\n"
            ),
        )
        assert records(two.prod) == []
        assert lamplighter(*PROMOTE, "--force").code == 0
        two.register()
        assert [dag.dag_id for dag in two.prod.dags()] == ["hourly"]

    def test_archive_that_is_not_what_it_is_named_by_is_refused(
        self, two: Two, push: Push, lamplighter: Command
    ) -> None:
        """Bytes are verified after reading; nothing is written to the target."""
        push(HOURLY)
        push(HALF_HOURLY)
        (old, new) = [record.bundle_version for record in records(two.dev)]
        other = archives(two.dev)[bundle_key("shop", old)]
        aws.client("s3").put_object(
            Bucket=two.dev.stack.settings.bucket, Key=bundle_key("shop", new), Body=other
        )
        result = lamplighter(*PROMOTE)
        assert (result.code, "does not match its hash" in result.err) == (1, True)
        assert (records(two.prod), archives(two.prod)) == ([], {})

    def test_archive_that_was_deleted_is_one_line(
        self, two: Two, push: Push, lamplighter: Command
    ) -> None:
        """Archives are kept until someone deletes them."""
        push(HOURLY)
        bucket = two.dev.stack.settings.bucket
        (key,) = archives(two.dev)
        aws.client("s3").delete_object(Bucket=bucket, Key=key)
        result = lamplighter(*PROMOTE)
        assert (result.code, result.err) == (
            1,
            (
                f"error: the archive {key} is no longer in the bucket {bucket}: push the bundle's"
                " files\n"
            ),
        )

    def test_one_deployment_is_not_two(self, push: Push, lamplighter: Command) -> None:
        """Whoever means a rollback is told of it."""
        push(HOURLY)
        result = lamplighter("promote", "shop", "--from", DEV, "--to", "dev")
        assert (result.code, result.err) == (
            1,
            (
                f"error: --from and --to are both {DEV}: use `lamplighter rollback` to push an"
                " earlier archive again\n"
            ),
        )

    @pytest.mark.usefixtures("two")
    def test_unknown_stack_is_named_as_it_was_typed(self, lamplighter: Command) -> None:
        """The line names what there is."""
        result = lamplighter("promote", "shop", "--from", "test", "--to", PROD)
        assert result.code == 1
        assert result.err.startswith("error: there is no stack 'test' in region us-east-1")

    def test_local_deployment_is_refused(self, alone: Command) -> None:
        """There is only one of these."""
        result = alone("--local", *PROMOTE)
        assert (result.code, result.err) == (
            1,
            "error: promote needs two stacks: leave out --local\n",
        )


class TestProfiles:
    @pytest.fixture(autouse=True)
    def profiles(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Give this test two profiles in files of its own."""
        config, credentials = tmp_path / "config", tmp_path / "credentials"
        config.write_text(
            "[profile of-prod]\nregion = us-east-1\n[profile far]\nregion = eu-west-1\n"
        )
        credentials.write_text(
            "".join(
                f"[{name}]\naws_access_key_id = {name}\naws_secret_access_key = x\n"
                for name in ("of-dev", "of-prod", "far")
            )
        )
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))

    def test_each_side_is_asked_with_its_own_profile(self, push: Push, alone: Command) -> None:
        """No call to one deployment is signed with the keys of the other, in any order."""
        push(HOURLY)
        used: set[tuple[str, str]] = set()
        send = BaseClient._make_api_call

        def note(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
            key = client._request_signer._credentials.access_key
            used.update((name, key) for name in (DEV, PROD) if f"{name}-" in str(arguments))
            return send(client, operation, arguments)

        with patch.object(BaseClient, "_make_api_call", note):
            result = alone(*PROMOTE, "--from-profile", "of-dev", "--to-profile", "of-prod")
        assert (result.code, result.err) == (0, "")
        assert used == {(DEV, "of-dev"), (PROD, "of-prod")}

    @pytest.mark.parametrize(
        ("options", "region"),
        [
            (("--to-profile", "far"), "eu-west-1"),
            (("--to-profile", "far", "--to-region", "eu-west-3"), "eu-west-3"),
            (("--to-region", "eu-west-2"), "eu-west-2"),
        ],
    )
    def test_region_is_that_of_the_profile_unless_given(
        self, push: Push, alone: Command, options: tuple[str, ...], region: str
    ) -> None:
        """It takes precedence over the region of the environment."""
        push(HOURLY)
        result = alone(*PROMOTE, *options)
        assert result.code == 1
        assert result.err.startswith(f"error: there is no stack {PROD!r} in region {region}")

    @pytest.mark.usefixtures("two")
    def test_unknown_profile_is_one_line(self, alone: Command) -> None:
        """It is told by its name."""
        result = alone(*PROMOTE, "--from-profile", "nobody")
        assert (result.code, "there is no AWS profile 'nobody'" in result.err) == (1, True)
