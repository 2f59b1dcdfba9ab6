"""Steps that are executions of state machines: their ends, their results, and what gets lost."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask, StepFunctionsTask, aws
from lamplighter.registry.import_problems import all_problems
from lamplighter.runs.outputs import outputs_of
from lamplighter_local.emr.events import EventFaults
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.step_functions.fake import FakeStepFunctions
from lamplighter_operations.runs import cancel_run, clear_run
from lamplighter_operations.views import Run
from tests.tools.checked_deployment import LocalDeployment

NOW = datetime(2026, 1, 5, 12, 0, 5)
START = datetime(2026, 1, 4)
ORDERS = Asset("orders")


def make_dag(schedule: str | None = None, **options: Any) -> DAG:
    """Return a DAG whose job follows an execution."""
    with DAG("shop", schedule=schedule, params={"table": "orders"}, start_date=START) as dag:
        export = StepFunctionsTask(
            "export",
            state_machine="export",
            input={"table": "{{ params.table }}", "days": [{"run": "{{ run_id }}"}, 7]},
            outlets=[ORDERS],
            **options,
        )
        load = SparkTask(
            "load", job="jobs:load", arguments=["{{ outputs.export.rows | default(0) }}"]
        )
        export >> load
    return dag


@contextmanager
def deployment(*dags: DAG) -> Iterator[LocalDeployment]:
    """Yield a deployment, which must be sound in the end."""
    with LocalDeployment(dags or [make_dag()], at=NOW, settings={"job_poll_seconds": 60}) as lamp:
        yield lamp
        lamp.check_invariants()


def machines(lamp: LocalDeployment) -> FakeStepFunctions:
    """Return the fake Step Functions of a deployment."""
    assert lamp.stack.execution is not None
    found = lamp.stack.execution.fakes["step_functions"]
    assert isinstance(found, FakeStepFunctions)
    return found


def only_run(lamp: LocalDeployment) -> Run:
    """Return the only run, with its steps."""
    (run,) = lamp.runs("shop")
    return run


def states(run: Run) -> dict[str, str]:
    """Return the states of the steps of a run."""
    return {step.task_id: step.state for step in run.steps}


def context_of(lamp: LocalDeployment, task: str) -> Any:
    """Return what the only job of a task on Spark was given."""
    assert isinstance(lamp.executor, FakeEmr)
    (job,) = (job for job in lamp.executor.jobs if job.task == task)
    bucket, key = aws.bucket_and_key(job.context_uri)
    with lamp.in_own_runtime():
        return json.loads(aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())


def statuses(lamp: LocalDeployment) -> list[str]:
    """Return how all executions have ended."""
    return [each.end.status for each in machines(lamp).executions]


def test_execution_is_a_step_like_others() -> None:
    """Its input is rendered, its output kept, its outlets told of, and what follows it follows."""
    with deployment() as lamp:
        given: list[Any] = []

        def export(value: Any) -> object:
            given.append(value)
            return {"rows": 3}

        lamp.state_machine("export", export)
        run = lamp.trigger("shop")
        lamp.advance(minutes=1)
        assert states(only_run(lamp)) == {"export": "success", "load": "success"}
        (value,) = given
        about = value.pop("lamplighter")
        assert value == {"table": "orders", "days": [{"run": run.run_id}, 7]}
        assert about.pop("context_uri").endswith("/context.json")
        assert [about.pop("execution")] == [each.name for each in machines(lamp).executions]
        named = {"dag_id": "shop", "run_id": run.run_id, "task_id": "export", "try_number": 1}
        assert about == named
        with lamp.in_own_runtime():
            (row,) = lamp.stack.runs("shop")
            assert outputs_of(row, lamp.stack.steps(row)["export"]) == {"rows": 3}
        assert context_of(lamp, "load")["arguments"] == ["3"]


def test_output_may_be_given_without_a_function() -> None:
    """What a test says of the step comes before what it says of the state machine."""
    with deployment() as lamp:
        lamp.state_machine("export", lambda _: {"rows": 3})
        lamp.leaves("shop", "export", rows=5)
        lamp.trigger("shop")
        lamp.advance(minutes=1)
        assert context_of(lamp, "load")["arguments"] == ["5"]


def test_cost_of_an_execution_is_not_waited_for() -> None:
    """A run costs what its jobs cost of which that is ever known."""
    with deployment() as lamp:
        lamp.trigger("shop")
        lamp.advance(minutes=1)
        run = only_run(lamp)
        (export, load) = run.steps
        assert (export.cost, export.unbilled_jobs, run.unbilled_jobs) == (None, [], 0)
        assert run.cost == load.cost is not None


def test_execution_that_fails_is_tried_again() -> None:
    """Each try is an execution of its own."""
    with deployment(make_dag(retries=1, retry_delay=timedelta(seconds=30))) as lamp:
        lamp.fail_next("shop", "export", error="no such table")
        lamp.trigger("shop")
        lamp.advance(minutes=5)
        export, _ = only_run(lamp).steps
        assert (export.state, export.try_number) == ("success", 2)
        assert export.tries[0]["error"] == "Failed: no such table"
        assert statuses(lamp) == ["FAILED", "SUCCEEDED"]


def test_state_machine_skips_its_step() -> None:
    """What follows it is skipped as well, and nobody is told of its outlets."""
    with deployment() as lamp:
        lamp.skip_next("shop", "export", reason="no rows today")
        lamp.trigger("shop")
        lamp.advance(minutes=1)
        run = only_run(lamp)
        assert (run.state, states(run)) == ("success", {"export": "skipped", "load": "skipped"})
        assert run.steps[0].error == "no rows today"


def test_execution_that_takes_too_long_is_stopped() -> None:
    """The scheduler keeps the time limit, however short it is."""
    with deployment(make_dag(execution_timeout=timedelta(seconds=40))) as lamp:
        lamp.takes("shop", "export", hours=5)
        lamp.trigger("shop")
        lamp.advance(minutes=2)
        assert states(only_run(lamp)) == {"export": "failed", "load": "upstream_failed"}
        assert "execution_timeout" in str(only_run(lamp).steps[0].error)
        (execution,) = machines(lamp).executions
        assert execution.end.status == "ABORTED"
        assert execution.ended_at is not None
        assert (execution.ended_at - execution.created_at).total_seconds() == pytest.approx(
            40, abs=2
        )


def test_cancelled_run_stops_its_execution() -> None:
    """What waits behind a state machine is stopped with it."""
    with deployment() as lamp:
        lamp.takes("shop", "export", hours=5)
        lamp.trigger("shop")
        lamp.advance(minutes=1)
        assert states(only_run(lamp)) == {"export": "running"}
        with lamp.in_own_runtime():
            cancel_run("shop", only_run(lamp).run_key)
        lamp.advance(minutes=1)
        assert only_run(lamp).state == "cancelled"
        assert statuses(lamp) == ["ABORTED"]


def test_cleared_step_has_another_execution() -> None:
    """That of the cleared step is stopped before there is another one."""
    with deployment() as lamp:
        lamp.takes("shop", "export", hours=1)
        lamp.trigger("shop")
        lamp.advance(minutes=1)
        lamp.takes("shop", "export", seconds=1)
        with lamp.in_own_runtime():
            clear_run("shop", only_run(lamp).run_key)
        lamp.advance(minutes=5)
        assert states(only_run(lamp)) == {"export": "success", "load": "success"}
        assert statuses(lamp) == ["ABORTED", "SUCCEEDED"]


def test_step_waits_for_that_of_the_run_before() -> None:
    """With `depends_on_past` a second execution begins when the first one has succeeded."""
    with deployment() as lamp:
        lamp.push([make_dag("0 */12 * * *", depends_on_past=True)])
        lamp.takes("shop", "export", hours=2)
        lamp.advance(hours=1)
        assert statuses(lamp) == ["SUCCEEDED", "RUNNING"]
        lamp.advance(hours=6)
        _, second, third = machines(lamp).executions
        assert second.ended_at is not None
        assert third.created_at >= second.ended_at


@pytest.mark.parametrize(
    "faults",
    [
        EventFaults(drop=1.0),
        EventFaults(double=1.0),
        EventFaults(late_seconds=900, double=0.5, is_shuffled=True),
    ],
    ids=["lost", "doubled", "late"],
)
def test_events_delivered_badly_lead_to_the_same_end(faults: EventFaults) -> None:
    """The execution is described again whatever is heard of it, and found if nothing is."""
    with deployment(make_dag(retries=1, retry_delay=timedelta(seconds=30))) as lamp:
        machines(lamp).events = faults
        lamp.fail_next("shop", "export")
        lamp.trigger("shop")
        lamp.advance(hours=4)
        assert states(only_run(lamp)) == {"export": "success", "load": "success"}
        assert statuses(lamp) == ["FAILED", "SUCCEEDED"]


def test_input_handed_on_to_another_state_machine_is_harmless() -> None:
    """An execution that a state machine starts with its own input is none of the step's."""
    with deployment() as lamp:
        lamp.takes("shop", "export", minutes=5)
        lamp.trigger("shop")
        lamp.advance(seconds=10)
        (execution,) = machines(lamp).executions
        nested = {"stateMachineArn": f"{execution.state_machine}-2", "name": "nested"}
        with lamp.in_own_runtime():
            machines(lamp).call("StartExecution", {**nested, "input": execution.input})
        lamp.advance(hours=1)
        assert statuses(lamp) == ["SUCCEEDED", "SUCCEEDED"]
        assert states(only_run(lamp)) == {"export": "success", "load": "success"}


def test_start_that_is_throttled_comes_again() -> None:
    """It costs no try, and however late it is, nobody has to look for an execution first."""
    with deployment() as lamp:
        machines(lamp).refuse_next("StartExecution", "ThrottlingException", times=8)
        lamp.trigger("shop")
        lamp.advance(hours=1)
        assert states(only_run(lamp)) == {"export": "success", "load": "success"}
        assert only_run(lamp).steps[0].try_number == 1
        assert machines(lamp).calls["StartExecution"] == 9
        # Of its two events, and for the step that reads its output.
        assert machines(lamp).calls["DescribeExecution"] == 3


def test_state_machine_that_is_gone_costs_a_try() -> None:
    """The step says why it could not be started."""
    with deployment(make_dag(retries=1, retry_delay=timedelta(seconds=30))) as lamp:
        machines(lamp).refuse_next("StartExecution", "StateMachineDoesNotExist", times=2)
        lamp.trigger("shop")
        lamp.advance(hours=1)
        export, _ = only_run(lamp).steps
        assert (export.state, export.try_number) == ("failed", 2)
        assert "StateMachineDoesNotExist" in str(export.error)
        assert statuses(lamp) == []


def test_state_machine_that_is_not_named_is_an_import_error() -> None:
    """A push that wants more than the deployment allows is refused, with the flag to set."""
    with LocalDeployment(at=NOW) as lamp:
        lamp.stack.settings = replace(lamp.stack.settings, state_machines=("import",))
        lamp.push([make_dag()])
        with lamp.in_own_runtime():
            (problem,) = all_problems()
        assert "may not start 'export': add its name to the flag state_machines" in str(problem)
