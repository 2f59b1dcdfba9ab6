"""The runner without Spark: which program it runs, and how it tells its end.

A file system on disk stands in for Hadoop's; the session that programs get is just an object.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lamplighter_job import runner
from lamplighter_job.files import beside
from lamplighter_job.report import Outcome
from tests.spark.documents import SECRET, context_document

RunStep = Callable[..., Outcome]


class DiskFiles:
    """Files by their path; those below a folder `sealed` cannot be written."""

    def __init__(self, spark: object) -> None:
        pass

    def read(self, uri: str) -> bytes:
        """Return the content of a file."""
        return Path(uri).read_bytes()

    def write(self, uri: str, content: bytes) -> None:
        """Write a file."""
        if "sealed" in uri:
            raise PermissionError(uri)
        Path(uri).write_bytes(content)


@pytest.fixture(autouse=True)
def imports_are_undone() -> Iterator[None]:
    """Leave path and modules to the next test as they were."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def run_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStep:
    """Return a function that runs a step of a bundle with these files."""
    monkeypatch.setattr(runner, "Files", DiskFiles)

    def run(files: dict[str, str], folder: str = "step", **context: Any) -> Outcome:
        bundle = tmp_path / "bundle"
        for name, text in files.items():
            (bundle / name).parent.mkdir(parents=True, exist_ok=True)
            (bundle / name).write_text(text, encoding="utf-8")
        step = tmp_path / folder
        step.mkdir()
        (step / "context.json").write_text(json.dumps(context_document(**context)))
        spark: Any = SimpleNamespace(name="spark")
        outcome = runner.run_step(spark, str(step / "context.json"), bundle=bundle)
        if folder == "step":
            signed = outcome.document | {"secret": SECRET}
            assert json.loads((step / "report.json").read_text()) == signed
        return outcome

    return run


def test_function_gets_session_and_context(run_step: RunStep) -> None:
    """A job is a function of two arguments, and what it fills in is reported."""
    source = "def clean(spark, context): context.outlet('orders').extra['by'] = spark.name"
    outcome = run_step({"jobs/clean_orders.py": source}, job="jobs.clean_orders:clean")
    assert outcome.document["outlets"] == {"orders": {"by": "spark"}}


@pytest.mark.parametrize("module", ["jobs.nightly", "nightly", "vendored"])
def test_module_is_found_below_root_jobs_and_lib(run_step: RunStep, module: str) -> None:
    """A module may be named from the root, or as its folder makes it importable."""
    files = dict.fromkeys(["jobs/nightly.py", "lib/vendored.py"], "def go(spark, context): pass")
    assert run_step(files, job=f"{module}:go").state == "success"


def test_script_is_main_with_its_arguments(run_step: RunStep) -> None:
    """A script sees itself as `__main__`, its arguments, and the context of its job."""
    script = (
        "import sys\nfrom lamplighter_job import current_context\n"
        "if __name__ == '__main__':\n"
        "    current_context().outlet('orders').extra.update(arguments=sys.argv[1:])\n"
    )
    before = list(sys.argv)
    outcome = run_step({"jobs/load.py": script}, entry_point="jobs/load.py", arguments=["--a", "b"])
    assert outcome.document["outlets"] == {"orders": {"arguments": ["--a", "b"]}}
    assert sys.argv == before


def test_skip_is_reported_and_no_failure(run_step: RunStep) -> None:
    """A skip raised anywhere below the program ends the step well, without facts."""
    source = (
        "from lamplighter_job import SkipStep\n"
        "def clean(spark, context):\n"
        "    context.outlet('orders').extra['rows'] = 0\n"
        "    raise SkipStep('nothing arrived')\n"
    )
    outcome = run_step({"jobs/skipping.py": source}, job="skipping:clean")
    assert (outcome.state, outcome.exit_code) == ("skipped", 0)
    assert outcome.document["reason"] == "nothing arrived"
    assert outcome.document["outlets"] == {}


@pytest.mark.parametrize("leave", ["sys.exit()", "sys.exit(0)", "raise SystemExit"])
def test_exit_without_a_code_is_success(run_step: RunStep, leave: str) -> None:
    """A script that ends itself well has succeeded, with all that it stated."""
    script = (
        "import sys\nfrom lamplighter_job import current_context\n"
        f"current_context().outlet('orders').extra['rows'] = 1\n{leave}\n"
    )
    outcome = run_step({"jobs/leaving.py": script}, entry_point="jobs/leaving.py")
    assert (outcome.exit_code, outcome.document["outlets"]) == (0, {"orders": {"rows": 1}})


@pytest.mark.parametrize("leave", ["sys.exit(3)", "sys.exit('no input')"])
def test_exit_with_a_code_is_failure(run_step: RunStep, leave: str) -> None:
    """A script that ends itself with a code or a message has failed with it."""
    script = f"import sys\n{leave}"
    outcome = run_step({"jobs/failing.py": script}, entry_point="jobs/failing.py")
    assert outcome.exit_code == 1
    assert outcome.summary == f"the program ended itself with {leave}"


@pytest.mark.parametrize("error", ["ValueError", "KeyboardInterrupt", "GeneratorExit"])
def test_error_is_reported_from_the_program_on(run_step: RunStep, error: str) -> None:
    """The traceback begins in the author's file and not in the runner."""
    script = f"def deep():\n    raise {error}('boom')\ndeep()\n"
    reason = run_step({"jobs/raising.py": script}, entry_point="jobs/raising.py").document["reason"]
    assert reason.startswith(f"{error}: boom\n\nTraceback (most recent call last):\n  File")
    assert 'jobs/raising.py", line 3, in <module>' in reason
    assert "runpy" not in reason


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"job": "jobs.absent:go"}, "there is no module 'jobs.absent' in the bundle"),
        ({"job": "absent:go"}, "there is no module 'absent' in the bundle"),
        ({"job": "jobs.present:stop"}, "does not define a function 'stop'"),
        ({"job": "jobs.broken:go"}, "No module named 'not_installed'"),
        ({"entry_point": "jobs/absent.py"}, "there is no file"),
        ({}, "neither a job nor an entry_point"),
    ],
)
def test_program_that_is_not_there_is_named(
    run_step: RunStep, context: dict[str, str], message: str
) -> None:
    """What is missing is named: the module, the function, the file, or what a module lacks."""
    files = {
        "jobs/present.py": "def go(spark, context): pass",
        "jobs/broken.py": "import not_installed",
    }
    outcome = run_step(files, **context)
    assert message in outcome.summary


def test_bundle_that_is_not_there_names_the_setting(run_step: RunStep) -> None:
    """Without the bundle the error says how jobs get it."""
    outcome = run_step({}, job="jobs.orders:clean")
    assert "spark.archives=<URI of the bundle>#lamplighter_bundle" in outcome.summary


def test_extra_that_is_too_large_fails_the_step(run_step: RunStep) -> None:
    """A program that did its work and tells too much of it has failed, with the reason."""
    source = "def clean(spark, context): context.outlet('orders').extra['rows'] = 'x' * 40_000"
    outcome = run_step({"jobs/talking.py": source}, job="talking:clean")
    assert (outcome.state, outcome.document["outlets"]) == ("failed", {})
    assert "at most 32,000 are allowed" in outcome.summary


def test_report_that_cannot_be_written_fails_the_step(run_step: RunStep) -> None:
    """Without a report nobody learns what the program stated, so the step has failed."""
    files = {"jobs/fine.py": "def go(spark, context): pass"}
    outcome = run_step(files, folder="sealed", job="fine:go")
    assert (outcome.exit_code, outcome.summary[:15]) == (1, "PermissionError")


def test_context_of_another_version_is_reported(run_step: RunStep) -> None:
    """A context that cannot be read makes a report, too."""
    assert "of one release" in run_step({}, version=99).summary


def test_context_that_cannot_be_read_is_told_in_the_log(
    run_step: RunStep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the secret of its submission a report would be refused, so the log says why."""
    assert run_step({}, folder="other", report_secret=None, version=99).exit_code == 1
    assert not (tmp_path / "other" / "report.json").exists()
    assert "\nTraceback (most recent call last):\n" in capsys.readouterr().err


def test_secret_of_a_submission_is_no_part_of_its_context(run_step: RunStep) -> None:
    """A program that shows all that it is given does not show the secret."""
    source = "def show(spark, context): raise RuntimeError(repr(context))"
    outcome = run_step({"jobs/showing.py": source}, job="showing:show")
    assert "orders_hourly" in outcome.summary
    assert SECRET not in str(outcome.document)


def test_runner_without_an_argument_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    """Started by hand, the runner explains itself in a line."""
    assert runner.main([]) == 1
    assert "the URI of a context.json" in capsys.readouterr().err


def test_report_lies_beside_the_context() -> None:
    """The folder of the context is also the report's, in S3 as on disk."""
    assert beside("s3://bucket/a/b/context.json", "report.json") == "s3://bucket/a/b/report.json"
