"""What an import of the library takes along, seen in a process of its own."""

import subprocess
import sys
from pathlib import Path

from lamplighter_job.shipping import runtime_files


def test_import_of_library_leaves_built_ins_alone() -> None:
    """A DAG file without watchers does not pay for them."""
    question = (
        "import sys, lamplighter;"
        "print([name for name in sys.modules if name.startswith('lamplighter.triggers.')])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", question], check=True, capture_output=True, text=True
    )
    assert not any(
        f"triggers.{module}'" in answer.stdout for module in ("aws", "directory", "http")
    )
    assert "lamplighter.triggers.base" in answer.stdout


def test_archive_is_imported_without_pyspark(tmp_path: Path) -> None:
    """The archive alone is enough for a context, and importing it imports no PySpark."""
    archive = tmp_path / "lamplighter_job.zip"
    archive.write_bytes(runtime_files()["lamplighter_job.zip"])
    script = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "import lamplighter_job, lamplighter_job.runner, lamplighter_job.shipping\n"
        "assert '.zip' in lamplighter_job.__file__\n"
        "assert 'pyspark' not in sys.modules\n"
        "assert 'runner.py' in str(lamplighter_job.shipping.runtime_files())\n"
    )
    # Without the environment's own packages: standard library only.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
