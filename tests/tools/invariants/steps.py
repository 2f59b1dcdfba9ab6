"""What must be true of steps and their jobs: nothing runs twice, nothing is left over or forgotten.

Owns: the promises about steps, which `invariants` checks with all others, and those about jobs,
which need an executor that can be asked for all that it ever ran.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from lamplighter.assets import AssetAlias
from lamplighter.identifiers import OUTLET, asset_id
from lamplighter.runs.dependencies import next_steps, removed_tasks
from lamplighter.runs.job_request import JobName
from lamplighter.runs.states import LIVE, OVER, STEP_MOVES, UP_FOR_RETRY
from lamplighter.store import runs as run_rows
from lamplighter.store.dags import definition_of
from lamplighter.store.limits import STARTS
from lamplighter.store.models import AssetEvents, Runs, Steps
from lamplighter.store.runs import run_ref
from lamplighter_local.aws_lambda.fake_lambda import FakeLambda
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.table_checks import waiting_violations

_StepsByRun = Mapping[str, list[Steps]]


def steps_by_run() -> dict[str, list[Steps]]:
    """Return all steps, by the run that they belong to."""
    found: dict[str, list[Steps]] = defaultdict(list)
    for step in Steps.scan(consistent_read=True):
        found[step.run_ref].append(step)
    return found


def step_violations(runs: Mapping[str, list[Runs]], *, is_idle: bool) -> Iterator[str]:
    """Yield what is wrong with steps; `is_idle` if no message is on its way."""
    steps = steps_by_run()
    by_ref = {run_ref(run.dag_id, run.run_key): run for each in runs.values() for run in each}
    for ref in sorted(steps.keys() - by_ref.keys()):
        yield f"there are steps of {ref}, which is no run"
    # A run that began anew has left steps of the one before, until its own take their places.
    steps = {
        ref: [step for step in own if step.run_created_at == by_ref[ref].created_at]
        for ref, own in steps.items()
        if ref in by_ref
    }
    for ref, own in sorted(steps.items()):
        if ref in by_ref:
            for text in _of_run(by_ref[ref], own):
                yield f"run {ref}: {text}"
    yield from _of_outlets(by_ref, steps, is_idle=is_idle)


def _of_run(run: Runs, steps: list[Steps]) -> Iterator[str]:
    is_over = run.state in run_rows.FINISHED
    for step in steps:
        yield from _of_step(step)
        yield from waiting_violations(step, run)
        # While the run lives, a step that is over may have been kept, or have an expiry to come.
        if (step.expires_at is None) if is_over else (step.state not in OVER and step.expires_at):
            yield f"step {step.step_id} is {step.state} and expires at {step.expires_at}"
    unfinished = sorted(s.step_id for s in steps if s.state in LIVE | {UP_FOR_RETRY})
    if is_over and unfinished:
        yield f"it is {run.state}, but steps {unfinished} are not over"
    yield from _of_costs(run, steps)
    if run.state == run_rows.QUEUED and any(step.state in LIVE for step in steps):
        yield "it is queued, but has steps under way"
    if run.state in {run_rows.SUCCESS, run_rows.FAILED} and run.reason is None:
        dag = definition_of(run)
        states = removed_tasks(dag, run) | {step.step_id: step.state for step in steps}
        if (final_state := next_steps(dag, states).final_state) != run.state:
            yield f"it is {run.state}, but its steps make it {final_state}"
    if run.state == run_rows.RUNNING and run.target_state is None:
        dag = definition_of(run)
        live = [step for step in steps if step.state in LIVE]
        if len(live) > dag.max_active_tasks:
            yield f"{len(live)} steps are under way where {dag.max_active_tasks} are allowed"


def _of_costs(run: Runs, steps: list[Steps]) -> Iterator[str]:
    """Yield whether a run says anything else about its cost than its steps do."""
    unbilled = sum(len(step.unbilled_jobs or ()) for step in steps)
    if unbilled != (run.unbilled_jobs or 0):
        yield f"it has {run.unbilled_jobs} unbilled jobs, but its steps have {unbilled}"
    known = [step.cost for step in steps if step.cost is not None]
    if round(sum(known), 9) != (run.cost or 0) or (run.cost is None) != (not known):
        yield f"it costs {run.cost}, but its steps cost {known}"


def _of_step(step: Steps) -> Iterator[str]:
    if step.state not in STEP_MOVES:
        yield f"step {step.step_id} has the unknown state {step.state}"
    if step.try_number > step.submission:
        yield f"step {step.step_id} has had {step.try_number} tries in {step.submission} jobs"
    if (step.state == UP_FOR_RETRY) != (step.retry_at is not None):
        yield f"step {step.step_id} is {step.state} and its retry is at {step.retry_at}"
    if step.start_reserved_at is not None and not (step.waits_for or "").startswith(STARTS):
        yield f"step {step.step_id} has a reserved start, and waits for {step.waits_for}"
    if (step.cancel_action is not None) != (step.state == "cancelling"):
        yield f"step {step.step_id} is {step.state}, and then {step.cancel_action}"


def _of_outlets(runs: Mapping[str, Runs], steps: _StepsByRun, *, is_idle: bool) -> Iterator[str]:
    """Check that the newest success of each step has told of all its outlets, and nothing else."""
    events: dict[tuple[str, str], AssetEvents] = {}
    for event in AssetEvents.scan(consistent_read=True):
        if event.event_id.startswith(OUTLET) and event.rejected is None:
            events[event.asset_id, event.event_id] = event
            if is_idle and event.seq is None:
                yield f"event {event.event_id} of asset {event.asset_id} has no number"
    for ref, run in sorted(runs.items()):
        for step in steps.get(ref, ()):
            outlets = definition_of(run).tasks[step.step_id].outlets
            name = JobName.of(run, step)
            for asset in outlets:
                key = (asset_id(asset.name), name.event_id(asset.name))
                if isinstance(asset, AssetAlias):
                    continue
                if step.state == "success" and not step.marked and key not in events:
                    yield f"run {ref}: step {step.step_id} has told nobody of {asset.name}"
                if step.state != "success" and key in events:
                    yield f"run {ref}: {step.state} step {step.step_id} told of {asset.name}"


def job_violations(emr: FakeEmr | FakeLambda, *, is_idle: bool = True) -> list[str]:
    """Return what is wrong with jobs: two of one step at once, or one that runs for nobody."""
    found = emr.doubles()
    if not is_idle:
        return found
    rows = {(step.run_ref, step.step_id): step for each in steps_by_run().values() for step in each}
    for job in emr.live():
        step = rows.get((run_ref(job.dag, job.run_key), job.task))
        is_known = step is not None and step.state in LIVE and step.submission == job.submission
        if not is_known:
            found.append(f"job {job.job_run_id} of {job.dag}/{job.task} runs for nobody")
    return found
