"""Functions of Python tasks that attack the function which runs them: they fail alone.

Each runs in a process that looks like Lambda's, and one after it that has done nothing.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.as_lambda import SECRET, run_as_lambda
from tests.spark.documents import context_document

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a Lambda is Linux")

# Runs one function after the other as `task` does, and says how each ended, and who is left.
PROGRAM = """
import json, os, sys, tempfile, time
from pathlib import Path
from lamplighter import aws
from lamplighter.bundles import processes
from lamplighter.executors.job_process import JobProcess

bundle, context, seconds = map(json.loads, sys.argv[1:])
processes.shield()
aws.withdraw_credentials()
found = []
for job in ("jobs.x:attack", "jobs.x:healthy"):
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        request = {"context": {**context, "job": job}, "bundle": bundle}
        process = JobProcess(Path(folder), request, {})
        ended = process.run(
            time.monotonic() + seconds,
            is_cancelled=lambda: False,
            on_line=lambda stream, text: lines.append(text),
        )
    below = [pid for pid, parent, _ in processes._processes() if parent == os.getpid()]
    found.append([ended.document and ended.document["state"], ended.details, lines, below])
print(json.dumps(found))
"""
LOOKS = """
import glob
def look():
    seen = []
    for name in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/mem"):
        try:
            seen.append(open(name, errors="replace").read())
        except OSError:
            pass
    return "".join(seen)
"""


def attacked(root: Path, body: str, *, seconds: float = 60) -> tuple[list[Any], list[Any]]:
    """Return how a function with this body has ended, and the healthy one after it."""
    indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
    program = f"import os, signal, sys, time\n{LOOKS}\ndef attack(context):\n{indented}\n"
    (root / "jobs").mkdir(exist_ok=True)
    (root / "jobs" / "x.py").write_text(f"{program}\ndef healthy(context):\n    print('well')\n")
    context = {k: v for k, v in context_document().items() if k != "report_secret"}
    attack, healthy = run_as_lambda(PROGRAM, str(root), context, seconds)
    return attack, healthy


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (DAEMON, "success"),
        ("while True:\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(600)", None),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)", None),
        ("while True: os.write(1, b'x' * 65_536)", None),
        ("os.write(int(sys.argv[1]), b'[' * 100_000 + b'\\n')", None),
        ("os.closerange(0, 100)", None),
    ],
    ids=["a daemon", "forks", "deaf", "a flood", "a deep answer", "closed pipes"],
)
def test_attack_ends_with_its_step(tmp_path: Path, body: str, state: str | None) -> None:
    """Nothing that it has started is left, and the next step is as if there had been none."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (300, 300))\n"
    attack, healthy = attacked(
        tmp_path, limit + body if "while True:\n" in body else body, seconds=5
    )
    assert attack[0] in {state, "failed"}
    assert attack[3] == healthy[3] == []
    assert (healthy[0], "well" in healthy[2]) == ("success", True)


def test_credentials_of_the_function_are_out_of_reach(tmp_path: Path) -> None:
    """Neither the environment of the process above nor its memory can be read."""
    attack, _ = attacked(tmp_path, f"print('found' if {SECRET[:-1]!r} + 'n' in look() else 'no')")
    assert (attack[0], "no" in attack[2], "found" in attack[2]) == ("success", True, False)
