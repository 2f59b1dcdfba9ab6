"""The files that `lamplighter dev` leaves while it runs: how other commands find it and its key.

Owns: where the files are, their form, and that only their owner may read them. `dev.json` is for
`lamplighter --local`, `dev.credentials` for everything else that reads the shared credentials file
of AWS. Refuses: believing a file whose process is gone, which is what a killed one leaves behind.
"""

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lamplighter.errors import UNREADABLE, RefusedError

PROFILE = "lamplighter-dev"
_FILE = "dev.json"
_CREDENTIALS_FILE = "dev.credentials"


@dataclass(frozen=True)
class DevState:
    """A deployment on this machine."""

    endpoint_url: str
    region: str
    pid: int
    bundle: str
    started_at: str
    # What requests must be signed with.
    access_key_id: str
    secret_access_key: str = field(repr=False)
    # Fields of `Settings`, by name.
    settings: dict[str, Any] = field(default_factory=dict)


def path() -> Path:
    """Return where the file is, whether it is there or not."""
    if own := os.environ.get("LAMPLIGHTER_STATE_DIR"):
        return Path(own) / _FILE
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "lamplighter" / _FILE


def credentials_path() -> Path:
    """Return where the credentials file is, whether it is there or not."""
    return path().with_name(_CREDENTIALS_FILE)


def write(state: DevState) -> Path:
    """Let the files say this, for their owner only."""
    credentials = (
        f"[{PROFILE}]\naws_access_key_id = {state.access_key_id}\n"
        f"aws_secret_access_key = {state.secret_access_key}\n"
    )
    _write(credentials_path(), credentials)
    return _write(path(), json.dumps(asdict(state), indent=2))


def _write(target: Path, text: str) -> Path:
    """Write a file for its owner only; a reader sees the old or the new, never a part."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made anew, and with mode 0600 from the beginning.
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(target)
    except OSError as error:
        raise RefusedError(
            f"{target} cannot be written: {error.strerror}; set LAMPLIGHTER_STATE_DIR to a folder"
            " that can"
        ) from error
    return target


def read() -> DevState:
    """Return what the file says, if the process that wrote it lives."""
    try:
        state = DevState(**json.loads(path().read_text(encoding="utf-8")))
        is_alive = _is_alive(state.pid)
    except FileNotFoundError as error:
        raise RefusedError("`lamplighter dev` is not running here: start it first") from error
    except OSError as error:
        raise RefusedError(f"{path()} cannot be read: {error.strerror}") from error
    except UNREADABLE as error:
        raise RefusedError(
            f"{path()} is not what `lamplighter dev` writes: remove it and start that again"
        ) from error
    if not is_alive:
        raise RefusedError(
            f"`lamplighter dev` is not running: process {state.pid} has ended; start it again"
        )
    return state


def remove(*, pid: int | None = None) -> None:
    """Let there be no files; with a process, only if they are that one's."""
    with suppress(OSError, *UNREADABLE):
        if pid is None or json.loads(path().read_text(encoding="utf-8"))["pid"] == pid:
            credentials_path().unlink(missing_ok=True)
            path().unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it is someone else's
    return True
