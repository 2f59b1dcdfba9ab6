"""The package as it ships: the same bytes each time, complete, and light to import."""

import ast
import io
import zipfile
from pathlib import Path

import pytest

import lamplighter_job
from lamplighter_job.shipping import runtime_files

SOURCES = sorted(Path(str(lamplighter_job.__file__)).parent.glob("*.py"))


def test_files_are_the_same_each_time() -> None:
    """Two looks at one package give the same bytes."""
    assert runtime_files() == runtime_files()


def test_archive_holds_every_module_without_dates() -> None:
    """All modules are in, sorted, with contents as they are and no date of the machine."""
    shipped = runtime_files()
    assert set(shipped) == {"run_step.py", "lamplighter_job.zip"}
    with zipfile.ZipFile(io.BytesIO(shipped["lamplighter_job.zip"])) as archive:
        assert archive.namelist() == [f"lamplighter_job/{path.name}" for path in SOURCES]
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980}
        assert (
            archive.read("lamplighter_job/runner.py")
            == SOURCES[0].with_name("runner.py").read_bytes()
        )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_source_can_be_read_by_python_3_9(path: Path) -> None:
    """Clusters may have an older Python than this project."""
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
