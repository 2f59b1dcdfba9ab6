"""What a job is started with: its context, its settings, and what EMR Serverless is sent."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lamplighter import Asset, AssetAlias, runtime
from lamplighter.errors import DefinitionError, RefusedError, ThrottledError, TransientError
from lamplighter.executors.base import JobState, Submission
from lamplighter.executors.emr import EmrServerless
from lamplighter.runs.job_request import JobName, PreparedJob, prepare
from lamplighter.settings import Settings
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.movable_clock import MovableClock
from tests.unit.runs.rows import NOON, SECRET, make_dag, make_run, make_step, make_undated_run

pytestmark = pytest.mark.usefixtures("in_name_only")

NASTY = [
    "two words",
    "it's",
    'say "hi"',
    "--conf spark.x=y",
    "a\nb\r\n",
    "$(rm -rf /) `x` ; | & > <",
    "",
    " ",
    "\\",
    "ünïcödé 東京",
    "{not a template}",
]


VARIABLES = {"data_root": "s3://lake/data"}


def prepared(dag_params: Any = None, *, run: Any = None, **options: Any) -> PreparedJob:
    """Return what a task with these options is started with."""
    run = run or make_run()
    dag = make_dag(load=options)
    dag.params = dag_params or {}
    return prepare(run, make_step(run, submission=3, try_number=2), dag, variables=VARIABLES)


def context_of(job: PreparedJob) -> dict[str, Any]:
    """Return the document that the job reads."""
    document: dict[str, Any] = json.loads(job.context)
    return document


def arguments(*texts: str, **more: Any) -> list[str]:
    """Return what arguments become."""
    found: list[str] = context_of(prepared(arguments=list(texts), **more))["arguments"]
    return found


# The context.


def test_context_of_a_dated_run_says_everything() -> None:
    """A job learns all about its run, its task and the deployment, in words of JSON."""
    run = make_run(conf={"x": 2})
    orders, fx, found = Asset("orders", "s3://lake/orders"), Asset("fx"), AssetAlias("found")

    job = prepared({"x": 1, "y": [1]}, run=run, inlets=[fx], outlets=[orders, found])

    assert context_of(job) == {
        "version": 1,
        "dag_id": "orders",
        "run_id": "scheduled__2026-01-31T00:00:00+00:00",
        "run_type": "scheduled",
        "task_id": "load",
        "try_number": 2,
        "submission": 3,
        "logical_date": "2026-01-31T00:00:00+00:00",
        "data_interval_start": "2026-01-31T00:00:00+00:00",
        "data_interval_end": "2026-02-01T00:00:00+00:00",
        "run_after": "2026-02-01T00:00:00+00:00",
        "partition_key": None,
        "params": {"x": 2, "y": [1]},
        "conf": {"x": 2},
        "variables": VARIABLES,
        "inputs": {},
        "triggering_asset_events": {},
        "inlets": [_described(fx)],
        "outlets": [_described(orders), {"kind": "alias", "name": "found"}],
        "job": "jobs:run",
        "entry_point": None,
        "arguments": [],
        "report_secret": SECRET,
    }


def _described(asset: Asset) -> dict[str, Any]:
    return {"kind": "asset", "name": asset.name, "uri": asset.uri}


def test_context_of_an_undated_run_has_no_dates() -> None:
    """Dates that a run does not have are null, and never an empty text."""
    found = context_of(prepared(run=make_undated_run(partition_key="eu/west")))

    assert found["logical_date"] is None
    assert found["data_interval_start"] is None
    assert found["data_interval_end"] is None
    assert found["run_after"] == "2026-02-01T12:00:00+00:00"
    assert found["partition_key"] == "eu/west"
    assert found["run_type"] == "manual"


# Templates in it.

NAMES = [
    ("{{ ds }}", "2026-01-31"),
    ("{{ next_ds }}", "2026-02-01"),
    ("{{ data_interval_end }}", "2026-02-01T00:00:00+00:00"),
    ("{{ run_id }}", "scheduled__2026-01-31T00:00:00+00:00"),
    ("{{ dag.dag_id }}/{{ task.task_id }}", "orders/load"),
    ("{{ ti.task_id }} {{ ti.try_number }}", "load 2"),
    ("{{ task_instance.run_id }}", "scheduled__2026-01-31T00:00:00+00:00"),
    ("{{ params.x }} {{ params.y }}", "2 1"),
    ("{{ conf.x }} {{ dag_run.conf.x }}", "2 2"),
    ("{{ dag_run.conf['x'] }}", "2"),
    ("{{ dag_run.run_type }} {{ dag_run.dag_id }}", "scheduled orders"),
    ("{{ dag_run.logical_date | ds }}", "2026-01-31"),
    ("{{ dag_run.data_interval_start }}", "2026-01-31T00:00:00+00:00"),
    ("{{ dag_run.run_after }}", "2026-02-01T00:00:00+00:00"),
    ("{{ var.value.data_root }}/x", "s3://lake/data/x"),
    ("{{ var.value['data_root'] }}", "s3://lake/data"),
    ("{{ macros.ds_add(ds, 1) }}", "2026-02-01"),
    ("{{ inlets[0].name }} {{ outlets | length }}", "fx 0"),
    ("{{ triggering_asset_events | length }}", "0"),
    ("{{ partition_key }}", "None"),
]


@pytest.mark.parametrize(("text", "expected"), NAMES)
def test_name_in_an_argument_has_its_value(text: str, expected: str) -> None:
    """Every name that Airflow's templates know, and we do, means the same here."""
    run = make_run(conf={"x": 2})
    job = prepared({"x": 1, "y": 1}, run=run, arguments=[text], inlets=[Asset("fx")])

    assert context_of(job)["arguments"] == [expected]


def test_argument_with_a_date_in_an_undated_run_is_refused() -> None:
    """The error names the task, the argument, and why there is no date."""
    with pytest.raises(
        DefinitionError,
        match=r"task 'load': arguments: '\{\{ ds \}\}': 'ds' has no value.* no logical date",
    ):
        prepared(run=make_undated_run(), arguments=["{{ ds }}"])


def test_undated_run_knows_when_it_was_wanted() -> None:
    """What the error recommends works in a run without a date."""
    job = prepared(run=make_undated_run(), arguments=["{{ dag_run.run_after | ds }}"])
    assert context_of(job)["arguments"] == ["2026-02-01"]


@pytest.mark.parametrize(
    "text", ["{{ var.value.nope }}", "{{ var.json.x }}", "{{ dag_run.nope }}", "{{ dag.tasks }}"]
)
def test_argument_with_an_unknown_name_is_refused(text: str) -> None:
    """What a deployment or a run does not have is an error, not an empty text."""
    with pytest.raises(DefinitionError, match="task 'load': arguments: "):
        prepared(arguments=[text])


def test_spark_conf_is_filled_in_and_its_errors_named() -> None:
    """Values of Spark's settings are templates, too, and an error says which one it was."""
    job = prepared(spark_conf={"spark.app.day": "{{ ds }}", "spark.x": "{}"})
    assert job.request.spark_conf == {"spark.app.day": "2026-01-31", "spark.x": "{}"}

    with pytest.raises(DefinitionError, match=r"task 'load': spark_conf: spark\.y: "):
        prepared(spark_conf={"spark.y": "{{ nope }}"})


def test_outputs_of_steps_are_in_the_context_and_in_templates() -> None:
    """A job finds what other steps left, and its arguments and settings can have it."""
    run = make_run()
    options = {"arguments": ["{{ outputs.fetch.rows }}"], "inputs": ["fetch", "check"]}
    conf = {"spark.x": "{{ outputs['fetch']['files'] | join(',') }}"}
    left: dict[str, dict[str, Any]] = {"fetch": {"rows": 3, "files": ["a", "b"]}, "check": {}}
    dag = make_dag(load={**options, "spark_conf": conf})
    job = prepare(run, make_step(run), dag, variables={}, outputs=left)
    assert context_of(job)["inputs"] == left
    assert context_of(job)["arguments"] == ["3"]
    assert job.request.spark_conf == {"spark.x": "a,b"}


def test_output_that_is_missing_is_an_error_of_the_step() -> None:
    """The error names the template; the job is not started with an empty text."""
    run, dag = make_run(), make_dag(load={"arguments": ["{{ outputs.fetch.rows }}"]})
    with pytest.raises(DefinitionError, match=r"outputs\.fetch\.rows.* no attribute 'rows'"):
        prepare(run, make_step(run), dag, variables={}, outputs={"fetch": {}})


def test_arguments_stay_apart_and_as_they_are() -> None:
    """Nothing that an author puts into an argument joins it with another, or changes it."""
    assert arguments(*NASTY) == NASTY


def test_value_from_conf_stays_one_argument() -> None:
    """What a person gives when starting a run cannot become a second argument, or a template."""
    run = make_run(conf={"x": "a --conf b='{{ var.value.data_root }}'\n"})
    job = prepared(run=run, arguments=["{{ dag_run.conf.x }}", "end"])
    assert context_of(job)["arguments"] == ["a --conf b='{{ var.value.data_root }}'\n", "end"]


# The request.


def test_request_names_bundle_context_and_token() -> None:
    """The request has the names of the step's submission, and the bundle of the run's version."""
    run = make_run()
    name = JobName.of(run, make_step(run, submission=3))

    request = prepared().request

    assert (request.token, request.name) == (name.token, name.name)
    assert request.context_uri == name.context_uri("lake")
    assert request.bundle_uri.startswith("s3://lake/")
    assert "2" * 64 in request.bundle_uri
    assert request.tags["lamplighter:submission"] == "3"


def test_sizes_of_a_task_are_handed_to_its_executor() -> None:
    """What an author says about size is passed on under the option's name; the rest is left out."""
    sizes = {"driver_cores": 2, "driver_memory": "4g", "executor_cores": 3, "max_executors": 7}

    assert prepared(**sizes, executor_memory="8g").request.sizes == {
        "driver_cores": "2",
        "driver_memory": "4g",
        "executor_cores": "3",
        "executor_memory": "8g",
        "max_executors": "7",
    }
    assert prepared().request.sizes == {}


# What EMR Serverless gets.


@pytest.fixture
def emr() -> Any:
    """Yield a fake EMR Serverless that checks requests against the service's own model."""
    fake = FakeEmr()
    with runtime.using(clock=MovableClock(NOON), new_clients=True), fake.answering():
        yield fake


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients be made that nobody but the fake answers."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


def sent(emr: FakeEmr, **options: Any) -> dict[str, Any]:
    """Return what EMR Serverless is sent for a task."""
    EmrServerless().start(prepared(**options).request)
    return dict(emr.jobs[-1].request)


def submitted(request: dict[str, Any]) -> dict[str, Any]:
    """Return the part that `spark-submit` gets."""
    found: dict[str, Any] = request["jobDriver"]["sparkSubmit"]
    return found


def test_job_on_emr_has_one_argument(emr: FakeEmr) -> None:
    """The only argument is where the context lies, whatever the task's own arguments are."""
    request = sent(emr, arguments=NASTY)
    run = make_run()
    uri = JobName.of(run, make_step(run, submission=3)).context_uri("lake")

    assert submitted(request)["entryPointArguments"] == [uri]
    assert submitted(request)["entryPoint"] == "s3://lake/runtime/run_step.py"
    assert not any(text in json.dumps(request) for text in ("rm -rf", "two words", "say"))


def test_job_on_emr_carries_bundle_runner_and_import_path(emr: FakeEmr) -> None:
    """Every job takes along its bundle and the runner's library, and what the author adds."""
    request = sent(emr, py_files=["s3://x/a.zip"], archives=["s3://x/env.tar.gz#env"])
    options = submitted(request)["sparkSubmitParameters"]

    assert "#lamplighter_bundle,s3://x/env.tar.gz#env" in options
    assert "spark.submit.pyFiles=s3://lake/runtime/lamplighter_job.zip,s3://x/a.zip" in options
    path = "lamplighter_bundle:lamplighter_bundle/jobs:lamplighter_bundle/lib"
    assert f"spark.executorEnv.PYTHONPATH={path}" in options


def test_sizes_are_on_the_command_line_of_spark(emr: FakeEmr) -> None:
    """Sizes have a form that was checked when the DAG was defined; they may go there."""
    sizes = {"driver_cores": 2, "driver_memory": "4g", "executor_cores": 3, "max_executors": 7}
    options = submitted(sent(emr, **sizes, executor_memory="8g"))["sparkSubmitParameters"]

    assert "--conf spark.driver.cores=2" in options
    assert "--conf spark.driver.memory=4g" in options
    assert "--conf spark.executor.cores=3" in options
    assert "--conf spark.executor.memory=8g" in options
    assert "--conf spark.dynamicAllocation.maxExecutors=7" in options


@pytest.mark.parametrize("value", [each for each in NASTY if each.strip() and "\n" not in each])
def test_spark_conf_is_never_on_the_command_line(emr: FakeEmr, value: str) -> None:
    """What an author writes into Spark's settings goes as a mapping, and stays one value."""
    request = sent(emr, spark_conf={"spark.app.text": value})

    assert "spark.app.text" not in submitted(request)["sparkSubmitParameters"]
    defaults = request["configurationOverrides"]["applicationConfiguration"]
    assert defaults == [
        {"classification": "spark-defaults", "properties": {"spark.app.text": value}}
    ]


@pytest.mark.parametrize("value", ["", " "])
def test_spark_conf_that_becomes_blank_is_refused_by_emr(emr: FakeEmr, value: str) -> None:
    """EMR Serverless takes no blank values; the refusal names the setting."""
    params = {"text": value}
    with pytest.raises(RefusedError, match=r"refuses the job: .*spark\.app\.text"):
        sent(emr, dag_params=params, spark_conf={"spark.app.text": "{{ params.text }}"})
    assert emr.jobs == []


def test_job_without_settings_has_no_overrides(emr: FakeEmr) -> None:
    """Nothing is sent that nobody asked for."""
    request = sent(emr)

    assert "configurationOverrides" not in request
    assert "executionTimeoutMinutes" not in request


@pytest.mark.parametrize(
    ("timeout", "minutes"),
    [
        (timedelta(seconds=1), 5),
        (timedelta(minutes=5), 5),
        (timedelta(minutes=5, seconds=1), 6),
        (timedelta(hours=1), 60),
        (timedelta(days=30), 43_200),
    ],
)
def test_timeout_is_rounded_up_to_what_emr_takes(
    emr: FakeEmr, timeout: timedelta, minutes: int
) -> None:
    """EMR counts minutes, and at least five; it never ends a job before its time."""
    assert sent(emr, execution_timeout=timeout)["executionTimeoutMinutes"] == minutes


def test_logs_go_where_the_deployment_says(emr: FakeEmr, in_name_only: Settings) -> None:
    """Logs go to S3 and to CloudWatch, if there is a group, beside the author's settings."""
    places: dict[str, Any] = {
        "job_logs_uri": "s3://logs/emr/",
        "job_log_group": "/aws/emr-serverless/lamp",
    }
    with runtime.using(settings=replace(in_name_only, **places)):
        request = sent(emr, spark_conf={"spark.x": "1"})

    found = request["configurationOverrides"]
    assert found["monitoringConfiguration"] == {
        "s3MonitoringConfiguration": {"logUri": "s3://logs/emr/"},
        "cloudWatchLoggingConfiguration": {
            "enabled": True,
            "logGroupName": "/aws/emr-serverless/lamp",
        },
    }
    assert found["applicationConfiguration"][0]["properties"] == {"spark.x": "1"}


@pytest.mark.parametrize("ids", [("orders", "load"), ("~" * 200, "~" * 200)])
def test_request_with_the_longest_ids_is_taken(emr: FakeEmr, ids: tuple[str, str]) -> None:
    """Ids of any length that a DAG may have make a request that EMR Serverless takes."""
    run = make_run(dag_id=ids[0])
    dag = make_dag(**{ids[1]: {}})
    job = prepare(run, make_step(run, ids[1]), dag, variables={})

    EmrServerless().start(job.request)

    assert (emr.jobs[-1].dag, emr.jobs[-1].task) == ids


# What EMR Serverless answers.


def started(emr: FakeEmr, outcome: Outcome | None = None) -> str:
    """Start a job and return its id."""
    if outcome is not None:
        emr.next_outcome("orders", "load", outcome)
    return EmrServerless().start(prepared().request)


def test_same_request_again_is_the_same_job(emr: FakeEmr) -> None:
    """The token of a submission starts one job, however often it is sent."""
    assert started(emr) == started(emr)
    assert len(emr.jobs) == 1


def test_job_is_found_by_its_name(emr: FakeEmr) -> None:
    """A job whose id nobody noted is found among all others, on whichever page of the list."""
    wanted = started(emr)
    for number in range(7):
        run = make_run(created_at=NOON.add(seconds=number + 1))
        job = prepare(run, make_step(run), make_dag(load={}), variables={})
        EmrServerless().start(job.request)
    emr.page_size = 2

    sought = Submission(prepared().request.name, "", NOON, make_dag(load={}).tasks["load"])
    assert EmrServerless().find(sought) == wanted
    assert EmrServerless().find(replace(sought, name="another")) is None
    assert EmrServerless().find(replace(sought, since=NOON.add(seconds=1))) is None


def test_job_that_nobody_knows_is_none(emr: FakeEmr) -> None:
    """A job that is gone can be asked about and cancelled without an error."""
    assert emr.jobs == []
    assert EmrServerless().describe("00nobody") is None
    EmrServerless().cancel("00nobody")


def test_cancel_of_a_job_that_is_over_is_nothing(emr: FakeEmr) -> None:
    """Whoever cancels too late is not bothered."""
    job_run_id = started(emr, Outcome(takes=0))
    assert emr.jobs[0].state is JobState.SUCCESS

    EmrServerless().cancel(job_run_id)

    assert emr.jobs[0].state is JobState.SUCCESS


@pytest.mark.parametrize(
    "code",
    [
        "ConflictException",
        "InternalServerException",
        "ServiceQuotaExceededException",
        "ServiceUnavailableException",
    ],
)
def test_error_that_may_pass_is_transient(emr: FakeEmr, code: str) -> None:
    """A busy service is asked again later."""
    emr.refuse_next("StartJobRun", code)
    with pytest.raises(TransientError, match=r"EMR Serverless is (busy|asked too often)"):
        started(emr)


@pytest.mark.parametrize("code", ["ThrottlingException", "TooManyRequestsException"])
def test_throttled_start_is_told_apart(emr: FakeEmr, code: str) -> None:
    """A call that was refused for its rate had no effect, and the rate must fall."""
    emr.refuse_next("StartJobRun", code)
    with pytest.raises(ThrottledError, match="asked too often"):
        started(emr)


def test_request_that_is_refused_is_not_tried_again(emr: FakeEmr) -> None:
    """What the service does not take is an error that says what it said."""
    with pytest.raises(RefusedError, match=r"refuses the job: .*at most 100"):
        sent(emr, spark_conf={f"spark.x{number}": "1" for number in range(101)})
    assert emr.jobs == []


def test_job_that_waits_is_described_without_instants(emr: FakeEmr) -> None:
    """A job that waits has neither started nor ended, and says whose it is."""
    job_run_id = started(emr)
    waiting = EmrServerless().describe(job_run_id)
    assert waiting is not None
    assert (waiting.started_at, waiting.ended_at) == (None, None)
    assert waiting.context_uri == prepared().request.context_uri
