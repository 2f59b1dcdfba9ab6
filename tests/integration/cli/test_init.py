"""`lamplighter init`: what it writes, and where it refuses to."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import lamplighter
from lamplighter_cli import init as module
from lamplighter_local.shipped import shipped
from tests.integration.cli.conftest import Command


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, where the commands of the test are typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_new_project_has_all_that_its_readme_names(alone: Command) -> None:
    """Dags, jobs, a timetable, tests, an app, a workflow; hidden files have their names."""
    done = alone("init", "lamp")

    assert done.code == 0, done.err
    assert _files(Path("lamp")) == {
        ".github/workflows/lamplighter.yml",
        ".gitignore",
        "README.md",
        "app.py",
        "cdk.json",
        "dags/sales.py",
        "jobs/sales.py",
        "jobs/sales_revenue.py",
        "pyproject.toml",
        "tests/test_sales.py",
        "timetables/after_workday.py",
    }
    assert "cd lamp" in done.out


def test_new_project_is_pinned_to_the_minor_version_that_wrote_it(alone: Command) -> None:
    """A patch may be installed, the next minor version not."""
    alone("init", "lamp")

    project = tomllib.loads(Path("lamp/pyproject.toml").read_text())["project"]
    minor = ".".join(lamplighter.__version__.split(".")[:2])
    assert project["name"] == "lamp"
    assert project["dependencies"] == [f"lamplighter[local,infra]~={minor}.0"]


@pytest.mark.parametrize("options", [(), ("--from-example", "shop")])
def test_no_placeholder_is_left(alone: Command, options: tuple[str, ...]) -> None:
    """Each name in the templates got its value; expressions of the workflow are untouched."""
    alone("init", "lamp", *options)

    texts = {path: (Path("lamp") / path).read_text() for path in _files(Path("lamp"))}
    names = [f"${name}" for name in module._values("lamp", "starter")]
    assert not [(path, name) for path, text in texts.items() for name in names if name in text]
    workflow = texts[".github/workflows/lamplighter.yml"]
    assert "${{ vars.AWS_PUSH_ROLE }}" in workflow
    assert "secrets." not in workflow


GH = """\
#!/bin/sh
echo "$*" >> calls
case "$*" in *--jq*) cat listed;; esac
"""


def _comment(tmp_path: Path, listed: str) -> list[str]:
    """Run the step of the workflow that comments; return what was asked of `gh`."""
    workflow = yaml.safe_load(Path("lamp/.github/workflows/lamplighter.yml").read_text())
    job = workflow["jobs"]["preview"]
    (step,) = (each["run"] for each in job["steps"] if "gh api" in each.get("run", ""))
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "listed").write_text(listed)
    (tmp_path / "calls").unlink(missing_ok=True)
    variables = {"GITHUB_REPOSITORY": "o/r", "PULL_REQUEST": "7", **job["env"]}
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(
        ["/bin/bash", "-e", "-c", step], env={"PATH": path, **variables}, cwd=tmp_path, check=True
    )
    return (tmp_path / "calls").read_text().splitlines()


def test_workflow_changes_its_own_comment(alone: Command, tmp_path: Path) -> None:
    """It finds that by a marker: the last comment of the same user may be of another workflow."""
    alone("init", "lamp")
    url = "https://api.github.com/repos/o/r/issues/comments/1"

    first, second = _comment(tmp_path, ""), _comment(tmp_path, f"{url}\n{url}2\n")
    assert "startswith(env.MARKER)" in first[0]
    assert first[1:] == ["api repos/o/r/issues/7/comments --field body=@preview.md --silent"]
    assert second[1:] == [f"api --method PATCH {url} --field body=@preview.md --silent"]


def test_preview_without_a_stack_is_skipped_with_a_reason(alone: Command) -> None:
    """A new repository has no variables yet."""
    alone("init", "lamp")

    jobs = yaml.safe_load(Path("lamp/.github/workflows/lamplighter.yml").read_text())["jobs"]
    assert "vars.LAMPLIGHTER_STACK != ''" in jobs["preview"]["if"]
    assert "vars.LAMPLIGHTER_STACK == ''" in jobs["no-preview"]["if"]
    assert "::notice" in jobs["no-preview"]["steps"][0]["run"]


def test_app_is_about_fifteen_lines(alone: Command) -> None:
    """It is short enough to be read before it is deployed, and it is Python."""
    alone("init", "lamp")

    text = Path("lamp/app.py").read_text()
    compile(text, "app.py", "exec")
    assert len(text.splitlines()) <= 16


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--from-example", "shop")])
def test_new_project_passes_its_check_and_its_tests(
    alone: Command, options: tuple[str, ...]
) -> None:
    """Nothing has to be edited first."""
    alone("init", "lamp", *options)

    checked = alone("check", "lamp")
    assert (checked.code, "0 warnings, 0 errors" in checked.out) == (0, True), checked.out
    variables = {name: text for name, text in os.environ.items() if "PYTEST" not in name}
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd="lamp",
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout


def test_shop_is_the_example(alone: Command) -> None:
    """Its bundle is the one that the package takes along."""
    alone("init", "lamp", "--from-example", "shop")

    example = shipped("examples")
    for name in ("dags/web_shop.py", "jobs/shop/generate.py", "timetables/workday.py"):
        assert (Path("lamp") / name).read_bytes() == (example / name).read_bytes()


def test_folder_with_files_is_refused(alone: Command, elsewhere: Path) -> None:
    """Nothing of someone else's is overwritten."""
    (elsewhere / "lamp").mkdir()
    (elsewhere / "lamp" / "notes").write_text("mine")
    done = alone("init", "lamp")

    assert (done.code, done.err) == (
        1,
        "error: lamp is not empty: name a new folder, or empty this one\n",
    )
    assert _files(elsewhere / "lamp") == {"notes"}


def test_empty_folder_is_used(alone: Command, elsewhere: Path) -> None:
    """Whoever has made the folder already is in it, and names it with a dot."""
    (elsewhere / "lamp").mkdir()
    os.chdir(elsewhere / "lamp")

    assert alone("init", ".").code == 0
    assert 'name = "lamp"' in Path("pyproject.toml").read_text()


@pytest.mark.parametrize("name", ["lamplighter", "Lamplighter"])
def test_name_of_the_package_is_refused(alone: Command, name: str) -> None:
    """For pip the project would depend on itself."""
    done = alone("init", name)

    assert done.err == (
        f"error: {name!r} is the package that the project needs: choose another name\n"
    )
    assert not Path(name).exists()


@pytest.mark.parametrize("name", ["-lamp", "my lamp", "lamp$", "x" * 101, "ünder"])
def test_name_that_cannot_be_one_is_refused(alone: Command, name: str) -> None:
    """It becomes the name of a bundle and of a Python project."""
    done = alone("init", "--", name)

    assert done.code == 1
    assert done.err.startswith(f"error: {name!r} cannot be the name of a project: ")
    assert not Path(name).exists()
