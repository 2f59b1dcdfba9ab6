"""Where folders of the repository are that the package takes along: its functions and examples."""

from pathlib import Path

_PACKAGE = Path(__file__).parent
_REPOSITORY = Path(__file__).parents[4]


def shipped(folder: str) -> Path:
    """Return the folder that was installed with the package, or the one of this checkout."""
    installed = _PACKAGE / folder
    return installed if installed.is_dir() else _REPOSITORY / folder
