"""How the process that imports DAG files ends, when that is before it has answered."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from lamplighter.bundles.parsing import parse_files, start_worker
from lamplighter.bundles.worker import ParseRequest
from tests.conftest import WriteBundle
from tests.patience import LONG_SECONDS

# Writes down its process, and then takes longer than any test.
SLOW = """
import os, time
from pathlib import Path
Path({path!r} + ".new").write_text(str(os.getpid()))
os.rename({path!r} + ".new", {path!r})
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard() -> Iterator[None]:
    """Let Ctrl-C mean what it does in a terminal; shells let it be ignored in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def root(write_bundle: WriteBundle, tmp_path: Path) -> Path:
    """Return a bundle whose file hangs, in a process that `pid` names."""
    return write_bundle({"dags/slow.py": SLOW.format(path=str(tmp_path / "pid"))})


@pytest.fixture
def importing(root: Path) -> Iterator[Popen[str]]:
    """Yield a worker in the middle of importing the file."""
    worker = start_worker()
    request = ParseRequest(
        root=str(root),
        file="dags/slow.py",
        seconds=600,
        memory_bytes=2**31,
        now=None,
        parse_later_again=False,
        upcoming=None,
    )
    assert worker.stdin is not None
    worker.stdin.write(f"{json.dumps(request)}\n")
    worker.stdin.flush()
    yield worker
    worker.kill()
    worker.communicate()


def the_fork(root: Path) -> int:
    """Return the process that imports the file, once it does."""
    until = time.monotonic() + LONG_SECONDS
    while not (root / "pid").exists():
        assert time.monotonic() < until, "the import never began"
        time.sleep(0.02)
    return int((root / "pid").read_text())


def require_end(pid: int) -> None:
    """Return when a process is gone."""
    until = time.monotonic() + LONG_SECONDS
    while _exists(pid):
        assert time.monotonic() < until, f"still running: {pid}"
        time.sleep(0.02)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_worker_whose_caller_is_gone_ends_with_its_fork(importing: Popen[str], root: Path) -> None:
    """A caller that was killed has closed the pipe: author code does not go on without it."""
    fork = the_fork(root)
    assert importing.stdin is not None
    importing.stdin.close()
    importing.stdin = None
    assert importing.wait(LONG_SECONDS) == 0
    require_end(fork)


def test_worker_that_is_interrupted_ends_with_its_fork(
    importing: Popen[str], root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C reaches the worker too, and it is silent about it."""
    fork = the_fork(root)
    importing.send_signal(signal.SIGINT)
    assert importing.wait(LONG_SECONDS) == 0
    require_end(fork)
    assert capfd.readouterr().err == ""


def test_caller_that_is_interrupted_does_not_wait_for_the_file(root: Path) -> None:
    """Whoever loses patience is free at once, and the import ends."""

    def interrupt() -> None:
        the_fork(root)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        parse_files(root, ["dags/slow.py"])
    require_end(the_fork(root))
