"""A fake EMR Serverless that is no kinder than AWS: rates, quotas, workers, bills, applications."""

import datetime
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import ClientError

from lamplighter import runtime
from lamplighter.errors import RefusedError
from lamplighter.executors.emr import UTILIZATION_TYPE
from lamplighter.zones import as_utc, parse_instant
from lamplighter_local.emr.behaviour import AWS_RATES, INSTANT, EmrBehaviour, Rate, Resources
from lamplighter_local.emr.capacity import NO_ACCOUNT_VCPUS, NO_CAPACITY, NO_WORKER
from lamplighter_local.emr.fake_emr import EventFaults, FakeEmr, Outcome
from lamplighter_local.emr.requests import mistakes, service_model
from lamplighter_local.emr.workers import JobSize
from lamplighter_local.movable_clock import MovableClock

START = as_utc(datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC))
APPLICATION = "00local"
CONTEXT = "s3://lake/jobs/orders/2026-01-05T12%3A00%3A00%2B00%3A00/load/1-5f3a/context.json"
# Everything but the rates: tests call as often as they like.
AWS = EmrBehaviour(rates={})
# Two vCPUs and 4 GB for the driver and for each of two executors.
SMALL = (
    "--conf spark.driver.cores=2 --conf spark.driver.memory=3g"
    " --conf spark.executor.cores=2 --conf spark.executor.memory=3g"
    " --conf spark.dynamicAllocation.initialExecutors=2"
)
WORKER = Resources(2, 4, 20)


@pytest.fixture(autouse=True)
def movable() -> Iterator[MovableClock]:
    """Yield the clock of the process."""
    made = MovableClock(START)
    with runtime.using(clock=made):
        yield made


def emr_of(**changed: Any) -> FakeEmr:
    """Return a fake that behaves as AWS does, but for what is changed; jobs take a minute."""
    return FakeEmr(takes_seconds=60, behaviour=replace(AWS, **changed))


def request(token: str = "t1", *, spark: str = "", **more: Any) -> dict[str, Any]:  # noqa: S107 - not a secret
    """Return what starts a job."""
    submit = {"entryPoint": "s3://lake/run.py", "entryPointArguments": [CONTEXT]}
    if spark:
        submit["sparkSubmitParameters"] = spark
    return {
        "applicationId": APPLICATION,
        "clientToken": token,
        "executionRoleArn": "arn:aws:iam::123456789012:role/jobs",
        "jobDriver": {"sparkSubmit": submit},
        **more,
    }


def start(emr: FakeEmr, token: str = "t1", **more: Any) -> str:  # noqa: S107 - as above
    """Start a job and return its id."""
    job_run_id: str = emr.call("StartJobRun", request(token, **more))["jobRunId"]
    return job_run_id


def start_many(emr: FakeEmr, count: int, **more: Any) -> list[str]:
    """Start jobs at once and return their ids."""
    return [start(emr, f"t{n}", **more) for n in range(count)]


def get(emr: FakeEmr, job_run_id: str) -> dict[str, Any]:
    """Return a job as the service describes it."""
    which = {"applicationId": APPLICATION, "jobRunId": job_run_id}
    job: dict[str, Any] = emr.call("GetJobRun", which)["jobRun"]
    return job


def application(emr: FakeEmr) -> dict[str, Any]:
    """Return the application as the service describes it."""
    found: dict[str, Any] = emr.call("GetApplication", {"applicationId": APPLICATION})
    return found["application"]  # type: ignore[no-any-return] # it is the only one


def states(emr: FakeEmr) -> Counter[str]:
    """Return how many jobs are in each state."""
    return Counter(str(job.state) for job in emr.jobs)


def seconds_of(emr: FakeEmr, state: str, *, job: int = 0) -> float:
    """Return how long after the beginning of time a job came into a state."""
    found = next(change for change in emr.jobs[job].timeline if change.state == state)
    return (found.at - START).total_seconds()


def code(refused: pytest.ExceptionInfo[ClientError]) -> str:
    """Return the error code of a refusal."""
    return str(refused.value.response["Error"]["Code"])


class TestRates:
    @pytest.mark.parametrize(
        ("operation", "burst", "per_second"),
        [
            ("StartJobRun", 25, 1),
            ("ListJobRuns", 25, 1),
            ("CancelJobRun", 25, 1),
            ("GetJobRun", 50, 10),
            ("GetDashboardForJobRun", 2, 1),
        ],
    )
    def test_calls_above_the_burst_are_throttled(
        self, movable: MovableClock, operation: str, burst: int, per_second: int
    ) -> None:
        """After the burst, calls pass at the steady rate; the others are throttled and counted."""
        emr = FakeEmr(behaviour=replace(INSTANT, rates=AWS_RATES))
        job_run_id = start(emr)
        movable.sleep(60)
        emr.calls.clear()

        def passed(calls: int) -> int:
            return sum(self.passes(emr, operation, job_run_id, n) for n in range(calls))

        assert passed(2 * burst) == burst
        assert emr.throttles == {operation: burst}
        movable.sleep(3)
        assert passed(2 * burst) == min(3 * per_second, burst)
        assert emr.calls == {operation: 4 * burst}

    def passes(self, emr: FakeEmr, operation: str, job_run_id: str, number: int) -> bool:
        """Return whether a call is not throttled, whatever else is said of it."""
        asked: dict[str, Any] = {"applicationId": APPLICATION, "jobRunId": job_run_id}
        if operation == "StartJobRun":
            asked = request(f"again-{number}")
        elif operation == "ListJobRuns":
            del asked["jobRunId"]
        try:
            emr.call(operation, asked)
        except ClientError as error:
            return bool(error.response["Error"]["Code"] != "ThrottlingException")
        return True

    def test_throttled_start_starts_nothing(self) -> None:
        """A start that is throttled leaves no job, and its token is as good as new."""
        emr = emr_of(rates={"StartJobRun": Rate(1, 1)})
        start(emr, "t1")
        with pytest.raises(ClientError) as refused:
            start(emr, "t2")
        assert code(refused) == "ThrottlingException"
        assert len(emr.jobs) == 1

    def test_operations_have_a_burst_each(self) -> None:
        """Whoever has used up one operation can still call another."""
        emr = emr_of(rates=AWS_RATES)
        job_run_id = start_many(emr, 25)[0]
        assert get(emr, job_run_id)["state"] == "SUBMITTED"
        with pytest.raises(ClientError, match="Rate exceeded"):
            start(emr, "late")


class TestLife:
    def test_job_passes_all_states_in_order(self, movable: MovableClock) -> None:
        """A job is SUBMITTED, PENDING and SCHEDULED for as long as AWS takes to start it."""
        emr = emr_of(application_start_seconds=0)
        start(emr)
        movable.sleep(3600)
        (job,) = emr.jobs
        found = [change.state for change in job.timeline]
        assert found == ["SUBMITTED", "PENDING", "SCHEDULED", "RUNNING", "SUCCESS"]
        assert 60 <= seconds_of(emr, "RUNNING") <= 91
        assert seconds_of(emr, "SUCCESS") == seconds_of(emr, "RUNNING") + 60

    def test_start_times_depend_on_the_seed_alone(self, movable: MovableClock) -> None:
        """The same seed gives the same history, another one another."""

        def history(seed: int) -> list[float]:
            movable._at = START
            emr = emr_of(seed=seed, account_vcpus=None)
            start_many(emr, 5)
            movable.sleep(600)
            return [seconds_of(emr, "RUNNING", job=n) for n in range(5)]

        assert history(1) == history(1) != history(2)

    def test_outcomes_and_durations_are_those_planned(self, movable: MovableClock) -> None:
        """What tests say about jobs holds here too, from the first executor on."""
        emr = emr_of()
        emr.takes("orders", "load", minutes=5)
        emr.fail_next("orders", "load", details="worker lost")
        job_run_id = start(emr)
        movable.sleep(3600)
        assert get(emr, job_run_id)["stateDetails"] == "worker lost"
        assert seconds_of(emr, "FAILED") == seconds_of(emr, "RUNNING") + 300

    @pytest.mark.parametrize("outcome", [Outcome.capacity(), Outcome.queue_timeout()])
    def test_job_planned_never_to_run_fails_unbilled(
        self, movable: MovableClock, outcome: Outcome
    ) -> None:
        """An end before RUNNING is not billed."""
        emr = emr_of()
        emr.next_outcome("orders", "load", outcome)
        job_run_id = start(emr)
        movable.sleep(7 * 3600)
        job = get(emr, job_run_id)
        assert job["state"] == "FAILED"
        assert "startedAt" not in job
        assert set(job["billedResourceUtilization"].values()) == {0.0}

    def test_job_over_its_timeout_is_cancelled(self, movable: MovableClock) -> None:
        """The timeout counts from RUNNING."""
        emr = emr_of()
        emr.next_outcome("orders", "load", Outcome.hangs())
        start(emr, executionTimeoutMinutes=10)
        movable.sleep(3600)
        assert seconds_of(emr, "CANCELLING") == seconds_of(emr, "RUNNING") + 600
        assert states(emr) == {"CANCELLED": 1}

    @pytest.mark.parametrize("minutes", [0, 10_081])
    def test_timeout_beyond_a_week_is_refused(self, minutes: int) -> None:
        """A batch job cannot run for ever."""
        with pytest.raises(ClientError, match="at most 10080") as refused:
            start(emr_of(), executionTimeoutMinutes=minutes)
        assert code(refused) == "ValidationException"


class TestWorkers:
    @pytest.mark.parametrize(
        ("spark", "size"),
        [
            ("", JobSize(Resources(4, 16, 20), Resources(4, 16, 20), 3)),
            (SMALL, JobSize(WORKER, WORKER, 2)),
            (
                (
                    "--driver-cores 1 --driver-memory=512m --executor-cores 3 --executor-memory 20G"
                    " --conf spark.emr-serverless.executor.disk=100g"
                    " --conf spark.dynamicAllocation.maxExecutors=10"
                ),
                JobSize(Resources(1, 2, 20), Resources(4, 22, 100), 3),
            ),
            (
                (
                    "--conf spark.executor.cores=8 --conf spark.executor.memory=50g"
                    " --conf spark.dynamicAllocation.enabled=false --num-executors 5"
                ),
                JobSize(Resources(4, 16, 20), Resources(8, 56, 20), 5),
            ),
            (
                (
                    '--conf "spark.driver.memoryOverhead=2g" --conf spark.driver.memory=16g'
                    " --conf spark.executor.memoryOverheadFactor=0.5"
                    " --conf spark.dynamicAllocation.initialExecutors=0"
                ),
                JobSize(Resources(4, 18, 20), Resources(4, 21, 20), 1),
            ),
            (
                "--conf spark.dynamicAllocation.minExecutors=5",
                JobSize(Resources(4, 16, 20), Resources(4, 16, 20), 5),
            ),
        ],
    )
    def test_workers_are_read_from_the_request(self, spark: str, size: JobSize) -> None:
        """EMR's defaults hold for what is not given; memory has an overhead and is rounded up."""
        assert JobSize.of(request(spark=spark)) == size

    def test_submit_parameters_beat_the_configuration(self) -> None:
        """What spark-submit is given takes precedence over spark-defaults of the job."""
        properties = {"spark.driver.cores": "8", "spark.driver.memory": "40g"}
        other = {"classification": "spark-log4j2", "properties": {"spark.driver.cores": "16"}}
        defaults = {"classification": "spark-defaults", "properties": properties}
        asked = request(
            spark="--conf spark.driver.memory=20g",
            configurationOverrides={"applicationConfiguration": [defaults, other]},
        )
        assert JobSize.of(asked).driver == Resources(8, 24, 20)

    @pytest.mark.parametrize(
        ("spark", "words"),
        [
            (
                "--conf spark.dynamicAllocation.maxExecutors=2",
                (
                    "Maximum value of spark.dynamicAllocation.initialExecutors: 3 must be between"
                    " spark.dynamicAllocation.minExecutor 0 and"
                    " spark.dynamicAllocation.maxExecutors 2."
                ),
            ),
            ("--executor-cores 1 --executor-memory 30g", "1 vCPU and 33 GB of memory"),
            ("--driver-cores 64", "no driver worker with 64 vCPU"),
            ("--driver-memory much", "'much' is not a size"),
        ],
    )
    def test_workers_that_cannot_be_fail_the_job(
        self, movable: MovableClock, spark: str, words: str
    ) -> None:
        """A job whose workers do not exist fails before it runs, and says why."""
        emr = emr_of()
        job_run_id = start(emr, spark=spark)
        movable.sleep(3600)
        job = get(emr, job_run_id)
        assert words in job["stateDetails"]
        assert (job["state"], "startedAt" in job) == ("FAILED", False)


class TestCapacity:
    def test_driver_above_the_account_quota_fails(self, movable: MovableClock) -> None:
        """A default job uses all 16 vCPUs of a new account; the next one fails while it runs."""
        emr = emr_of()
        emr.takes("orders", "load", minutes=60)
        start(emr, "t1")
        movable.sleep(300)
        second = start(emr, "t2")
        movable.sleep(300)
        job = get(emr, second)
        assert (job["state"], job["stateDetails"]) == ("FAILED", NO_ACCOUNT_VCPUS)
        assert "startedAt" not in job
        assert states(emr) == {"RUNNING": 1, "FAILED": 1}

    def test_quota_is_free_again_when_a_job_is_over(self, movable: MovableClock) -> None:
        """One default job after another has all of the account."""
        emr = emr_of()
        for n in range(3):
            start(emr, f"t{n}")
            movable.sleep(300)
        assert states(emr) == {"SUCCESS": 3}

    @pytest.mark.parametrize(
        "limit", [Resources(6, 400, 400), Resources(400, 12, 400), Resources(400, 400, 60)]
    )
    def test_executors_get_what_drivers_leave(
        self, movable: MovableClock, limit: Resources
    ) -> None:
        """With room for three workers, by vCPU, memory or disk, two jobs share one executor."""
        emr = emr_of(maximum_capacity=limit)
        start_many(emr, 2, spark=SMALL)
        movable.sleep(150)
        assert states(emr) == {"RUNNING": 2}
        assert sorted(len(job.executors) for job in emr.live()) == [0, 1]
        movable.sleep(300)
        assert states(emr) == {"SUCCESS": 2}

    def test_job_short_of_executors_gets_those_that_are_freed(self, movable: MovableClock) -> None:
        """A driver that waits makes progress from its first executor on."""
        emr = emr_of(maximum_capacity=Resources(6, 100, 100))
        start_many(emr, 2, spark=SMALL)
        movable.sleep(900)
        first, second = sorted(emr.jobs, key=lambda job: job.timeline[-1].at)
        assert first.ended_at is not None
        assert second.executors == (first.ended_at,) * 2
        assert second.ended_at == first.ended_at.add(seconds=60)

    def test_drivers_that_fill_the_capacity_deadlock(self, movable: MovableClock) -> None:
        """Jobs whose drivers leave no room for an executor run for 20 minutes, and most fail."""
        emr = emr_of(maximum_capacity=Resources(8, 100, 100), account_vcpus=None)
        ids = start_many(emr, 4, spark=SMALL)
        movable.sleep(120 + 1_100)
        assert states(emr) == {"RUNNING": 4}
        movable.sleep(3_600)
        assert states(emr) == {"FAILED": 3, "SUCCESS": 1}
        failed = next(get(emr, i) for i in ids if get(emr, i)["state"] == "FAILED")
        assert "no executor being launched within 1200000ms" in failed["stateDetails"]
        assert (failed["endedAt"] - failed["startedAt"]).total_seconds() == 1_200
        assert failed["billedResourceUtilization"]["vCPUHour"] == pytest.approx(2 / 3)

    def test_job_that_starves_does_not_report(self, movable: MovableClock) -> None:
        """The planned end of a job without executors never comes, and nothing is put for it."""
        emr = emr_of(maximum_capacity=Resources(2, 100, 100), executor_wait_seconds=30)
        emr.next_outcome("orders", "load", Outcome.skipped())
        job_run_id = start(emr, spark=SMALL)
        movable.sleep(600)
        assert "within 30000ms" in get(emr, job_run_id)["stateDetails"]

    def test_timeout_ends_a_job_that_starves(self, movable: MovableClock) -> None:
        """A timeout below 20 minutes comes first."""
        emr = emr_of(maximum_capacity=Resources(2, 100, 100))
        start(emr, spark=SMALL, executionTimeoutMinutes=5)
        movable.sleep(3_600)
        assert states(emr) == {"CANCELLED": 1}
        assert seconds_of(emr, "CANCELLING") == seconds_of(emr, "RUNNING") + 300

    def test_driver_without_room_waits_in_the_queue(self, movable: MovableClock) -> None:
        """A job whose driver does not fit is QUEUED, and begins when another one ends."""
        emr = emr_of(maximum_capacity=Resources(4, 100, 100))
        first, second, third = start_many(emr, 3, spark=SMALL)
        assert get(emr, third)["state"] == "QUEUED"
        for job_run_id in (first, second):
            emr.call("CancelJobRun", {"applicationId": APPLICATION, "jobRunId": job_run_id})
        movable.sleep(3_600)
        assert states(emr) == {"CANCELLED": 2, "SUCCESS": 1}
        states_of_third = [change.state for change in emr.jobs[2].timeline]
        assert states_of_third[:4] == ["SUBMITTED", "QUEUED", "PENDING", "SCHEDULED"]

    def test_driver_without_room_or_queue_fails(self, movable: MovableClock) -> None:
        """An application without a queue lets such a job fail."""
        emr = emr_of(maximum_capacity=Resources(2, 100, 100), max_concurrent_runs=None)
        ids = start_many(emr, 2, spark=SMALL)
        movable.sleep(120)
        assert get(emr, ids[1])["stateDetails"] == NO_CAPACITY

    def test_driver_larger_than_the_capacity_fails(self, movable: MovableClock) -> None:
        """What no application of this size can have is not waited for."""
        emr = emr_of(maximum_capacity=Resources(2, 100, 100))
        job_run_id = start(emr)
        movable.sleep(120)
        assert get(emr, job_run_id)["stateDetails"] == NO_WORKER

    def test_jobs_above_the_concurrency_are_queued(self, movable: MovableClock) -> None:
        """Fifteen jobs run at once, the others begin one by one."""
        emr = emr_of(account_vcpus=None)
        start_many(emr, 20)
        assert states(emr) == {"SUBMITTED": 15, "QUEUED": 5}
        movable.sleep(600)
        assert states(emr) == {"SUCCESS": 20}

    def test_job_too_long_in_the_queue_fails(self, movable: MovableClock) -> None:
        """After the queue timeout a job fails that never began."""
        emr = emr_of(max_concurrent_runs=1, queue_timeout_minutes=15)
        emr.takes("orders", "load", minutes=60)
        ids = start_many(emr, 2)
        movable.sleep(15 * 60)
        job = get(emr, ids[1])
        assert job["state"] == "FAILED"
        assert "queue timeout of 15 minutes" in job["stateDetails"]
        assert job["queuedDurationMilliseconds"] == 15 * 60 * 1000

    def test_start_beyond_the_longest_queue_is_refused(self) -> None:
        """An account has only so many queued jobs."""
        emr = emr_of(max_concurrent_runs=1, max_queued_jobs=2)
        start_many(emr, 3)
        with pytest.raises(ClientError, match="2 queued jobs") as refused:
            start(emr, "late")
        assert code(refused) == "ServiceQuotaExceededException"

    def test_capacity_raised_lets_jobs_go_on(self, movable: MovableClock) -> None:
        """Executors that were missing are launched as soon as there is room for them."""
        emr = emr_of(account_vcpus=2)
        job_run_id = start(emr, spark=SMALL)
        movable.sleep(300)
        assert get(emr, job_run_id)["state"] == "RUNNING"
        emr.behaviour = replace(emr.behaviour, account_vcpus=16)
        movable.sleep(60)
        assert get(emr, job_run_id)["state"] == "SUCCESS"

    def test_workers_are_never_more_than_allowed(self, movable: MovableClock) -> None:
        """Through hours of jobs of all sizes, both limits hold, and in the end nothing is held."""
        limit = Resources(24, 90, 300)
        emr = emr_of(maximum_capacity=limit, account_vcpus=20, max_concurrent_runs=6)
        sizes = [SMALL, "", f"{SMALL} --conf spark.executor.cores=4", "--executor-memory 6g"]
        for n in range(120):
            start(emr, f"t{n}", spark=sizes[n % len(sizes)])
            movable.sleep(37)
            used = emr._jobs._capacity.used
            assert used.is_within(limit)
            assert used.vcpus <= 20
        movable.sleep(24 * 3600)
        assert emr.live() == []
        assert emr._jobs._capacity.used == Resources()


class TestBilling:
    def test_bill_comes_after_the_end(self, movable: MovableClock) -> None:
        """At the end of a job nothing is known yet; half a minute later it is."""
        emr = emr_of()
        job_run_id = start(emr)
        movable.sleep(600)
        ended_at = get(emr, job_run_id)["endedAt"]
        movable._at = as_utc(ended_at.add(seconds=29))
        early = get(emr, job_run_id)
        assert early["totalExecutionDurationSeconds"] == 60
        assert "billedResourceUtilization" not in early
        assert "totalResourceUtilization" not in early
        movable.sleep(1)
        assert get(emr, job_run_id)["billedResourceUtilization"] == {
            "vCPUHour": pytest.approx(16 / 60),
            "memoryGBHour": pytest.approx(64 / 60),
            "storageGBHour": 0.0,
        }

    def test_each_worker_is_billed_for_a_minute_at_least(self, movable: MovableClock) -> None:
        """A job of six seconds is billed for a minute, and for disk above 20 GB."""
        emr = emr_of()
        emr.takes("orders", "load", seconds=6)
        disk = "--conf spark.emr-serverless.executor.disk=50g"
        job_run_id = start(emr, spark=f"{SMALL} {disk}")
        movable.sleep(600)
        job = get(emr, job_run_id)
        total, billed = job["totalResourceUtilization"], job["billedResourceUtilization"]
        assert total["vCPUHour"] == pytest.approx(3 * 2 * 6 / 3600)
        assert total["storageGBHour"] == pytest.approx((20 + 2 * 50) * 6 / 3600)
        assert billed["vCPUHour"] == pytest.approx(3 * 2 / 60)
        assert billed["storageGBHour"] == pytest.approx(2 * 30 / 60)

    def test_final_utilization_is_an_event(self, movable: MovableClock) -> None:
        """When the bill is known, an event brings it, in the form of EventBridge."""
        emr = emr_of()
        job_run_id = start(emr)
        movable.sleep(600)
        events = [json.loads(text) for text in emr.take_events()]
        kinds = [event["detail-type"].rpartition("Run ")[2] for event in events]
        assert kinds == ["State Change", "State Change", UTILIZATION_TYPE]
        event, job = events[-1], get(emr, job_run_id)
        detail = event["detail"]
        assert event["resources"] == [job["arn"]]
        assert (detail["applicationId"], detail["jobRunId"]) == (APPLICATION, job_run_id)
        assert detail["resourceUtilizationFinal"] is True
        assert detail["totalBilledResourceUtilization"] == job["billedResourceUtilization"]
        assert detail["totalResourceUtilization"] == job["totalResourceUtilization"]
        assert parse_instant(detail["startedAt"]) == job["startedAt"]
        assert parse_instant(detail["calculatedTo"]) == job["endedAt"]

    def test_final_utilization_comes_when_it_is_known(self, movable: MovableClock) -> None:
        """The event does not come before the numbers can be read."""
        emr = emr_of(billing_delay_seconds=300)
        start(emr)
        movable.sleep(300)
        assert states(emr) == {"SUCCESS": 1}
        assert len(emr.take_events()) == 2
        due = emr.next_change()
        assert due == emr.jobs[0].timeline[-1].at.add(seconds=300)
        movable.move(to=due)
        assert len(emr.take_events()) == 1

    def test_utilization_of_a_job_that_never_ran_is_nothing(self, movable: MovableClock) -> None:
        """Its event has no beginning and no hours."""
        emr = emr_of(maximum_capacity=Resources(2, 100, 100))
        start(emr)
        movable.sleep(300)
        detail = json.loads(emr.take_events()[-1])["detail"]
        assert "startedAt" not in detail
        assert set(detail["totalBilledResourceUtilization"].values()) == {0.0}

    def test_utilization_event_gets_lost_like_others(self, movable: MovableClock) -> None:
        """EventBridge is best effort: the bill is known all the same."""
        emr = emr_of()
        emr.events = EventFaults(drop=1)
        job_run_id = start(emr)
        movable.sleep(600)
        assert emr.take_events() == []
        assert "billedResourceUtilization" in get(emr, job_run_id)

    def test_state_events_tell_no_names_tags_or_details(self, movable: MovableClock) -> None:
        """Whoever wants to know more than ids and states must ask."""
        emr = emr_of()
        start(emr, name="orders/load", tags={"dag": "orders"})
        movable.sleep(600)
        event = json.loads(emr.take_events()[0])
        assert event["resources"] == []
        assert set(event["detail"]) == {
            "jobRunId",
            "applicationId",
            "arn",
            "releaseLabel",
            "state",
            "previousState",
            "createdBy",
            "updatedAt",
            "createdAt",
        }


class TestApplication:
    def test_application_starts_with_a_job_and_stops_when_idle(self, movable: MovableClock) -> None:
        """Its states follow the jobs, without any call for them."""
        emr = emr_of()
        seen = [application(emr)["state"]]
        start(emr)
        seen.append(application(emr)["state"])
        movable.sleep(30)
        seen.append(application(emr)["state"])
        movable.sleep(300)
        ended_at = emr.jobs[0].timeline[-1].at
        for minutes, seconds in ((14, 59), (15, 0), (15, 30)):
            movable.move(to=ended_at.add(minutes=minutes, seconds=seconds))
            seen.append(application(emr)["state"])
        assert seen == ["CREATED", "STARTING", "STARTED", "STARTED", "STOPPING", "STOPPED"]

    def test_job_on_a_stopped_application_starts_later(self, movable: MovableClock) -> None:
        """A job that must wait for the application waits that much longer."""

        def wait(**changed: Any) -> float:
            movable._at = START
            emr = emr_of(start_seconds=(60, 60), **changed)
            start(emr)
            movable.sleep(600)
            return seconds_of(emr, "RUNNING")

        assert wait(idle_timeout_minutes=None) == 60
        assert wait(application_start_seconds=45) == 105

    def test_start_while_stopping_is_refused(self, movable: MovableClock) -> None:
        """Neither running nor stopped, the application takes no job; a little later it does."""
        emr = emr_of(stopping_seconds=60)
        start(emr)
        movable.sleep(600)
        movable.move(to=emr.jobs[0].timeline[-1].at.add(minutes=15, seconds=59))
        with pytest.raises(ClientError, match="its state is STOPPING") as refused:
            start(emr, "t2")
        assert code(refused) == "ValidationException"
        movable.sleep(1)
        start(emr, "t2")
        assert application(emr)["state"] == "STARTING"

    def test_application_tells_its_limits(self) -> None:
        """Capacity and queue are what was configured, in the words of the service."""
        found = application(emr_of(maximum_capacity=Resources(64, 256, 1_280)))
        assert found["maximumCapacity"] == {"cpu": "64 vCPU", "memory": "256 GB", "disk": "1280 GB"}
        limits = {"maxConcurrentRuns": 15, "queueTimeoutMinutes": 360}
        assert found["schedulerConfiguration"] == limits
        assert "maximumCapacity" not in application(FakeEmr())

    def test_dashboard_is_open_for_an_hour(self, movable: MovableClock) -> None:
        """A job that runs, or has run, has a page with a limited lifetime."""
        emr = emr_of()
        which = {"applicationId": APPLICATION, "jobRunId": start(emr)}
        with pytest.raises(ClientError, match="has no dashboard: its state is SUBMITTED"):
            emr.call("GetDashboardForJobRun", which)
        movable.sleep(600)
        url = urlsplit(emr.call("GetDashboardForJobRun", which)["url"])
        assert url.scheme == "https"
        assert parse_instant(parse_qs(url.query)["expires"][0]) == START.add(minutes=70)


class TestTokens:
    def test_token_older_than_its_lifetime_starts_another_job(self, movable: MovableClock) -> None:
        """A token is remembered for ten minutes from the start of its job."""
        emr = emr_of()
        first = start(emr)
        movable.sleep(599)
        assert start(emr) == first
        movable.sleep(1)
        assert start(emr) != first


class TestShapes:
    def test_answers_have_the_shapes_of_the_service(self, movable: MovableClock) -> None:
        """All answers, at every minute of all kinds of jobs, are what botocore's model promises."""
        emr = emr_of(maximum_capacity=Resources(8, 100, 100), max_concurrent_runs=4)
        asked = [request(f"t{n}", spark=spark) for n, spark in enumerate(["", SMALL, SMALL] * 3)]
        calls: list[tuple[str, dict[str, Any]]] = [("StartJobRun", each) for each in asked]
        seen: set[str] = set()
        for _ in range(120):
            calls += [("GetJobRun", {"jobRunId": job.job_run_id}) for job in emr.jobs]
            calls += [("ListJobRuns", {"maxResults": 3}), ("GetApplication", {})]
            ran = [job.job_run_id for job in emr.jobs if job.running_at]
            calls += [("GetDashboardForJobRun", {"jobRunId": job_run_id}) for job_run_id in ran]
            for operation, given in calls:
                answer = emr.call(operation, {"applicationId": APPLICATION, **given})
                shape = service_model().operation_model(operation).output_shape
                assert list(mistakes(shape, answer)) == []
            calls = []
            seen |= set(states(emr))
            movable.sleep(20)
        assert seen == {
            "SUBMITTED",
            "QUEUED",
            "PENDING",
            "SCHEDULED",
            "RUNNING",
            "SUCCESS",
            "FAILED",
        }


class TestBehaviour:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"rates": {"StartJobRun": Rate(0, 1)}}, "rate of StartJobRun"),
            ({"start_seconds": (9, 1)}, "give least and greatest"),
            ({"start_seconds": None}, "say which worker each job has"),
        ],
    )
    def test_behaviour_that_cannot_be_is_an_error(
        self, changed: dict[str, Any], message: str
    ) -> None:
        """Limits that no job could keep are refused when they are given."""
        with pytest.raises(RefusedError, match=message):
            replace(AWS, **changed)

    def test_limits_can_be_had_one_by_one(self, movable: MovableClock) -> None:
        """A fake whose jobs last a second may be as short of vCPUs as a new account."""
        emr = FakeEmr(behaviour=replace(INSTANT, account_vcpus=2))
        ids = start_many(emr, 2)
        movable.sleep(1)
        assert [get(emr, i)["state"] for i in ids] == ["SUCCESS", "FAILED"]
        assert get(emr, ids[1])["stateDetails"] == NO_ACCOUNT_VCPUS

    def test_state_put_back_goes_on_the_same_way(self, movable: MovableClock) -> None:
        """From one copy the same future comes twice: workers, queue, rates, application, events."""
        emr = FakeEmr(behaviour=replace(EmrBehaviour(), maximum_capacity=Resources(8, 90, 90)))
        start_many(emr, 3, spark=SMALL)
        movable.sleep(90)
        at, copied = movable.now(), emr.copy_state()

        def future() -> tuple[Any, ...]:
            emr.put_back(copied)
            movable._at = at
            start_many(emr, 20, spark=SMALL)
            movable.sleep(3_600)
            return emr.jobs, emr.take_events(), dict(emr.calls), emr._jobs._capacity.used

        assert future() == future()

    def test_day_of_many_jobs_ends_with_nothing_left(self, movable: MovableClock) -> None:
        """Jobs of 100 hourly DAGs go through the queue, and nothing is looked at that is over."""
        emr = emr_of(account_vcpus=None, max_concurrent_runs=20)
        for hour in range(24):
            movable.move(to=START.add(hours=hour))
            for n in range(100):
                start(emr, f"{hour}-{n}")
            emr.take_events()
        movable.sleep(3_600)
        assert states(emr) == {"SUCCESS": 2_400}
        assert emr.next_change() is not None  # events, which nobody has taken
        emr.take_events()
        assert emr.next_change() is None
        assert emr._jobs._changes == []
