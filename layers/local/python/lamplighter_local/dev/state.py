"""The files of a running `lamplighter dev`, by which other commands find its endpoint and key.

Owns: their location and format, and that only their owner may read them. `dev.json` is for
`lamplighter --local`, `dev.credentials` for other tools, as a shared credentials file of AWS.
Refuses: files whose process has ended, which a killed process leaves behind.
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
    """Return the path of the file, whether it exists or not."""
    if own := os.environ.get("LAMPLIGHTER_STATE_DIR"):
        return Path(own) / _FILE
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "lamplighter" / _FILE


def credentials_path() -> Path:
    """Return the path of the credentials file, whether it exists or not."""
    return path().with_name(_CREDENTIALS_FILE)


def write(state: DevState) -> Path:
    """Write both files, readable by their owner only."""
    credentials = (
        f"[{PROFILE}]\naws_access_key_id = {state.access_key_id}\n"
        f"aws_secret_access_key = {state.secret_access_key}\n"
    )
    _write(credentials_path(), credentials)
    return _write(path(), json.dumps(asdict(state), indent=2))


def _write(target: Path, text: str) -> Path:
    """Write a file for its owner only; readers see the old content or the new, never a part."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A new file has mode 0600 from the start.
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(target)
    except OSError as error:
        raise RefusedError(
            f"{target} cannot be written: {error.strerror}; set LAMPLIGHTER_STATE_DIR to a"
            " writable directory"
        ) from error
    return target


def read() -> DevState:
    """Return the content of the file if the process that wrote it is still running."""
    try:
        state = DevState(**json.loads(path().read_text(encoding="utf-8")))
        is_alive = _is_alive(state.pid)
    except FileNotFoundError as error:
        raise RefusedError("`lamplighter dev` is not running: start it first") from error
    except OSError as error:
        raise RefusedError(f"{path()} cannot be read: {error.strerror}") from error
    except UNREADABLE as error:
        raise RefusedError(
            f"{path()} is not a file of `lamplighter dev`: remove it and start `dev` again"
        ) from error
    if not is_alive:
        raise RefusedError(
            f"`lamplighter dev` is not running: process {state.pid} has ended; start it again"
        )
    return state


def remove(*, pid: int | None = None) -> None:
    """Remove both files; with a process id, only if they belong to that process."""
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
        return True  # it belongs to another user
    return True
