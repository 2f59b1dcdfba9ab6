"""The wheel: whoever installs it has all that offline use needs, and nothing else."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "lamplighter",
    "lamplighter_cli",
    "lamplighter_infra",
    "lamplighter_local",
    "lamplighter_operations",
    "lamplighter_job",
}


@pytest.fixture(scope="module", name="wheel")
def build_wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """Return the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    (file,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return ZipFile(file)


@pytest.mark.parametrize("folder", ["functions", "examples"])
def test_wheel_has_the_folders_that_offline_use_needs(wheel: ZipFile, folder: str) -> None:
    """Every handler and every example is below the package that looks for them."""
    here = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py")}
    assert here
    assert {f"lamplighter_local/{path}" for path in here} <= set(wheel.namelist())


def test_wheel_has_each_package_with_its_types(wheel: ZipFile) -> None:
    """Packages are typed."""
    names = set(wheel.namelist())
    for package in PACKAGES:
        assert {f"{package}/__init__.py", f"{package}/py.typed"} <= names


def test_wheel_has_nothing_else(wheel: ZipFile) -> None:
    """Tests and their tools, and caches, are left out."""
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    assert not [name for name in wheel.namelist() if "__pycache__" in name or name.endswith("c")]
    assert not [name for name in wheel.namelist() if name.endswith(".java")]


def test_wheel_announces_command_and_pytest_plugin(wheel: ZipFile) -> None:
    """The command and the fixtures are there as soon as it is installed."""
    (name,) = [name for name in wheel.namelist() if name.endswith("/entry_points.txt")]
    text = wheel.read(name).decode()
    assert "lamplighter = lamplighter_cli.app:main" in text
    assert "[pytest11]\nlamplighter = lamplighter_local.pytest_plugin" in text
