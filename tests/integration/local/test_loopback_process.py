"""Servers in child processes: found by their port, and never left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.patience import LONG_SECONDS
from tests.tools import loopback_process
from tests.tools.loopback_process import ServerStartError, serving

# Follows the contract without being a server: a port, then silence until its input ends.
OBEDIENT = "import sys; print(4711, flush=True); sys.stdin.read()"


def python(script: str) -> list[str]:
    """Return the command that runs a script."""
    return [sys.executable, "-c", script]


def test_server_is_found_by_the_port_it_prints() -> None:
    """The address is that of the printed port on the loopback interface."""
    with serving(python(OBEDIENT)) as endpoint:
        assert endpoint == "http://127.0.0.1:4711"


def test_server_is_asked_to_end_with_its_block(tmp_path: Path) -> None:
    """At the end of the block the server gets the time to end by itself."""
    last_act = f"open({str(tmp_path / 'ended')!r}, 'w').close()"
    with serving(python(f"{OBEDIENT}; {last_act}")):
        assert not (tmp_path / "ended").exists()
    assert (tmp_path / "ended").exists()


def test_server_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ignores the end of its input is gone after the block all the same."""
    monkeypatch.setattr(loopback_process, "END_FOR", 0.1)
    deaf = f"""
        import os, time
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        print(4711, flush=True)
        time.sleep(600)
    """
    with serving(python(textwrap.dedent(deaf))):
        process = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_server_that_fails_to_start_says_why() -> None:
    """The error carries the last words of the server."""
    with (
        pytest.raises(ServerStartError, match="no room at the inn"),
        serving(python("import sys; sys.exit('no room at the inn')")),
    ):
        pass


def test_server_that_stays_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never prints its port is killed and reported."""
    monkeypatch.setattr(loopback_process, "START_FOR", 0.2)
    with (
        pytest.raises(ServerStartError, match="said nothing"),
        serving(python("import time; time.sleep(600)")),
    ):
        pass


@pytest.mark.slow
def test_server_ends_with_a_killed_parent(tmp_path: Path) -> None:
    """A parent that is killed, and can tidy up nothing, does not leave its server behind."""
    last_act = f"open({str(tmp_path / 'ended')!r}, 'w').close()"
    parent = f"""
        import os, signal
        from tests.tools.loopback_process import serving
        with serving({python(f"{OBEDIENT}; {last_act}")!r}):
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(python(textwrap.dedent(parent)), check=False, timeout=LONG_SECONDS)
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + LONG_SECONDS
    while not (tmp_path / "ended").exists():
        assert time.monotonic() < end, "the server is still there"
        time.sleep(0.05)
