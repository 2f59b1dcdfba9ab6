"""How much processor time it takes to import each handler, as at a cold start.

    python tests/bench/cold_imports.py

Measured with the layers as they are deployed, on this machine's processor and Python: with compiled
files, and without, as it is where no Python of Lambda's version could compile them.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from lamplighter.topology import FUNCTIONS  # noqa: E402 - as above
from lamplighter_infra import layers  # noqa: E402 - the path comes first

_TIMES = 3
_IMPORT = (
    "import time; start = time.perf_counter(); import handler; print(time.perf_counter() - start)"
)


def seconds(function: str, paths: list[Path]) -> float:
    """Return the median of the processor time that the import of a handler takes."""
    found = os.pathsep.join(map(str, [ROOT / "functions" / function, *paths]))
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": found,
        "PYTHONDONTWRITEBYTECODE": "1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    command = [sys.executable, "-S", "-c", _IMPORT]
    measured = []
    for _ in range(_TIMES):
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        measured.append(float(done.stdout))
    return statistics.median(measured)


def main() -> None:
    """Print a table."""
    compiled = [
        layers.dependencies(is_local=True) / "python",
        layers.core(is_local=True) / "python",
    ]
    with tempfile.TemporaryDirectory() as folder:
        plain = []
        for path in compiled:
            copy = Path(folder, path.parent.name)
            shutil.copytree(path, copy, ignore=shutil.ignore_patterns("__pycache__"))
            plain.append(copy)
        print("| function | compiled, ms | not compiled, ms |")
        print("|---|---|---|")
        for function in FUNCTIONS:
            times = (seconds(function, paths) for paths in (compiled, plain))
            print(f"| `{function}` | {' | '.join(f'{1000 * each:.0f}' for each in times)} |")


if __name__ == "__main__":
    main()
