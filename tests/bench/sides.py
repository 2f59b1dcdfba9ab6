"""Lets both libraries measure themselves in turns, each in a process of its own.

Owns: how a measuring program is called: `python program.py root`, one round per line of input, one
line of JSON as the answer.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
_ROUNDS = 5


class Side:
    """One library in a process of its own, which measures one round at a time."""

    def __init__(
        self, program: str, python: str, root: str, environment: Mapping[str, str]
    ) -> None:
        self._process = subprocess.Popen(
            [python, str(HERE / program), root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def round(self, number: int) -> dict[str, float]:
        """Return the CPU seconds of each measurement."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the measuring process has ended; see its message above")
        measured: dict[str, float] = json.loads(line)
        return measured

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def medians_of_rounds(
    program: str, python: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> dict[str, tuple[float, float]]:
    """Return ours and Airflow's median of each measurement."""
    sides = [
        Side(program, sys.executable, "lamplighter", environment),
        Side(program, python, "airflow", environment),
    ]
    rounds: list[list[dict[str, float]]] = [[], []]
    for number in range(_ROUNDS):
        say(f"round {number + 1} of {_ROUNDS}")
        for side, measured in zip(sides, rounds, strict=True):
            measured.append(side.round(number))
    for side in sides:
        side.close()
    ours, airflows = rounds
    return {
        name: (median(one[name] for one in ours), median(one[name] for one in airflows))
        for name in ours[0]
    }
