"""No function has a permission that it never uses: a selection of stories uses them all but a few.

That no story needs more than there is, is held against every scenario (`tests/scenarios`).
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, AssetAlias, SparkTask, StepFunctionsTask, aws, queues
from lamplighter.backfill.plan import Request
from lamplighter.executors import job_process
from lamplighter.runs import effects
from lamplighter.topology import FUNCTIONS
from lamplighter_local.aws_lambda.fake_lambda import FakeLambda
from lamplighter_local.deliveries import deliver
from lamplighter_local.emr.fake_emr import EventFaults, FakeEmr, Outcome
from lamplighter_local.stack import NAME, LocalStack, local_stack
from lamplighter_operations.backfills import create_backfill
from lamplighter_operations.runs import cancel_run
from lamplighter_operations.trigger import create_manual_run
from tests.infra.permissions_file import USED_FILE, CheckedPermissions, read_lines
from tests.tools.function_calls import noted_calls

_ROOT = Path(__file__).parents[2]
BEGIN = datetime(2026, 1, 5, 12, 0, 5)

# Stories that together use most of the permissions, chosen for being short.
STORIES = (
    "test_asset_cycles.py::test_push_that_closes_a_cycle_through_another_bundle_is_an_import_error",
    "test_asset_edits.py::test_removed_reference_during_a_claim_takes_nothing",
    "test_asset_events.py::test_event_during_the_firing_counts_for_the_next_run",
    "test_asset_fan_out.py::test_consumer_whose_assets_stay_busy_holds_up_no_other",
    "test_asset_fan_out.py::test_sweep_hands_on_to_more_than_fit_at_once",
    "test_asset_fan_out.py::test_sweep_hands_on_what_nobody_delivers_again",
    "test_asset_pauses.py::test_condition_met_while_another_takes_it_for_unmet_fires_later",
    "test_asset_sources.py::test_failed_event_holds_up_its_lane_and_no_other",
    "test_asset_sources.py::test_rejected_event_does_not_hold_up_its_lane",
    "test_backfills.py::test_cancelled_backfill_cancels_jobs_on_request",
    "test_backfills.py::test_reprocess_says_which_runs_are_run_again",
    "test_backfills.py::test_spend_cap_pauses_before_it_is_exceeded",
    "test_bad_bundles.py::test_good_push_clears_an_unreadable_one",
    "test_built_in_triggers.py::test_source_that_is_polled_fires_once_for_what_is_new",
    "test_custom_timetables.py::test_assets_or_own_time_fires_on_assets",
    "test_custom_timetables.py::test_assets_or_own_time_has_both",
    "test_custom_timetables.py::test_long_outage_is_caught_up_wholly",
    "test_custom_timetables.py::test_long_outage_without_catchup_gives_one",
    "test_lost_pushes.py::test_push_whose_message_is_lost_is_registered",
    "test_look_ahead.py::test_hour_of_unreliable_ticks_is_on_time_with_real_queues",
    "test_manual_runs.py::test_waiting_runs_beyond_one_transaction_are_all_released",
    "test_many_consumers.py::test_sweep_without_time_gets_further_each_time",
    "test_messages_between_functions.py::test_failed_message_of_any_queue_comes_again",
    "test_messages_between_functions.py::test_unreadable_message_of_any_queue_is_a_dead_letter",
    "test_outages.py::test_outage_is_made_up_for_only_with_catchup",
    "test_outlets_wait.py::test_events_that_nobody_takes_are_sent_again_less_and_less",
    "test_pushes.py::test_deleted_row_may_be_pushed_again",
    "test_runs.py::test_alias_tells_of_the_assets_that_the_job_names",
    "test_runs.py::test_application_out_of_reach_is_tried_until_it_is_back",
    "test_runs.py::test_cancel_before_a_job_was_started_starts_none",
    "test_runs.py::test_run_without_any_task_is_over_at_once",
    "test_runs.py::test_short_limit_begins_when_the_job_does",
    "test_runs.py::test_step_whose_past_failed_waits_until_that_is_mended",
    "test_runs.py::test_time_limit_of_run_does_not_count_its_time_in_line",
    "test_shop_floor.py::test_what_happens_in_the_shop_starts_its_runs",
    "test_state_machines.py::test_cancelled_run_stops_its_execution",
    "test_state_machines.py::test_execution_is_a_step_like_others",
    "test_waiting_steps.py::test_freed_slot_whose_message_is_lost_is_found_by_the_next_sweep",
    "test_waiting_steps.py::test_step_takes_what_another_gives_back_in_the_same_write",
    "test_waiting_steps.py::test_throttled_start_gives_its_slot_back_and_waits_in_one_write",
    "test_watchers.py::test_fifo_messages_that_come_again_are_finished_in_their_order",
)

# Permissions that no story here uses: function, action, thing, and why they are there all the same.
UNUSED = (
    ("*", "kms:*", "key", "services encrypt and decrypt with it for whoever calls them"),
    ("*", "logs:*", "*", "Lambda writes the log for its function"),
    ("*", "sqs:ReceiveMessage", "*", "Lambda polls for its function"),
    ("*", "sqs:DeleteMessage", "*", "as above"),
    ("*", "sqs:GetQueueAttributes", "*", "as above"),
    ("sandbox", "s3:PutObject", "bucket/results/*", "an answer of more than five megabytes"),
    ("register", "s3:GetObject", "bucket/results/*", "as above"),
    ("task", "sqs:SendMessage", "queue/jobstates", "Lambda sends the end of an invocation for it"),
    ("task", "sts:AssumeRole", "role/*", "no test has a role for what Python tasks run"),
    ("settle", "s3:ListBucket", "bucket", "S3 tells a missing report from a forbidden one"),
    ("submit", "s3:ListBucket", "bucket", "as above"),
    # The claim is one piece of code in four functions; others of them use these.
    ("ingest", "dynamodb:UpdateItem", "table/Runs", "a waiting run gets its slot by an event"),
    ("tick", "dynamodb:*Item", "table/Assets", "a condition that had no slot gets one"),
    ("tick", "dynamodb:UpdateItem", "table/AssetQueue", "as above"),
    ("sweep", "dynamodb:ConditionCheckItem", "table/Assets", "the sweep fires a busy consumer"),
    ("sweep", "dynamodb:*Item", "table/Catalog", "the sweep fires one with an author's timetable"),
    # Moments that only a fault brings about; those of tests/faults do.
    ("register", "dynamodb:UpdateItem", "table/AssetQueue", "an event in the middle of a push"),
    ("sweep", "dynamodb:PutItem", "table/Steps", "a step that is over before it began"),
    ("sweep", "dynamodb:*Item", "table/Limits", "a slot is given back by a step of a lost event"),
    ("sweep", "sqs:SendMessage", "queue/jobstates", "a limit that is reached within minutes"),
)


@pytest.fixture
def checked() -> Iterator[CheckedPermissions]:
    """Yield what functions do with their permissions until the test ends."""
    found = CheckedPermissions(f"{NAME}-")
    with noted_calls(found.note):
        yield found


def _of_scenarios(folder: Path) -> set[tuple[str, str, str]]:
    """Return the permissions that the stories used, which run in a process of their own."""
    used = folder / "used.json"
    stories = [f"tests/scenarios/{story}" for story in STORIES]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *stories],
        cwd=_ROOT,
        env={**os.environ, USED_FILE: str(used)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return {(function, action, thing) for function, action, thing in json.loads(used.read_text())}


def _dag(dag_id: str, *tasks: str, **arguments: Any) -> DAG:
    """Return a DAG of tasks in a row; the last has an outlet."""
    dag = DAG(dag_id, **{"schedule": None, "max_active_runs": 1, **arguments})
    with dag:
        outlets = [Asset("orders")]
        made = [SparkTask(name, job="jobs:only", outlets=outlets) for name in tasks]
        for before, after in pairwise(made):
            before >> after
    return dag


def _ending(stack: LocalStack) -> None:
    """Let runs end in all ways, and others have their slots."""
    # Of a DAG without tasks, `submit` finds a run to be over, and the next one due.
    always = _dag("always", schedule="* * * * *", start_date=BEGIN.subtract(minutes=5))
    stack.push_dags([_dag("short", "only"), always], bundle="ending")
    create_manual_run("short", logical_date=None)
    stack.advance(minutes=3)


def _reading(stack: LocalStack) -> None:
    """Let a step read what the one before has left."""
    with DAG("reading", schedule=None) as dag:
        load = SparkTask("load", job="jobs:only")
        load >> SparkTask("check", job="jobs:only", inputs=[load])
    stack.push_dags([dag], bundle="reading")
    create_manual_run("reading", logical_date=None)
    stack.advance(minutes=1)


def _sweeping(stack: LocalStack, emr: FakeEmr) -> None:
    """Let nothing be heard of jobs, so that the sweep has to find out everything."""
    emr.events = EventFaults(drop=1.0)
    stack.push_dags([_dag("unheard", "a", "b"), _dag("endless", "a")], bundle="sweeping")
    create_manual_run("unheard", logical_date=None)
    emr.next_outcome("endless", "a", Outcome.hangs())
    run = create_manual_run("endless", logical_date=None)
    stack.advance(minutes=1)
    with patch.object(queues, "send_settles"):  # the wish to cancel is written, its message lost
        cancel_run(run.dag_id, run.run_key)
    stack.advance(hours=2)
    emr.events = EventFaults()
    with patch.object(effects, "send_outlets"):  # a function dies before it has told of an outlet
        create_manual_run("unheard", logical_date=None)
        stack.advance(minutes=1)
    stack.advance(hours=1)


def _stopping(stack: LocalStack) -> None:
    """Let nothing be heard of the wish to stop an execution, so that the sweep stops it."""
    dag = DAG("crawling", schedule=None)
    StepFunctionsTask("crawl", dag=dag, state_machine="crawl")
    stack.push_dags([dag], bundle="stopping")
    assert stack.execution is not None
    stack.execution.fakes["step_functions"].next_outcome("crawling", "crawl", Outcome.hangs())
    run = create_manual_run("crawling", logical_date=None)
    stack.advance(minutes=1)
    with patch.object(queues, "send_settles"):
        cancel_run(run.dag_id, run.run_key)
    stack.advance(hours=1)


def _failing(stack: LocalStack, emr: FakeEmr) -> None:
    """Let jobs fail without a report, so that their logs are looked into: by events and without."""
    stack.push_dags([_dag("failing", "a")], bundle="failing")
    for drop in (0.0, 1.0):
        emr.events = EventFaults(drop=drop)
        emr.next_outcome("failing", "a", Outcome("FAILED"))
        create_manual_run("failing", logical_date=None)
        stack.advance(hours=1)
    emr.events = EventFaults()


def _backfilling(stack: LocalStack) -> None:
    """Let the messages that move a backfill on be lost, so that the sweep does it."""
    daily = _dag("daily", "a", schedule="@daily", start_date=BEGIN, max_active_runs=16)
    # Without tasks, `submit` finds its runs to be over.
    empty = _dag("empty", schedule="@daily", start_date=BEGIN)
    stack.push_dags([daily, empty], bundle="backfilling")
    week = BEGIN.subtract(days=6), BEGIN
    create_backfill(Request("empty", *week))
    stack.advance(minutes=1)
    with patch.object(queues, "send_backfills"):
        create_backfill(Request("daily", *week, max_active_runs=2))
        stack.advance(hours=1)


def _python_steps(stack: LocalStack, root: Path) -> None:
    """Let `task` run a job, another be cancelled, and a third be forgotten by its invocation."""
    (root / "dags").mkdir()
    (root / "jobs").mkdir()
    (root / "jobs" / "x.py").write_text("import time\n\ndef main(_): time.sleep(1)\n")
    (root / "dags" / "a.py").write_text(
        "from lamplighter import DAG, PythonTask\n"
        "with DAG('python', max_active_runs=9):\n    PythonTask('a', job='jobs.x:main')\n"
    )
    stack.push(root, bundle="python")
    assert stack.execution is not None
    fake = stack.execution.fakes["python"]
    assert isinstance(fake, FakeLambda)
    first, second, _ = (
        create_manual_run("python", logical_date=None, run_id=name) for name in ("a", "b", "c")
    )
    fake.next_outcome("python", "a", Outcome(takes=600))
    while not (job := stack.steps(first).get("a")) or job.job_run_id is None:
        assert deliver(stack.settings.queue_url("submits"), "submit", stack.call)
    with patch.object(job_process, "_SECONDS_BETWEEN_LOOKS", 0.1):
        stack.call("task", {"job": job.job_run_id})
    cancel_run(second.dag_id, second.run_key)
    fake.kill_next("python", "a")
    fake.events = EventFaults(drop=1.0)
    stack.advance(hours=2)


def _misleading(stack: LocalStack) -> None:
    """Let a source tell something that nobody listens to, and others what nobody can read."""
    for queue, body in (("sources", "{}"), ("claims", "?"), ("registers", "?"), ("jobstates", "?")):
        url = stack.settings.queue_url(queue)
        aws.client("sqs").send_message(QueueUrl=url, MessageBody=body)
    for rows in (1, 2):
        stack.emit("orders", event_id="told-twice", extra={"rows": rows})
        stack.run_until_idle()


def _registering(stack: LocalStack) -> None:
    """Let DAGs wait for assets, then for others, then for none."""
    orders, fx, found = Asset("orders"), Asset("fx"), AssetAlias("found")
    for number, schedule in enumerate((orders & fx, found | orders, orders, None)):
        dag = DAG("waits", schedule=schedule)
        with dag:
            SparkTask("only", job="jobs:only")
        stack.push_dags([dag], bundle="objects")
        stack.emit("orders", event_id=f"event-{number}")
        stack.advance(minutes=3)


def test_every_permission_is_used_or_has_a_reason(
    checked: CheckedPermissions, tmp_path: Path
) -> None:
    """Every permission of a function is used by some story, or stands in the list with a reason."""
    emr = FakeEmr()
    with local_stack(at=BEGIN, on=emr) as stack:
        made = replace(stack.settings, due_shards=1, run_shards=1, event_bus="default")
        stack.settings = replace(made, job_logs_uri=f"s3://{made.bucket}/logs")
        _registering(stack)
        _ending(stack)
        _reading(stack)
        _sweeping(stack, emr)
        _failing(stack, emr)
        _stopping(stack)
        _backfilling(stack)
        _misleading(stack)
        _python_steps(stack, tmp_path)
    assert checked.forbidden == set()
    used = checked.used | _of_scenarios(tmp_path)
    left = {
        (function, line.action, line.thing)
        for function in FUNCTIONS
        for line in read_lines(function)
        if (function, line.action, line.thing) not in used
    }

    def is_listed(permission: tuple[str, str, str]) -> bool:
        return any(all(map(fnmatchcase, permission, entry)) for entry in UNUSED)

    assert [" ".join(permission) for permission in sorted(left) if not is_listed(permission)] == []
    listed_in_vain = [
        entry for entry in UNUSED if not any(all(map(fnmatchcase, each, entry)) for each in left)
    ]
    assert listed_in_vain == []
