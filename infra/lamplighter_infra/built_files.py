"""Where what is built lies: below `build/` in a checkout, else in the cache of the user.

Owns: that a folder is there as a whole or not at all, and that its files say nothing of when, where
and by whom they were made.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
_EVERYONE_READS, _EVERYONE_ENTERS = 0o644, 0o755
# The first moment that a zip file can name.
_LONG_AGO = 315_532_800


def is_checkout() -> bool:
    """Return whether this runs in a checkout, and not as an installed package."""
    return (REPOSITORY / "layers" / "deps" / "requirements.txt").is_file()


def home_of_built() -> Path:
    """Return the folder below which everything is built."""
    if is_checkout():
        return REPOSITORY / "build"
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "lamplighter"


@contextmanager
def finished(home: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `home` when the block has ended well."""
    unfinished = home.with_suffix(f".{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        _forget_circumstances(unfinished)
        try:
            unfinished.rename(home)
        except OSError:
            # Another process was quicker; it has built the same.
            if not home.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def copy_files(files: dict[str, Path], folder: Path) -> None:
    """Copy the content of files, by their names below the folder."""
    for name, file in files.items():
        made = folder / name
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_bytes(file.read_bytes())


def _forget_circumstances(folder: Path) -> None:
    """Give all files the same date, and modes that no umask has decided.

    What only its owner could read, Lambda could not.
    """
    for path in [folder, *folder.rglob("*")]:
        path.chmod(_EVERYONE_ENTERS if path.is_dir() else _EVERYONE_READS)
        os.utime(path, (_LONG_AGO, _LONG_AGO))
