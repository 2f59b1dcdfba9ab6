"""The wheel as pip installs it, in environments with what pip would put beside it and no more."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lamplighter import __version__
from requirements import dist
from tests.tools.installed import Installation

ROOT = Path(__file__).parents[3]
_BUNDLE = ROOT / "examples" / "hello"
pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="module", name="wheel")
def build_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout."""
    _, wheel = dist.build(tmp_path_factory.mktemp("dist"))
    return wheel


@pytest.fixture(scope="module", name="plain")
def install_plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Return what `pip install lamplighter` makes."""
    home = tmp_path_factory.mktemp("plain")
    return Installation(home, wheel, requirements=["lamplighter"])


def test_wheel_holds_the_packages_and_what_they_take_along(wheel: Path) -> None:
    """Every module, function and example is in it, the lock of the layer, and nothing else."""
    below = {
        "layers/core/python": "",
        "layers/job/python": "",
        "layers/local/python": "",
        "layers/operations/python": "",
        "layers/cli/python": "",
        "infra/lamplighter_infra": "lamplighter_infra/",
        "functions": "lamplighter_local/functions/",
        "examples": "lamplighter_local/examples/",
    }
    wanted = {
        f"{place}{path.relative_to(ROOT / folder).as_posix()}"
        for folder, place in below.items()
        for path in (ROOT / folder).rglob("*")
        if path.suffix == ".py" or path.name == "py.typed"
    }
    found = set(zipfile.ZipFile(wheel).namelist())
    metadata = {name for name in found if name.startswith(f"lamplighter-{__version__}.dist-info/")}
    assert found - metadata == {*wanted, "lamplighter_infra/layer/requirements.txt"}
    packages = ("", "_cli", "_infra", "_job", "_local", "_operations")
    assert {f"lamplighter{each}/py.typed" for each in packages} <= found


def test_plain_installation_has_authoring_names_and_the_command(
    plain: Installation, tmp_path: Path
) -> None:
    """Without extras the names can be imported, and the command runs what it can."""
    version = plain.run("lamplighter", "--version", cwd=tmp_path)
    assert (version.stdout, version.stderr) == (f"{__version__}\n", "")
    assert "backfill" in plain.run("lamplighter", "--help", cwd=tmp_path).stdout
    names = plain.run("python", "-c", "from lamplighter import *; print(DAG)", cwd=tmp_path)
    assert names.stdout == "<class 'lamplighter.dags.dag.DAG'>\n"
    checked = plain.run("lamplighter", "check", _BUNDLE, cwd=tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    "command", [("simulate", _BUNDLE), ("dev", _BUNDLE), ("demo",), ("test", "hello")]
)
def test_command_without_its_extra_is_one_line(
    plain: Installation, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """What a command lacks, and what to type, is one line and exit code 2."""
    done = plain.run("lamplighter", *command, cwd=tmp_path)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(" is not installed: pip install 'lamplighter[local]'")
    assert done.returncode == 2


def test_pytest_without_the_extra_runs_other_tests(wheel: Path, tmp_path: Path) -> None:
    """The plugin is in the way of nobody; a test that needs a deployment fails with one line."""
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    (project / "test_it.py").write_text(
        "def test_other(): pass\ndef test_ours(lamplighter): pass\n", encoding="utf-8"
    )
    installed = Installation(home, wheel, requirements=["lamplighter", "pytest"])
    done = installed.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    assert "1 passed, 1 error" in done.stdout
    assert "\nmoto is not installed: pip install 'lamplighter[local]'\n" in done.stdout


def test_stack_of_the_wheel_is_that_of_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """With the extra for it, an app elsewhere makes the same template, files of functions too."""
    app = (
        "import aws_cdk as cdk, sys\n"
        "from lamplighter_infra import LamplighterStack\n"
        "app = cdk.App(outdir=sys.argv[1])\n"
        "LamplighterStack(app, stage='dev', has_layers=False)\n"
        "app.synth()\n"
    )
    (tmp_path / "app.py").write_text(app, encoding="utf-8")
    installed = Installation(tmp_path / "env", wheel, requirements=["lamplighter[infra]"])
    made = installed.run(
        "python", "app.py", "one", cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache")
    )
    assert made.returncode == 0, made.stderr
    here = tmp_path / "two"
    subprocess.run([sys.executable, tmp_path / "app.py", here], check=True, capture_output=True)
    name = "lamplighter-dev.template.json"
    assert (tmp_path / "one" / name).read_bytes() == (here / name).read_bytes()
    assert {each.name for each in (tmp_path / "cache" / "lamplighter").iterdir()} == {
        "functions",
        "runtime",
    }
