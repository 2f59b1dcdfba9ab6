"""Which steps' outputs a task reads, and that these are upstream of it."""

from typing import Any

import pytest

from lamplighter import DAG, PythonTask, SparkTask, StepFunctionsTask, chain
from lamplighter.dags.links import steps_read
from lamplighter.dags.templates import render
from lamplighter.errors import DefinitionError
from lamplighter.serialization import decode_dag, encode_dag

JOB = "jobs.x:main"


def three(**options: Any) -> DAG:
    """Return `load`, `group.clean` and `report` in a row; the last has options."""
    with DAG("dag", schedule=None) as dag:
        chain(*(SparkTask(task_id, job=JOB) for task_id in ("load", "group.clean")))
        dag.tasks["group.clean"] >> SparkTask("report", job=JOB, **options)
    return dag


def refusal(dag: DAG) -> str:
    """Return why a DAG cannot be pushed."""
    with pytest.raises(DefinitionError) as caught:
        encode_dag(dag)
    return str(caught.value)


TEMPLATES = [
    ("{{ outputs.load.rows }}", {"load"}),
    ("{{ outputs['group.clean'].rows + outputs.load['rows'] }}", {"load", "group.clean"}),
    ("{% for each in outputs.load.files %}{{ each }} {% endfor %}", {"load"}),
    ("{{ outputs.load | tojson }}", {"load"}),
    ("{% if outputs.load.rows is defined %}x{% endif %}", {"load"}),
    ("{{ params.outputs }}{{ ds }} outputs.nope", set()),
    ("outputs.load", set()),
]


@pytest.mark.parametrize(("text", "steps"), TEMPLATES)
def test_templates_name_the_steps_that_are_read(text: str, steps: set[str]) -> None:
    """A name behind `outputs` is a step, wherever the template has it."""
    dag = three(arguments=["--all", text])
    encode_dag(dag)
    assert steps_read(dag.tasks["report"]) == steps


def test_all_kinds_of_tasks_read_outputs() -> None:
    """The option and every templated text count, each step once."""
    with DAG("dag", schedule=None) as dag:
        load, check = (SparkTask(name, job=JOB) for name in ("load", "check"))
        tasks = [
            SparkTask("a", job=JOB, inputs=[load, "check", load]),
            SparkTask("b", job=JOB, spark_conf={"spark.x": "{{ outputs.load.x }}"}),
            PythonTask("c", job=JOB, inputs=[load], arguments=["{{ outputs.check.x }}"]),
            StepFunctionsTask("d", state_machine="m", input={"a": [{"b": "{{ outputs.load }}"}]}),
        ]
        [load, check] >> tasks[0]
        for task in tasks[1:]:
            [load, check] >> task
    encode_dag(dag)
    assert dag.tasks["a"].inputs == ("load", "check")
    assert [steps_read(task) for task in tasks] == [
        {"load", "check"},
        {"load"},
        {"load", "check"},
        {"load"},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{{ outputs }}",
        "{{ outputs | length }}",
        "{{ outputs[params.step].rows }}",
        "{{ outputs[0].rows }}",
        "{{ outputs['lo' ~ 'ad'].rows }}",
        "{% for step in outputs %}x{% endfor %}",
        "{% set all = outputs %}{{ all.load }}",
    ],
)
def test_step_that_is_no_constant_is_refused(text: str) -> None:
    """Which steps are read must be known before anything is rendered."""
    assert "'outputs' is followed by the id of a task" in refusal(three(arguments=[text]))


@pytest.mark.parametrize("options", [{"inputs": ["load"]}, {"arguments": ["{{ outputs.load.x }}"]}])
def test_step_that_is_upstream_of_the_upstream_may_be_read(options: dict[str, Any]) -> None:
    """Any step before a task can be read, not only the one right before it."""
    encode_dag(three(**options))


@pytest.mark.parametrize("options", [{"inputs": ["side"]}, {"arguments": ["{{ outputs.side.x }}"]}])
def test_step_that_is_not_upstream_is_refused_with_the_link(options: dict[str, Any]) -> None:
    """The error names both tasks, and the link that is missing."""
    dag = three(**options)
    SparkTask("side", job=JOB, dag=dag)
    assert refusal(dag) == (
        "DAG 'dag': tasks: task 'report' reads the outputs of 'side', which is not upstream:"
        " write side >> report"
    )


def test_step_that_comes_later_or_is_the_task_itself_is_refused() -> None:
    """Nobody reads what is not there yet."""
    with DAG("dag", schedule=None) as dag:
        SparkTask("a", job=JOB, inputs=["b"]) >> SparkTask("b", job=JOB)
    assert "'a' reads the outputs of 'b', which is not upstream" in refusal(dag)
    assert "which is not upstream" in refusal(three(inputs=["report"]))


def test_step_that_does_not_exist_is_refused_with_a_guess() -> None:
    """A misspelt step is found when it is pushed."""
    assert refusal(three(inputs=["loda"])).endswith(
        "task 'report' reads the outputs of 'loda', but there is no such task; did you mean 'load'?"
    )


def test_stored_definition_that_reads_what_is_not_upstream_is_still_read() -> None:
    """What was stored can be read whatever the rules are: its runs must be able to end."""
    document = encode_dag(three())
    document["tasks"][-1]["inputs"] = ["nope"]
    assert decode_dag(document).tasks["report"].inputs == ("nope",)


def test_definition_from_before_there_were_inputs_is_read() -> None:
    """Documents of earlier versions get what is new."""
    document = encode_dag(three())
    for task in document["tasks"]:
        del task["kind"], task["inputs"]
    assert decode_dag({**document, "schema": 3}) == three()


def test_templates_with_outputs_are_not_tried_with_samples() -> None:
    """Nobody knows what a step will leave, so `check` does not warn."""
    assert three(arguments=["{{ outputs.load.rows + 1 }}"]).try_templates() == []


OUTPUTS = {"load": {"rows": 3, "items": ["x"], "get": 1}, "items": {"keys": {"a": 1}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ outputs.load.rows * 2 }}", "6"),
        ("{{ outputs.load.items | join }} {{ outputs.load.get }}", "x 1"),
        ("{{ outputs.items['keys'].a }}", "1"),
        ("{% for n, v in outputs.load | dictsort %}{{ n }} {% endfor %}", "get items rows "),
        ("{{ outputs.load.nope | default(0) }}", "0"),
    ],
)
def test_outputs_are_keys_and_never_methods(text: str, expected: str) -> None:
    """A step or an output may be named like a method of a dict."""
    assert render(text, {"outputs": OUTPUTS}, what="arguments") == expected


def test_output_that_was_not_left_is_an_error() -> None:
    """A missing output never becomes an empty text."""
    with pytest.raises(DefinitionError, match="has no attribute 'nope'"):
        render("{{ outputs.load.nope }}", {"outputs": OUTPUTS}, what="arguments")
