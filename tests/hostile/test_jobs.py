"""Jobs that reach for what belongs to others: what AWS lets them do, and what is believed of them.

A job is attacked with the widest role there is, so that only its own policy stands in its way.
"""

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from lamplighter import DAG, Asset, SparkTask, aws, runtime
from lamplighter.errors import DefinitionError
from lamplighter.executors.base import JobData, JobRequest
from lamplighter.executors.emr import EmrServerless
from lamplighter.executors.emr_policy import MAX_LENGTH, job_policy
from lamplighter.identifiers import MAX_ID_LENGTH
from lamplighter.runs.job_request import JobName, report_uri
from lamplighter.settings import Settings
from lamplighter.store.models import Steps
from lamplighter_local.emr.fake_emr import FakeEmr, FakeJob, Outcome
from lamplighter_local.stack import LocalStack
from lamplighter_operations.trigger import create_manual_run
from tests.integration.functions.job_messages import (
    DAG_ID,
    JOB,
    messages_on,
    of_job,
    of_run,
    one_task,
    queue_run,
    settle,
    states,
    step,
    submit,
    wait,
)
from tests.tools.definitions import register_dags
from tests.tools.iam import allows
from tests.tools.logs import logged
from tests.tools.reports import put_report, secret_of
from tests.unit.runs.rows import make_run, make_step

READ, WRITE = "s3:GetObject", "s3:PutObject"
A = Asset("a", "s3://lake/a")


def arn(uri: str) -> str:
    """Return the ARN of an object."""
    return uri.replace("s3://", "arn:aws:s3:::")


def policy_of(job: FakeJob) -> str:
    """Return the policy that a job was started with."""
    return str(job.request["executionIamPolicy"]["policy"])


def may(job: FakeJob, action: str, uri: str, **context: str) -> bool:
    """Return whether a job may do this with an object."""
    return allows(policy_of(job), action, arn(uri), **context)


def started(emr: FakeEmr, *dag_ids: str, **task: Any) -> list[FakeJob]:
    """Start a job of each of some DAGs, which are of bundles of their own."""
    for dag_id in dag_ids:
        register_dags(one_task(dag_id, **task), bundle=f"of-{dag_id}")
        create_manual_run(dag_id, logical_date=None, run_id="first")
        assert submit(of_run(dag_id)) == []
    return [next(job for job in emr.jobs if job.dag == dag_id) for dag_id in dag_ids]


# What AWS lets a job do.


def test_job_has_its_own_files_and_everything_outside_the_bucket(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A job reads its bundle, context and runtime, writes its report and logs, and uses data."""
    (job,) = started(emr, "a")
    bucket = f"s3://{executing.settings.bucket}"
    (archive,) = (
        each.removeprefix("spark.archives=").partition("#")[0]
        for each in job.request["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"].split()
        if each.startswith("spark.archives=")
    )
    assert archive.startswith(f"{bucket}/bundles/of-a/")
    for uri in (archive, job.context_uri, job.request["jobDriver"]["sparkSubmit"]["entryPoint"]):
        assert may(job, READ, uri)
        assert not may(job, WRITE, uri)
    assert may(job, WRITE, report_uri(job.context_uri))
    assert may(job, "s3:DeleteObject", "s3://lake/orders/part-0")
    key = arn("s3://x").replace("s3:::x", "kms:us-east-1:1:key/k")
    assert allows(policy_of(job), "kms:Decrypt", key)
    assert allows(policy_of(job), "logs:PutLogEvents", "arn:aws:logs:us-east-1:1:log-group:x:y")


def test_job_can_neither_read_nor_write_what_is_anothers(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """Context, report and bundle of another DAG are out of reach, and so are pushes and logs."""
    one, other = started(emr, "a", "a2")
    bucket = f"s3://{executing.settings.bucket}"
    for action in (READ, WRITE, "s3:DeleteObject", "s3:PutObjectTagging", "s3:GetObjectVersion"):
        for uri in (
            other.context_uri,
            report_uri(other.context_uri),
            f"{bucket}/bundles/of-a2/{'1' * 64}.zip",
            f"{bucket}/bundles/of-a/{'1' * 64}.zip",
            f"{bucket}/pushes/of-a2/00000001.json",
            f"{bucket}/results/x.json",
        ):
            assert not may(one, action, uri), (action, uri)
    assert not may(one, READ, f"{bucket}/logs/applications/00local/jobs/other/stderr.gz")
    for action in ("s3:PutBucketPolicy", "s3:ListBucketVersions", "s3:DeleteBucket"):
        assert not may(one, action, bucket)


def test_job_lists_only_the_folders_that_it_reads(executing: LocalStack, emr: FakeEmr) -> None:
    """Hadoop asks for folders on the way to a file; what other DAGs have is not told."""
    one, other = started(emr, "a", "a2")
    bucket = f"s3://{executing.settings.bucket}"
    folder = one.context_uri.removeprefix(f"{bucket}/").removesuffix("context.json")
    for prefix in (folder, f"{folder}report.json/", "jobs/a/"):
        assert may(one, "s3:ListBucket", bucket, s3_prefix=prefix)
    others = other.context_uri.removeprefix(f"{bucket}/")
    for prefix in ("", "jobs/", "jobs/a2/", others, "bundles/", "bundles/of-a2/", "pushes/"):
        assert not may(one, "s3:ListBucket", bucket, s3_prefix=prefix)
    assert not may(one, "s3:ListBucket", bucket)


def test_job_has_nothing_of_another_submission_of_its_step(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A job that lives on after its step was tried again cannot answer for the new one."""
    emr.next_outcome(DAG_ID, "t", Outcome.failed("x"))
    queue_run(one_task(retries=1, retry_delay=1))
    submit(of_run())
    wait(executing, seconds=2)
    settle(of_job())
    wait(executing, seconds=2)
    submit(of_run())
    first, second = emr.jobs
    for one, other in ((first, second), (second, first)):
        assert may(one, WRITE, report_uri(one.context_uri))
        assert not may(one, WRITE, report_uri(other.context_uri))
        assert not may(one, READ, other.context_uri)


LONGEST = Settings(
    bucket="b" * 63,
    emr_application_id="0" * 16,
    emr_job_role_arn="arn:aws-us-gov:iam::123456789012:role/jobs",
    runtime=f"runtime/{'0' * 16}",
    job_logs_uri=f"s3://{'b' * 63}/logs",
)


def longest_request(**changes: Any) -> JobRequest:
    """Return the request with the longest names that there can be."""
    name = "x" * MAX_ID_LENGTH
    run = make_run(f"manual__{'é' * 90}", dag_id=name, bundle=name)
    job = JobName.of(run, make_step(run, name, submission=10**9))
    uri = f"s3://{LONGEST.bucket}/bundles/{name}/{'2' * 64}.zip"
    return JobRequest("", "", "", uri, bundle=name, folder=job.folder, **changes)


def test_policy_with_the_longest_names_is_accepted() -> None:
    """Whatever DAG, run, partition, task and bundle are called, AWS takes the policy."""
    with runtime.using(settings=LONGEST):
        policy = job_policy(longest_request())
    assert len(policy) <= MAX_LENGTH
    folder = f"arn:aws-us-gov:s3:::{LONGEST.bucket}/jobs/{'x' * MAX_ID_LENGTH}"
    assert not allows(policy, WRITE, f"{folder}/run/task/1-000000000000/report.json")


@pytest.mark.parametrize("key", ["*", "a*", "?", "${aws:username}", "../../x", "*/*/1-*"])
def test_run_whose_key_is_a_pattern_gets_no_more_than_others(key: str) -> None:
    """No text that somebody chooses becomes a wildcard or a variable of a policy."""
    runs = [make_run(f"manual__{key}", dag_id="a"), make_run("manual__b", dag_id="a")]
    one, other = (JobName.of(run, make_step(run)) for run in runs)
    uri = one.context_uri(LONGEST.bucket)
    bundle_uri = f"s3://{LONGEST.bucket}/bundles/b/{'2' * 64}.zip"
    request = JobRequest("", "", uri, bundle_uri, folder=one.folder)
    with runtime.using(settings=replace(LONGEST, emr_job_role_arn="")):
        policy = job_policy(request)
        for name, is_own in ((one, True), (other, False)):
            report = arn(report_uri(name.context_uri(LONGEST.bucket)))
            assert allows(policy, WRITE, report) == is_own
            assert not allows(policy, WRITE, report.replace("/jobs/a/", "/jobs/a2/"))


# Data.

LAKE = (Asset("in", "s3://lake/in"), Asset("out", "s3a://lake/out"))
RESTRICTED: dict[str, Any] = {"restrict_data": True, "inlets": LAKE[:1], "outlets": LAKE[1:]}


def test_restricted_job_has_its_inlets_and_outlets_only(emr: FakeEmr) -> None:
    """With `restrict_data`, a job reads what it declares and writes its outlets."""
    (job,) = started(emr, "a", **RESTRICTED)
    assert may(job, READ, "s3://lake/in/day=1/x.parquet")
    assert may(job, READ, "s3://lake/out/x.parquet")
    assert may(job, WRITE, "s3://lake/out/_temporary/0")
    assert may(job, "s3:DeleteObject", "s3://lake/out/x.parquet")
    assert may(job, "s3:ListBucket", "s3://lake", s3_prefix="in/")
    assert may(job, READ, job.context_uri)
    assert may(job, WRITE, report_uri(job.context_uri))
    assert not may(job, WRITE, "s3://lake/in/x.parquet")
    for action in (READ, WRITE, "s3:DeleteObject", "s3:PutObjectAcl"):
        for uri in ("s3://lake/other/x", "s3://lake/outer/x", "s3://elsewhere/out/x"):
            assert not may(job, action, uri)
    assert not may(job, "s3:ListBucket", "s3://elsewhere")
    through = "arn:aws:s3:us-east-1:1:accesspoint/x/object/y"
    assert not allows(policy_of(job), READ, through)
    assert allows(policy_of(job), "glue:GetTable", "arn:aws:glue:us-east-1:1:table/x/y")


@pytest.mark.parametrize("place", ["jobs", "jobs/a2", "bundles", ""])
def test_outlet_in_the_bucket_of_the_deployment_gives_nothing(
    executing: LocalStack, emr: FakeEmr, place: str
) -> None:
    """Who declares other jobs' files as data does not get them."""
    own = Asset("own", f"s3://{executing.settings.bucket}/{place}")
    one, other = started(emr, "a", "a2", restrict_data=True, outlets=[own, A])
    assert not may(one, WRITE, report_uri(other.context_uri))
    assert not may(one, READ, other.context_uri)
    assert may(one, WRITE, "s3://lake/a/x")


@pytest.mark.parametrize("uri", ["s3://*/jobs", "s3://l?ke/a", "s3://${x}/y", "s3://Lake*/a"])
def test_bucket_that_is_a_pattern_is_none(uri: str) -> None:
    """No outlet is a wildcard for buckets."""
    with (
        runtime.using(settings=LONGEST),
        pytest.raises(DefinitionError, match="nothing left for the job"),
    ):
        job_policy(longest_request(data=JobData(outlets=(uri,))))


def test_key_with_wildcards_is_meant_as_it_stands() -> None:
    """A star in the URI of an outlet is a star."""
    with runtime.using(settings=replace(LONGEST, emr_job_role_arn="")):
        policy = job_policy(longest_request(data=JobData(outlets=("s3://lake/a*/${b}?",))))
    assert allows(policy, WRITE, "arn:aws:s3:::lake/a*/${b}?/x")
    assert not allows(policy, WRITE, "arn:aws:s3:::lake/aa/${b}?/x")


def test_data_that_a_policy_cannot_hold_is_an_error_of_the_task() -> None:
    """A policy is never widened so that it fits: the push says what to do."""
    many = [Asset(f"a{number}", f"s3://lake/{number:03}/{'x' * 50}") for number in range(40)]
    with DAG("a"):
        task = SparkTask("t", job=JOB, restrict_data=True, outlets=many)
    with runtime.using(settings=LONGEST):
        (problem,) = EmrServerless().check(task)
    assert "EMR Serverless takes 2,048: declare fewer of them" in problem


def test_data_in_the_bucket_of_the_deployment_alone_is_an_error_of_the_task() -> None:
    """A job that could use no data at all is refused when it is pushed."""
    with DAG("a"):
        own = Asset("own", f"s3://{LONGEST.bucket}/data")
        task = SparkTask("t", job=JOB, restrict_data=True, outlets=[own])
    with runtime.using(settings=LONGEST):
        (problem,) = EmrServerless().check(task)
    assert "nothing left for the job to read or write" in problem


@pytest.mark.parametrize("outlets", [[], [Asset("a")], [Asset("a", "file:///tmp/a")]])
def test_restriction_without_data_in_s3_is_refused(outlets: list[Asset]) -> None:
    """Who restricts a job to nothing is told so by `check`."""
    with DAG("a"), pytest.raises(DefinitionError, match="restrict_data: no inlet or outlet"):
        SparkTask("t", job=JOB, restrict_data=True, outlets=outlets)


@pytest.mark.parametrize(
    "policy",
    [
        "",
        "no JSON",
        "[]",
        '{"Version": "2012-10-17"}',
        '{"Statement": []}',
        f'"{"x" * MAX_LENGTH}"',
    ],
)
def test_policy_that_is_none_is_refused_by_the_fake(emr: FakeEmr, policy: str) -> None:
    """What AWS would not start does not start here either."""
    client = aws.client("emr-serverless")
    with pytest.raises(client.exceptions.ValidationException):
        client.start_job_run(
            applicationId="00local",
            clientToken="own",
            executionRoleArn="arn:aws:iam::123456789012:role/jobs",
            jobDriver={"sparkSubmit": {"entryPoint": "s3://lake/x.py"}},
            executionIamPolicy={"policy": policy},
        )
    assert emr.jobs == []


# Roles.


def test_job_of_a_bundle_with_a_role_of_its_own_has_that(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """The deployment names roles by bundle; all others have the common one."""
    own = "arn:aws:iam::123456789012:role/a-jobs"
    with runtime.using(settings=replace(executing.settings, bundle_roles={"of-a": own})):
        one, other = started(emr, "a", "a2")
    assert one.request["executionRoleArn"] == own
    assert other.request["executionRoleArn"] == executing.settings.emr_job_role_arn


# What is believed of a job.

FORGED = {"state": "skipped", "reason": "nothing to do", "outlets": {"a": {"rows": 0}}}


def forge(job: FakeJob, secret: str | None) -> None:
    """Put a report in the place of a job's own, with a secret or without."""
    said = FORGED if secret is None else {**FORGED, "secret": secret}
    put_report(job.context_uri, json.dumps(said).encode())


@pytest.mark.parametrize("whose", ["nobody", "another job", "the step's former job", "empty"])
def test_report_that_another_has_written_is_refused(
    executing: LocalStack, emr: FakeEmr, whose: str
) -> None:
    """A step believes only who knows the secret of its submission; its note says so."""
    emr.next_outcome("a", "t", Outcome.failed("x"))
    (former,) = started(emr, "a", outlets=[A], retries=1, retry_delay=1)
    wait(executing, seconds=2)
    settle(of_job())
    wait(executing, seconds=2)
    submit(of_run("a"))
    (other,) = started(emr, "a2")
    own = next(job for job in emr.jobs if (job.dag, job.submission) == ("a", 2))
    secrets = {
        "nobody": None,
        "another job": secret_of(other.context_uri),
        "the step's former job": secret_of(former.context_uri),
        "empty": "",
    }
    forge(own, secrets[whose])
    wait(executing, seconds=2)
    with logged() as records:
        assert settle(of_job(own.job_run_id)) == []
    assert states(executing, "a") == ["success", "success"]
    assert "was refused" in (step(dag_id="a").error or "")
    assert ["report is refused" in each.getMessage() for each in records] == [True]
    (event,) = messages_on("events")
    assert event["extra"] == {}


def test_repeated_start_has_the_secret_of_the_first(executing: LocalStack, emr: FakeEmr) -> None:
    """Whoever starts the same submission again writes the same context, so its report counts."""
    emr.next_outcome(DAG_ID, "t", Outcome.skipped("no files"))
    queue_run(one_task())
    submit(of_run())
    (job,) = emr.jobs
    before = secret_of(job.context_uri)
    Steps("dag|~first", "t").update([Steps.job_run_id.remove()])
    submit(of_run())
    assert secret_of(job.context_uri) == before == step().report_secret
    wait(executing, seconds=2)
    settle(of_job())
    assert (states(executing), len(emr.jobs)) == (["success", "skipped"], 1)


def test_every_submission_has_a_secret_of_its_own(executing: LocalStack, emr: FakeEmr) -> None:
    """What a job has learnt is worth nothing later, and nothing elsewhere."""
    emr.fail_next(DAG_ID, "t", times=3)
    queue_run(one_task(retries=2, retry_delay=1))
    for _ in range(3):
        submit(of_run())
        wait(executing, seconds=2)
        settle(of_job(emr.jobs[-1].job_run_id))
        wait(executing, seconds=2)
    secrets = {secret_of(job.context_uri) for job in emr.jobs}
    assert len(secrets) == 3
    assert min(map(len, secrets)) >= 40


def test_secret_is_not_where_people_look(
    executing: LocalStack,
    emr: FakeEmr,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither logs and metrics nor requests to EMR Serverless tell it."""
    with logged(logging.DEBUG) as records:
        (job,) = started(emr, "a")
        secret = secret_of(job.context_uri)
        wait(executing, seconds=2)
        settle(of_job())
    told = [
        *(repr(vars(each)) for each in records),
        *capsys.readouterr(),
        repr(job.request),
        repr(step(dag_id="a")),
    ]
    assert all(secret not in text for text in told)
    listed = aws.client("emr-serverless").get_job_run(
        applicationId="00local", jobRunId=job.job_run_id
    )
    assert secret not in repr(listed)
