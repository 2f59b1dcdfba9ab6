"""Names of jobs: within all limits, never the same twice, and readable again."""

import re
from itertools import combinations
from typing import Any

import pytest

from lamplighter.identifiers import OUTLET, run_id
from lamplighter.runs.job_request import JobName, SubmissionKey, report_uri
from lamplighter_local.emr.requests import mistakes, service_model
from lamplighter_local.emr.scripts import step_of
from tests.unit.runs.rows import MIDNIGHT, NOON, make_run, make_step

LONG = "~" * 200
BUCKET = "lake"
RUN_IDS = [
    "scheduled__2026-01-31T00:00:00+00:00",
    "scheduled__2026-01-31T00:00:00.000001+00:00",
    "asset_triggered__2026-01-31T00:00:00+00:00_0a1b2c3d",
    "my-run",
    LONG,
    run_id("scheduled", run_after=MIDNIGHT, logical_date=None, partition_key="eu/west/zürich"),
    run_id("scheduled", run_after=MIDNIGHT, logical_date=None, partition_key="a b%2F#?&+|~/.."),
    run_id("scheduled", run_after=MIDNIGHT, logical_date=None, partition_key="東京" * 20),
    run_id("scheduled", run_after=MIDNIGHT, logical_date=None, partition_key="../../jobs/x/y"),
]


def named(
    chosen: str = "my-run", dag_id: str = "orders", task: str = "load", **columns: Any
) -> JobName:
    """Return the name of a step's submission."""
    run = make_run(chosen, dag_id=dag_id)
    return JobName.of(run, make_step(run, task, **columns))


def start_request(name: JobName, chosen: str) -> dict[str, Any]:
    """Return a StartJobRun with all that a name decides."""
    arguments = [name.context_uri(BUCKET)]
    return {
        "applicationId": "00local",
        "executionRoleArn": "arn:aws:iam::123456789012:role/jobs",
        "clientToken": name.token,
        "name": name.name,
        "tags": name.tags(chosen),
        "jobDriver": {
            "sparkSubmit": {"entryPoint": "s3://x/y.py", "entryPointArguments": arguments}
        },
    }


@pytest.mark.parametrize("chosen", RUN_IDS)
@pytest.mark.parametrize("ids", [("orders", "load"), (LONG, LONG), ("~", "~"), ("a.b-c", "d_e")])
def test_names_of_any_step_suit_emr_serverless(chosen: str, ids: tuple[str, str]) -> None:
    """Token, name, tags and argument are within the limits of the service's own model."""
    name = named(chosen, *ids, submission=10**6)
    shape = service_model().operation_model("StartJobRun").input_shape

    assert list(mistakes(shape, start_request(name, chosen))) == []
    assert len(name.token) <= 64
    assert re.fullmatch(r"[0-9a-f]+", name.token)
    assert len(name.name) <= 256
    assert all(
        re.fullmatch(r"[A-Za-z0-9 /_.:=+@-]{1,256}", tag) for tag in name.tags(chosen).values()
    )


@pytest.mark.parametrize("chosen", RUN_IDS)
@pytest.mark.parametrize("ids", [("orders", "load"), (LONG, LONG), ("~", "..")])
def test_argument_of_a_job_says_whose_it_is(chosen: str, ids: tuple[str, str]) -> None:
    """The place that a job's only argument names is read back as it was, and fits its row."""
    name = named(chosen, *ids, submission=12)

    place = SubmissionKey.read(name.context_uri(BUCKET))

    assert place == SubmissionKey(ids[0], name.key.run_key, ids[1], 12, name.token[:12])
    assert place == name.key
    assert step_of(name.context_uri(BUCKET))[:3] == (ids[0], name.key.run_key, ids[1])


@pytest.mark.parametrize("chosen", [each for each in RUN_IDS if "東" not in each])
def test_folder_of_a_job_is_a_key_that_s3_takes(chosen: str) -> None:
    """The key is plain ASCII, within S3's length, and has no part that means a parent folder."""
    key = named(chosen, LONG, LONG).context_uri(BUCKET).removeprefix(f"s3://{BUCKET}/")

    assert len(key.encode()) <= 1024
    assert key.isascii()
    assert key.count("/") == 5
    assert ".." not in key.split("/")


def test_names_of_all_submissions_differ() -> None:
    """Another DAG, run, task or submission, or a run created anew, never has the same names."""
    run = make_run("a")
    born_later = make_run("a", created_at=NOON.add(seconds=1))
    names = [
        JobName.of(run, make_step(run)),
        JobName.of(born_later, make_step(born_later)),
        named("a", submission=2),
        named("b"),
        named("a", dag_id="orders2"),
        named("a", task="load2"),
    ]
    for one, other in combinations(names, 2):
        assert one.token != other.token
        assert one.name != other.name
        assert one.context_uri(BUCKET) != other.context_uri(BUCKET)
        assert one.event_id("fx") != other.event_id("fx")


def test_names_of_long_ids_differ_at_their_ends() -> None:
    """Where the name that people see is cut off, it still ends differently for each step."""
    one, other = named("a", LONG, LONG), named("a", LONG, LONG, submission=2)

    assert one.name != other.name
    assert one.name[:200] == other.name[:200]


def test_names_are_made_from_the_row_alone() -> None:
    """Whoever reads the same rows makes the same names, at any time."""
    assert named("a") == named("a")
    assert named("a", state="running", try_number=7, job_run_id="00x") == named("a")


def test_ids_that_meet_when_joined_have_different_names() -> None:
    """Parts that look the same when they are put together are still told apart."""
    run_a = make_run("b.c", dag_id="a")
    run_b = make_run("c", dag_id="a.b")
    assert JobName.of(run_a, make_step(run_a)).token != JobName.of(run_b, make_step(run_b)).token


def test_event_ids_of_outlets_differ_and_are_known() -> None:
    """Each outlet of a submission has an id of its own, which says what kind of event it is."""
    name = named()
    ids = {name.event_id(asset) for asset in ("a", "b", "a|b", "x" * 1_500, "zürich")}

    assert len(ids) == 5
    assert all(each.startswith(OUTLET) and len(each) <= 100 for each in ids)


def test_place_is_only_of_its_own_submission() -> None:
    """A later submission, or a run created anew, does not take an earlier job for its own."""
    name = named("a")
    place = SubmissionKey.read(name.context_uri(BUCKET))
    run = make_run("a", created_at=NOON.add(hours=1))

    assert place == name.key
    assert place != named("a", submission=2).key
    assert place != JobName.of(run, make_step(run)).key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "context.json",
        "s3://lake/jobs/a/b/c/1-0123456789ab/report.json",
        "s3://lake/jobs/a/b/c/1-0123456789ab/context.json/x",
        "s3://lake/jobs/a/b/c/x-0123456789ab/context.json",
        "s3://lake/jobs/a/b/c/1-0123456789AB/context.json",
        "s3://lake/jobs/a/b/1-0123456789ab/context.json",
        "s3://lake/other/a/b/c/1-0123456789ab/context.json",
        "s3:///jobs/a/b/c/1-0123456789ab/context.json",
        "file:///jobs/a/b/c/1-0123456789ab/context.json",
        "x s3://lake/jobs/a/b/c/1-0123456789ab/context.json",
        "s3://lake/jobs/a/b/c/1-0123456789ab/context.json\n",
    ],
)
def test_argument_of_a_foreign_job_is_nobodys(text: str) -> None:
    """A job whose argument is not a context of ours belongs to no step."""
    assert SubmissionKey.read(text) is None


def test_report_lies_beside_the_context() -> None:
    """A job leaves its report in the folder of its own submission."""
    uri = named().context_uri(BUCKET)
    assert report_uri(uri) == uri.replace("/context.json", "/report.json")


def test_tags_without_a_letter_that_aws_takes_are_still_tags() -> None:
    """Letters that a tag may not hold become underscores."""
    tags = named("a", "~", "~").tags("東京~")

    assert tags == {
        "lamplighter:dag_id": "_",
        "lamplighter:run_id": "___",
        "lamplighter:task_id": "_",
        "lamplighter:submission": "1",
    }
