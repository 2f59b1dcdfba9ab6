"""A bundle that attacks whatever it can reach, beside a healthy one that does not notice."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.hostile.as_lambda import run_as_lambda

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a Lambda is Linux")

# It hangs and waits by real time, and a busy machine takes minutes for all that it starts.
_SECONDS = 600.0
PROGRAM = """
import json, sys
from tests.hostile.two_bundles import tell
root, is_attacked = map(json.loads, sys.argv[1:])
tell(root, is_attacked=is_attacked)
"""


@pytest.mark.timeout(_SECONDS + 60)
def test_bundle_beside_a_hostile_one_has_the_history_that_it_has_alone(tmp_path: Path) -> None:
    """Its runs, steps, jobs, events and pushes are the same to the second; so are its watchers'."""
    folders = [tmp_path / name for name in ("alone", "attacked")]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor() as pool:
        alone, attacked = pool.map(
            lambda folder: run_as_lambda(
                PROGRAM, str(folder), folder.name == "attacked", seconds=_SECONDS
            ),
            folders,
        )

    for name, rows in alone["history"].items():
        assert attacked["history"][name] == rows, name
    counts = {name: len(rows) for name, rows in alone["history"].items()}
    assert counts == {
        "dags": 4,
        "runs": 40,
        "steps": 46,
        "jobs": 46,
        "problems": 0,
        "events of built_in_healthy": 14,
        "events of healthy": 14,
        "events of made": 13,
        "events of orders": 7,
    }
    assert {row["state"] for row in alone["history"]["runs"]} == {"success"}

    attacks = attacked["attacks"]
    assert len(attacks["acts"]) == 7
    assert attacks["daemons alive"] == []
    assert attacks["files with problems"] == [
        *(f"dags/dead_{number}.py" for number in range(5)),
        "dags/endless.py",
        "dags/hangs.py",
    ]
    assert attacks["runs"] == {"endless": 20, "flooded": 20}
    assert attacks["paused"] == ["endless", "flooded"]
    assert attacks["parked"] == ["hostile/own/b2e28faf"]
    assert attacks["states of templates"] == ["failed"]
    assert attacks["reports"]["forged"] == attacks["reports"]["refused"] > 0
    assert attacks["conflicts"] == 14
