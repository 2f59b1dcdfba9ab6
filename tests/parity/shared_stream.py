"""Plays every shared-stream case, and random games, with one library: `python shared_stream.py`.

Called with `airflow` it runs under the interpreter that has it and prints one line of JSON: what
each came to. `compare` plays them with Lamplighter too, and tells what differs.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.parity.shared_stream_cases import CASES  # noqa: E402 - the path comes first
from tests.parity.shared_stream_kit import played  # noqa: E402 - the path comes first
from tests.parity.shared_stream_random import random_play  # noqa: E402 - the path comes first

_GAMES = 400
_SHOWN = 5
# Its remarks about rejected events, and about a coroutine that it leaves behind without a loop.
_QUIET = {"AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL"}


def outcomes(root: str, games: int) -> dict[str, Any]:
    """Return what every case and game comes to with the library of that root."""
    logging.getLogger(root).addHandler(logging.NullHandler())
    plays = {case.number: case.play for case in CASES}
    plays |= {f"game {number}": random_play(f"game {number}") for number in range(games)}
    return {name: played(root, play) for name, play in plays.items()}


def compare(python: str, games: int = _GAMES) -> int:
    """Print one line with the numbers, and what differs; return how much differs."""
    theirs = _outcomes_of_airflow(python, games)
    ours = outcomes("lamplighter", games)
    promised = {case.number: case.expected for case in CASES}
    differing = [
        name
        for name, outcome in ours.items()
        if outcome != theirs[name] or outcome != promised.get(name, outcome)
    ]
    advances = json.dumps(theirs).count('"advance ')
    print(
        f"Shared streams: {len(CASES)} cases and {games} random games, {advances:,} advances in"
        f" Airflow's games, {len(differing)} differences"
    )
    for name in differing[:_SHOWN]:
        print(f"\n{name}\n  ours:   {json.dumps(ours[name])}\n  theirs: {json.dumps(theirs[name])}")
    return len(differing)


def _outcomes_of_airflow(python: str, games: int) -> dict[str, Any]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "AIRFLOW"))}
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [python, "-W", "ignore", str(HERE / "shared_stream.py"), "airflow", str(games)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, **_QUIET, "AIRFLOW_HOME": home},
        )
    came_to: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return came_to


def main() -> None:
    """Print what the plays come to with the library that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", choices=["airflow", "lamplighter"])
    parser.add_argument("games", type=int, nargs="?", default=_GAMES)
    options = parser.parse_args()
    print(json.dumps(outcomes(options.root, options.games)))


if __name__ == "__main__":
    main()
