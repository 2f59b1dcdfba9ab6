"""Random DAGs whose jobs end in random ways: every run ends as a simple reading of the rules says.

The model below knows Airflow's table of trigger rules and how tries are counted, and nothing of the
library that it is compared with. It sees all ends at once, so that there is one question it cannot
answer: whether `all_success` met a skip or a failure first. Either is right, and the model goes on
with the one that was.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lamplighter import DAG, Asset, SparkTask
from lamplighter_local.emr.fake_emr import Outcome
from tests.scenarios.run_acts import World, new_world

RULES = (
    "all_success",
    "all_failed",
    "all_done",
    "all_done_min_one_success",
    "one_success",
    "one_failed",
    "one_done",
    "none_failed",
    "none_failed_min_one_success",
    "none_skipped",
    "all_skipped",
    "always",
)
SUCCESS, FAILED, SKIPPED, UPSTREAM_FAILED = "success", "failed", "skipped", "upstream_failed"
ENDS = {
    "success": Outcome(),
    "fail": Outcome.failed("boom"),
    "skip": Outcome.skipped("nothing to do"),
    "turned away": Outcome.capacity(),
}
# More hours than all tries of all tasks can take, one after the other.
PATIENCE = 60


@dataclass(frozen=True)
class Task:
    """A task of a story: what it waits for, and how its jobs end, one after the other."""

    name: str
    upstream: tuple[str, ...]
    rule: str
    retries: int
    ends: tuple[str, ...]
    weight: int


@dataclass(frozen=True)
class Story:
    """A DAG, and what happens in it."""

    tasks: tuple[Task, ...]
    places: int

    def dag(self) -> DAG:
        """Return the DAG, each task with an outlet of its own."""
        dag = DAG("dag", schedule=None, max_active_tasks=self.places)
        for task in self.tasks:
            SparkTask(
                task.name,
                dag=dag,
                job="jobs:run",
                trigger_rule=task.rule,
                retries=task.retries,
                retry_delay=5,
                priority_weight=task.weight,
                outlets=[Asset(f"made-by-{task.name}")],
            )
            for before in task.upstream:
                _ = dag.tasks[before] >> dag.tasks[task.name]
        return dag


@st.composite
def stories(draw: st.DrawFn, *, limit: int) -> Story:
    """Draw a DAG whose edges all go forward, and an end for each job."""
    names = [f"t{number:02}" for number in range(draw(st.integers(2, limit)))]
    tasks = []
    for place, name in enumerate(names):
        before = (
            draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=3)) if place else []
        )
        ends = draw(st.lists(st.sampled_from(sorted(ENDS)), max_size=4))
        tasks.append(
            Task(
                name,
                tuple(before),
                draw(st.sampled_from(RULES)),
                draw(st.integers(0, 2)),
                tuple(ends),
                draw(st.integers(0, 3)),
            )
        )
    return Story(tuple(tasks), draw(st.integers(1, 4)))


# The model.


def own_end(task: Task) -> tuple[str, int, int]:
    """Return how a task ends that may run, in how many tries and how many jobs."""
    tries = jobs = 0
    for end in (*task.ends, "success"):
        jobs += 1
        if end == "turned away":
            continue
        tries += 1
        if end == "fail" and tries <= task.retries:
            continue
        return {"success": SUCCESS, "fail": FAILED, "skip": SKIPPED}[end], tries, jobs
    raise AssertionError("the last end is always a success")


def decisions(rule: str, before: Sequence[str]) -> set[str]:
    """Return what may become of a task when all before it is over: "run", or a state."""
    total, s, k = len(before), before.count(SUCCESS), before.count(SKIPPED)
    bad = before.count(FAILED) + before.count(UPSTREAM_FAILED)
    runs: Mapping[str, bool] = {
        "all_success": s == total,
        "all_failed": bad == total,
        "all_done": True,
        "all_done_min_one_success": k == 0 and s >= 1,
        "one_success": s >= 1,
        "one_failed": bad >= 1,
        "one_done": s + before.count(FAILED) >= 1,
        "none_failed": bad == 0,
        "none_failed_min_one_success": bad == 0 and s >= 1,
        "none_skipped": k == 0,
        "all_skipped": k == total,
        "always": True,
    }
    if not before or runs[rule]:
        return {"run"}
    if rule == "all_success":
        return ({UPSTREAM_FAILED} if bad else set()) | ({SKIPPED} if k else set())
    if rule == "all_done_min_one_success":
        return {SKIPPED if k else UPSTREAM_FAILED}
    if rule == "one_success":
        return {SKIPPED if k == total else UPSTREAM_FAILED}
    if rule in {"none_failed", "none_failed_min_one_success"}:
        return {UPSTREAM_FAILED if bad else SKIPPED}
    return {SKIPPED}


def compare(story: Story, world: World, run: Any) -> None:
    """Check every step, job, event and the run itself against the model."""
    steps = world.stack.steps(run)
    states: dict[str, str] = {}
    for task in story.tasks:
        step = steps[task.name]
        allowed = decisions(task.rule, [states[before] for before in task.upstream])
        tries = jobs = 0
        if allowed == {"run"}:
            end, tries, jobs = own_end(task)
            allowed = {end}
        assert step.state in allowed, task
        states[task.name] = step.state
        assert (step.try_number, step.submission) == (tries, jobs), task
        assert len(world.jobs(run, task.name)) == jobs, task
        told = [event.source["task_id"] for event in world.events(f"made-by-{task.name}")]
        assert told == ([task.name] if step.state == SUCCESS else []), task
    followed = {before for task in story.tasks for before in task.upstream}
    last = {states[task.name] for task in story.tasks if task.name not in followed}
    expected = FAILED if last & {FAILED, UPSTREAM_FAILED} else SUCCESS
    assert world.state(run) == expected


def play(world: World, story: Story) -> None:
    """Let a story happen from its beginning to its end; it is shown if that never comes."""
    sys.stdout.write(f"{story}\n")
    world.begin_again()
    for task in story.tasks:
        for end in task.ends:
            world.emr.next_outcome("dag", task.name, ENDS[end])
    run = world.start(story.dag())
    for _ in range(PATIENCE):
        if world.state(run) in {"success", "failed"}:
            break
        world.stack.advance(hours=1)
    # What was told needs a moment to be numbered.
    world.stack.advance(minutes=1)
    compare(story, world, run)
    world.require_sound()


def examples(count: int) -> settings:
    """Return how many stories are told; a failure is short enough to read without shrinking."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def test_runs_of_random_dags_end_as_the_rules_say() -> None:
    """States, tries, jobs, events and the run's end are those of the model."""
    with new_world() as world:

        @examples(12)
        @given(story=stories(limit=6))
        def tell(story: Story) -> None:
            play(world, story)

        tell()


@pytest.mark.full
def test_runs_of_many_random_dags_end_as_the_rules_say() -> None:
    """As above, with many more stories, and larger ones."""
    with new_world() as world:

        @examples(300)
        @given(story=stories(limit=12))
        def tell(story: Story) -> None:
            play(world, story)

        tell()
