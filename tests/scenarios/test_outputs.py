"""What steps leave for later ones: read through retries, clears and marks, and when it is bad."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lamplighter import DAG, aws
from lamplighter.runs.job_request import report_uri
from lamplighter.store.models import Runs
from lamplighter_local.emr.fake_emr import FakeJob, Outcome
from lamplighter_operations.runs import clear_run, mark_step, retry_run
from tests.scenarios.run_acts import World, make, new_world
from tests.tools.faults import Faults
from tests.tools.reports import put_report

FAILED = Outcome.failed("boom")
READING: dict[str, dict[str, Any]] = {"check": {"inputs": ["load"]}}


@pytest.fixture(scope="module")
def only_world() -> Iterator[World]:
    """Yield a deployment for the module."""
    with new_world() as world:
        yield world


@pytest.fixture
def world(only_world: World) -> Iterator[World]:
    """Yield the deployment as new; when the test is over, all must be sound."""
    only_world.begin_again()
    yield only_world
    only_world.require_sound()


def leave(world: World, *left: dict[str, Any] | Outcome, task: str = "load") -> None:
    """Let the next jobs of a task leave these outputs, or end otherwise."""
    for each in left:
        outcome = each if isinstance(each, Outcome) else Outcome.leaving(each)
        world.emr.next_outcome("dag", task, outcome)


def start(world: World, dag: DAG | None = None) -> Runs:
    """Let a run of a DAG, by default of `load` and the reader `check`, come to its end."""
    run = world.start(dag or make("load>check", options=READING))
    world.stack.advance(minutes=5)
    return run


def read_by(world: World, run: Runs, task: str = "check") -> list[Any]:
    """Return what each job of a task found as its inputs."""
    return [world.context(job)["inputs"] for job in world.jobs(run, task)]


def first_job(world: World, run: Runs) -> FakeJob:
    """Return the first job of `load`."""
    return world.jobs(run, "load")[0]


def test_step_reads_what_an_earlier_one_left(world: World) -> None:
    """The option and the templates name steps; others are not read, however many there are."""
    options = {
        "check": {"inputs": ["load"]},
        "report": {"arguments": ["{{ outputs['load'].rows }}", "{{ outputs.check.ok }}"]},
    }
    leave(world, {"rows": 3, "files": ["a", "b"]})
    leave(world, {"ok": True}, task="check")
    run = start(world, make("load>check>report>last", options=options))

    assert world.state(run) == "success"
    assert read_by(world, run) == [{"load": {"rows": 3, "files": ["a", "b"]}}]
    [report] = world.jobs(run, "report")
    assert world.context(report)["arguments"] == ["3", "True"]
    assert read_by(world, run, "last") == [{}]


def test_step_that_left_nothing_or_was_skipped_has_no_outputs(world: World) -> None:
    """Its readers find an empty dict, and not an error."""
    dag = make("load>check", "side>check", options={"check": {"inputs": ["load", "side"]}})
    dag.tasks["check"].trigger_rule = "none_failed"
    skipped = {"version": 1, "state": "skipped", "reason": "none", "outputs": {"rows": 1}}
    leave(world, Outcome(report=skipped), task="side")
    run = start(world, dag)

    assert world.states(run) == {"load": "success", "side": "skipped", "check": "success"}
    assert read_by(world, run) == [{"load": {}, "side": {}}]


def test_step_that_was_tried_again_left_what_its_last_try_left(world: World) -> None:
    """What a try reported that failed in the end is nobody's input."""
    failed = {"version": 1, "state": "failed", "reason": "boom", "outputs": {"rows": 1}}
    leave(world, Outcome(state="FAILED", report=failed), {"rows": 2})
    dag = make("load>check", options={**READING, "load": {"retries": 1, "retry_delay": 5}})
    run = start(world, dag)

    assert world.state(run) == "success"
    assert read_by(world, run) == [{"load": {"rows": 2}}]


def test_reader_that_is_tried_again_reads_again(world: World) -> None:
    """Each job has the outputs in its own context."""
    leave(world, {"rows": 2})
    leave(world, FAILED, task="check")
    options = {"check": {"inputs": ["load"], "retries": 1, "retry_delay": 5}}
    run = start(world, make("load>check", options=options))

    assert world.state(run) == "success"
    assert read_by(world, run) == [{"load": {"rows": 2}}] * 2


def test_retried_run_reads_what_its_first_steps_left(world: World) -> None:
    """Steps that succeeded are not run again, and their outputs are still there."""
    leave(world, {"rows": 2})
    leave(world, FAILED, task="check")
    run = start(world)
    assert world.state(run) == "failed"
    retry_run("dag", run.run_key)
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert len(world.jobs(run, "load")) == 1
    assert read_by(world, run) == [{"load": {"rows": 2}}] * 2


def test_cleared_step_leaves_anew(world: World) -> None:
    """Only the report of the current submission counts."""
    leave(world, {"rows": 1, "old": True}, {"rows": 2})
    run = start(world)
    clear_run("dag", run.run_key)
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert read_by(world, run) == [{"load": {"rows": 1, "old": True}}, {"load": {"rows": 2}}]


def test_step_that_was_marked_has_no_outputs(world: World) -> None:
    """Whoever marks a step does not vouch for what its failed job may have left."""
    left = {"version": 1, "state": "success", "reason": None, "outputs": {"rows": 1}}
    leave(world, Outcome(state="FAILED", report=left))
    run = start(world)
    mark_step("dag", run.run_key, "load", "success", why="loaded by hand", by="ada")
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert read_by(world, run) == [{"load": {}}]


def test_outputs_that_are_too_large_are_none_with_a_note(world: World) -> None:
    """The step has succeeded, and says what is wrong."""
    large = {"version": 1, "state": "success", "outputs": {"text": "x" * 32_001}}
    leave(world, Outcome(report=large))
    run = start(world)

    assert world.state(run) == "success"
    assert "outputs has 32,013 characters" in world.step(run, "load").error
    assert read_by(world, run) == [{"load": {}}]


def test_template_whose_output_is_missing_fails_its_step(world: World) -> None:
    """The error names the template; no job is started."""
    leave(world, {"lines": 3})
    options = {"check": {"arguments": ["{{ outputs.load.rows }}"]}}
    run = start(world, make("load>check", options=options))

    assert world.states(run) == {"load": "success", "check": "failed"}
    assert "'{{ outputs.load.rows }}'" in world.step(run, "check").error
    assert world.jobs(run, "check") == []


def _delete_report(uri: str) -> None:
    bucket, key = aws.bucket_and_key(report_uri(uri))
    aws.client("s3").delete_object(Bucket=bucket, Key=key)


def _forge_report(uri: str) -> None:
    body = {"version": 1, "state": "success", "outputs": {"rows": 9}, "secret": "guessed"}
    put_report(uri, json.dumps(body).encode())


@pytest.mark.parametrize("spoil", [_delete_report, _forge_report])
def test_report_that_is_gone_or_forged_leaves_nothing(world: World, spoil: Any) -> None:
    """A report that has expired is no error, and one of somebody else is not believed."""
    leave(world, {"rows": 2})
    leave(world, FAILED, task="check")
    run = start(world)
    spoil(first_job(world, run).context_uri)
    retry_run("dag", run.run_key)
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert read_by(world, run) == [{"load": {"rows": 2}}, {"load": {}}]


def test_report_is_read_once_for_all_that_start_together(world: World) -> None:
    """However many steps read another's outputs, they cost one call; without readers, none."""

    def reports_read(**options: Any) -> int:
        readers = dict.fromkeys("abc", options)
        run = world.start(make("load>a", "load>b", "load>c", options=readers))
        faults = Faults()
        with faults.on(aws.client("s3")):
            world.stack.advance(minutes=5)
        assert world.state(run) == "success"
        return faults.calls.count("GetObject")

    alone = reports_read()
    assert reports_read(arguments=["{{ outputs.load.rows | default(0) }}"]) == alone + 1
