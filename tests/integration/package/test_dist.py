"""Archives of a release: the same bytes wherever, whenever and by whomever they are built."""

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from requirements import dist

pytestmark = pytest.mark.xdist_group("wheel")

_NOT_BUILT = shutil.ignore_patterns(
    ".git", ".venv*", "node_modules", "build", "dist", "cdk.out", "__pycache__", ".*_cache"
)
_OTHER_DAY = 1_900_000_000


@pytest.fixture(scope="module", name="archives")
def build_archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the source archive and the wheel of this checkout."""
    return dist.build(tmp_path_factory.mktemp("first"))


def _let_pass(folder: Path) -> None:
    """Give all files another date, and modes of another umask."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
            os.utime(path, (_OTHER_DAY, _OTHER_DAY))


def test_archives_of_another_day_path_and_umask_are_the_same(
    archives: tuple[Path, Path], tmp_path: Path
) -> None:
    """A copy elsewhere, with other dates and modes, makes the same archives, byte for byte."""
    source = tmp_path / "a longer path" / "elsewhere"
    shutil.copytree(dist.ROOT, source, ignore=_NOT_BUILT)
    _let_pass(source)
    again = dist.build(tmp_path / "again", source=source, umask=0o077)
    assert [path.name for path in again] == [path.name for path in archives]
    for one, other in zip(archives, again, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_source_archive_makes_the_same_wheel(archives: tuple[Path, Path], tmp_path: Path) -> None:
    """Whoever unpacks the source archive builds the wheel that was released."""
    sdist, wheel = archives
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    _let_pass(source)
    again, made = dist.build(tmp_path / "again", source=source, umask=0o077)
    assert made.read_bytes() == wheel.read_bytes()
    assert again.read_bytes() == sdist.read_bytes()


_CHANGED = "# Changelog\n\n## [Unreleased]\n\n- A change.\n"
_RELEASED = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n- A change.\n"


@pytest.mark.parametrize(
    ("version", "changelog", "is_release", "says"),
    [
        ("0.2.0", _CHANGED, False, None),
        ("0.2.0", _CHANGED, True, "the changelog needs the section '## [0.2.0] - YYYY-MM-DD'"),
        ("0.2.0", _RELEASED, True, None),
        ("0.2.0", _RELEASED, False, None),
        ("0.3.0", _RELEASED, True, "the changelog needs the section '## [0.3.0] - YYYY-MM-DD'"),
        ("0.1.9", _RELEASED, False, "the version is 0.1.9, but the changelog has 0.2.0"),
        (
            "0.2.0",
            _RELEASED.replace("Unreleased]\n", "Unreleased]\n\n- More.\n"),
            True,
            "entries under Unreleased belong to 0.2.0, or to a later release",
        ),
        (
            "0.2.0",
            _RELEASED.replace("Unreleased]\n", "Unreleased]\n\n- More.\n"),
            False,
            "0.2.0 is released: entries under Unreleased need a higher __version__",
        ),
        ("0.10.0", _RELEASED, False, None),
    ],
)
def test_version_and_changelog_agree(
    version: str, changelog: str, says: str | None, *, is_release: bool
) -> None:
    """A release has a dated section of its own on top; before that, versions only rise."""
    found = dist.problem(version, changelog, is_release=is_release)
    assert found == says or (says is not None and str(found).startswith(says))


def test_this_checkout_can_be_built() -> None:
    """Its version and its changelog agree."""
    version = dist.version_in(dist.VERSION.read_text(encoding="utf-8"))
    changelog = dist.CHANGELOG.read_text(encoding="utf-8")
    assert dist.problem(version, changelog, is_release=False) is None
