"""Which Python the environments are made with, on machines that have some and lack others."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "requirements" / "find_python.sh"
WORKS = "#!/bin/sh\necho $0\n"
# What pyenv leaves on the search path for a version that is not selected.
EMPTY_SHIM = "#!/bin/sh\necho 'command not found' >&2\nexit 127\n"


def find(machine: Path, programs: dict[str, str], *arguments: str) -> str:
    """Return what is found on a machine that has nothing but these programs."""
    (machine / "bin").mkdir()
    for name, text in programs.items():
        path = machine / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", SCRIPT, *arguments],
        env={"PATH": str(machine / "bin"), "PYENV_ROOT": str(machine / "pyenv")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip().removeprefix(f"{machine}/")


OF_PYENV = "pyenv/versions/3.13.2/bin/python3.13"


@pytest.mark.parametrize(
    ("programs", "found"),
    [
        ({"bin/python3": WORKS, "bin/python3.13": WORKS}, "bin/python3.13"),
        ({"bin/python3": WORKS, "bin/python3.13": EMPTY_SHIM}, "bin/python3"),
        (
            {"bin/python3": WORKS, "bin/python3.13": EMPTY_SHIM, OF_PYENV: WORKS},
            OF_PYENV,
        ),
        ({"bin/python3": EMPTY_SHIM, "bin/python3.12": WORKS}, "bin/python3.12"),
        ({"bin/python3.11": WORKS}, "bin/python3.11"),
        ({}, "python3"),
    ],
    ids=["on the path", "empty shim", "of pyenv", "old python3", "only 3.11", "none"],
)
def test_python_of_lambda_is_preferred(
    tmp_path: Path, programs: dict[str, str], found: str
) -> None:
    """3.13 wherever it is, else what the machine calls python3, else any that will do."""
    assert find(tmp_path, programs) == found


@pytest.mark.parametrize(
    ("programs", "found"), [({"bin/python3.11": WORKS}, "bin/python3.11"), ({}, "")]
)
def test_version_that_is_asked_for_is_found_or_nothing(
    tmp_path: Path, programs: dict[str, str], found: str
) -> None:
    """No other version is offered in its place."""
    assert find(tmp_path, {"bin/python3": WORKS, **programs}, "3.11") == found


def test_python_of_another_version_under_the_name_is_passed_over(tmp_path: Path) -> None:
    """What is found is asked for its version, not believed by its name."""
    lies = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
    assert find(tmp_path, {"bin/python3.99": lies}, "3.99") == ""
