"""From the wheel to a deployment, by someone who has never seen the repository."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lamplighter import aws
from lamplighter_local.emr.fake_emr import FakeEmr
from tests.deployed.own_environment import OwnEnvironment, make_environment
from tests.tools import emulated
from tests.tools.emr_server import serving_emr
from tests.tools.emulated import Emulator

DEV, QA = "lamplighter-dev", "lamplighter-qa"


@pytest.fixture
def emulator() -> Iterator[tuple[Emulator, str]]:
    """Yield an emulator of AWS that was bootstrapped, and the address of its EMR Serverless."""
    missing = emulated.why_not()
    if missing is not None:
        pytest.skip(missing)
    with (
        TemporaryDirectory(prefix="lamplighter-project-aws-") as name,
        emulated.emulator(Path(name)) as there,
        emulated.leading_to(there),
        serving_emr(FakeEmr()) as emr,
    ):
        emulated.bootstrap(there)
        yield there, emr


@pytest.fixture
def person(emulator: tuple[Emulator, str]) -> Iterator[OwnEnvironment]:
    """Yield the environment of somebody who has installed the wheel."""
    there, _ = emulator
    with TemporaryDirectory(prefix="lamplighter-project-") as name:
        yield make_environment(Path(name).resolve(), there.variables())


@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.xdist_group("own_project")
def test_wheel_alone_leads_to_a_deployment_and_away_again(
    person: OwnEnvironment,
    emulator: tuple[Emulator, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every line is one that the README of the new project, or the output before, names."""
    there, emr = emulator
    _require_nothing_of_the_checkout(person)
    _try_offline(person)
    offline = person.minutes()
    _deploy(person, there, emr)
    deployed = person.minutes()
    _change_and_promote(person, there, emr)
    _destroy(person)
    with capsys.disabled():
        print(_report(person, offline, deployed))  # noqa: T201 - numbers for people


def _require_nothing_of_the_checkout(person: OwnEnvironment) -> None:
    names = "lamplighter lamplighter_cli lamplighter_infra lamplighter_job lamplighter_local"
    code = f"for name in '{names}'.split(): print(__import__(name).__file__)"
    files = person.run(f'python -c "{code}"').split()
    assert len(files) == len(names.split())
    for file in files:
        assert Path(file).is_relative_to(person.home / "venv"), file


def _try_offline(person: OwnEnvironment) -> None:
    """The first green run, which needs no Java."""
    person.type("lamplighter init my-lamp")
    person.folder = Path("my-lamp")
    assert "0 errors" in person.type("lamplighter check")
    assert " passed" in person.type("pytest -q")
    assert "sales" in person.type("lamplighter simulate --days 7")
    with person.typing("lamplighter dev"):
        person.soon("lamplighter --local dags list", lambda found: len(found) == 2)
        person.type("lamplighter --local runs trigger sales")
        person.soon("lamplighter --local runs list sales", _is_green)


def _is_green(runs: list[dict[str, Any]]) -> bool:
    return [run["state"] for run in runs] == ["success"]


def _deploy(person: OwnEnvironment, there: Emulator, emr: str) -> None:
    said = person.type(f"lamplighter deploy --yes {_flags(emr)}")
    emulated.put_job_files(there, DEV)
    assert DEV in said
    person.more["LAMPLIGHTER_STACK"] = DEV
    assert "count" not in person.type("lamplighter push --dry-run")
    person.type("lamplighter push")
    person.soon("lamplighter runs list sales", _is_green, _sweep)
    (run,) = person.soon("lamplighter runs list revenue", _is_green)
    person.type(f"lamplighter runs watch 'revenue/{run['run_id']}'")


def _sweep() -> None:
    """Call the sweep before its time: the emulator tells nobody of Python tasks that ended well."""
    answer = aws.client("lambda", read_seconds=60).invoke(FunctionName=f"{DEV}-sweep")
    assert "FunctionError" not in answer, answer["Payload"].read()


def _flags(emr: str) -> str:
    """Return what only an emulator needs to be told."""
    flags = {
        "target": "local",
        "emr_endpoint": emr,
        # Each function that runs at once unpacks the layers for itself.
        "concurrency": "2",
        # How soon the sweep looks for what nobody has told.
        "job_poll_seconds": "60",
    }
    return " ".join(f"-c {name}={text}" for name, text in flags.items())


def _change_and_promote(person: OwnEnvironment, there: Emulator, emr: str) -> None:
    """A second stage gets what was tested, then a change of it, and goes back."""
    person.type(f"lamplighter deploy --stage qa --yes {_flags(emr)}")
    emulated.put_job_files(there, QA)
    promote = "lamplighter promote my-lamp --from dev --to qa --yes"
    person.type(promote)
    first = _registered(person, QA, push=1)
    assert first == _registered(person, DEV, push=1)
    job = person.home / person.folder / "jobs" / "sales.py"
    job.write_text(job.read_text().replace("100 +", "200 +"))
    person.type("lamplighter push")
    second = _registered(person, DEV, push=2)
    person.type(promote)
    assert first != second == _registered(person, QA, push=2)
    person.type(f"lamplighter --stack {QA} rollback my-lamp --yes")
    assert _registered(person, QA, push=3) == first


def _registered(person: OwnEnvironment, stack: str, *, push: int) -> str:
    """Return the archive of a push as soon as it is in force."""
    found = person.soon(
        f"lamplighter --stack {stack} bundles show my-lamp",
        lambda it: (it["current"] or {}).get("push") == push,
    )
    version: str = found["current"]["version"]
    return version


def _destroy(person: OwnEnvironment) -> None:
    """Nothing is left of the stage that may go with its data."""
    person.type("lamplighter destroy --yes -c target=local")
    person.run("lamplighter dags list", exits=1)


def _report(person: OwnEnvironment, offline: float, deployed: float) -> str:
    lines = [f"{seconds / 60:5.1f} min  {line}" for seconds, line in person.typed]
    counted = (
        f"{len(person.typed)} commands, {person.minutes():.1f} minutes: {offline:.1f} until the"
        f" first green run in dev, {deployed - offline:.1f} more until one was deployed"
    )
    return "\n".join(["", *lines, counted])
