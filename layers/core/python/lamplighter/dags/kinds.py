"""The kinds of task: a PySpark program, a Python function, and an execution of a state machine."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from lamplighter.dags import arguments
from lamplighter.dags.arguments import optional, whole_number
from lamplighter.dags.task import COMMON_OPTIONS, CommonOptions, Option, Task
from lamplighter.loading import json_mapping

if TYPE_CHECKING:
    from lamplighter.dags.dag import DAG


class SparkOptions(CommonOptions, total=False):
    """Everything about a `SparkTask` but its id."""

    entry_point: str | None  # A script in the bundle, such as "jobs/load.py".
    job: str | None  # A function `(spark, context)`, such as "jobs.orders:clean".
    arguments: Sequence[str]  # Texts for the program; templates.
    inputs: Sequence[Task | str]  # Upstream tasks whose outputs the program reads.
    spark_conf: Mapping[str, str]  # Further Spark settings; their values are templates.
    py_files: Sequence[str]  # URIs of Python files and archives for the import path.
    archives: Sequence[str]  # URIs of archives that are unpacked for the job.
    restrict_data: bool  # Whether the job may use nothing in S3 but its inlets and outlets.
    driver_cores: int | None  # vCPUs of the driver; a setting of the deployment by default.
    driver_memory: str | None  # Its heap, such as "6g"; a setting by default.
    executor_cores: int | None  # vCPUs of each executor; a setting by default.
    executor_memory: str | None  # Its heap, such as "6g"; a setting by default.
    max_executors: int | None  # The most executors at once; a setting by default.


class SparkTask(Task):
    """One PySpark program of a DAG.

    `entry_point` is a script in the bundle; `job="module:function"` is a function
    `(spark, context)` that the shipped runner calls. Exactly one of them is needed.
    """

    kind = "spark"
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "entry_point": Option(optional(arguments.script)),
        "job": Option(optional(arguments.job)),
        "arguments": Option(arguments.strings, ()),
        "inputs": Option(arguments.task_ids, ()),
        "spark_conf": Option(arguments.spark_conf, {}),
        "py_files": Option(arguments.addresses, ()),
        "archives": Option(arguments.addresses, ()),
        "restrict_data": Option(arguments.flag, default=False),
        "driver_cores": Option(optional(whole_number(minimum=1))),
        "driver_memory": Option(optional(arguments.memory)),
        "executor_cores": Option(optional(whole_number(minimum=1))),
        "executor_memory": Option(optional(arguments.memory)),
        "max_executors": Option(optional(whole_number(minimum=1))),
        **COMMON_OPTIONS,
    }

    entry_point: str | None
    job: str | None
    arguments: tuple[str, ...]
    spark_conf: dict[str, str]
    py_files: tuple[str, ...]
    archives: tuple[str, ...]
    restrict_data: bool
    driver_cores: int | None
    driver_memory: str | None
    executor_cores: int | None
    executor_memory: str | None
    max_executors: int | None

    def __init__(
        self, task_id: str, *, dag: "DAG | None" = None, **options: Unpack[SparkOptions]
    ) -> None:
        super().__init__(task_id, dag, options)

    def _check_together(self) -> None:
        if (self.entry_point is None) == (self.job is None):
            raise self._error("entry_point", "give exactly one of entry_point and job")
        if self.restrict_data and not any(map(_is_on_s3, (*self.inlets, *self.outlets))):
            raise self._error(
                "restrict_data", "no inlet or outlet has an S3 URI: declare what the job may use"
            )

    @property
    def sizes(self) -> dict[str, str]:
        """The sizes of driver and executors that the author has chosen, by option."""
        chosen = {option: getattr(self, option) for option in arguments.SIZES.values()}
        return {option: str(value) for option, value in chosen.items() if value is not None}

    def templates(self) -> Iterator[tuple[str, str]]:
        """Yield the arguments and the Spark settings."""
        yield from (("arguments", text) for text in self.arguments)
        yield from ((f"spark_conf: {key}", text) for key, text in self.spark_conf.items())


class PythonOptions(CommonOptions, total=False):
    """Everything about a `PythonTask` but its id."""

    job: str | None  # The function `(context)`, such as "jobs.fx:fetch"; it is needed.
    arguments: Sequence[str]  # Texts for the function, in its context; templates.
    inputs: Sequence[Task | str]  # Upstream tasks whose outputs the function reads.


class PythonTask(Task):
    """One Python function of a DAG, for what needs no Spark: `job="module:function"`.

    The function `(context)` runs on AWS Lambda, for fifteen minutes at most.
    """

    kind = "python"
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "job": Option(optional(arguments.job)),
        "arguments": Option(arguments.strings, ()),
        "inputs": Option(arguments.task_ids, ()),
        **COMMON_OPTIONS,
    }

    job: str
    arguments: tuple[str, ...]

    def __init__(
        self, task_id: str, *, dag: "DAG | None" = None, **options: Unpack[PythonOptions]
    ) -> None:
        super().__init__(task_id, dag, options)

    def _check_together(self) -> None:
        if self.job is None:
            raise self._error("job", "is needed: name a function, such as 'jobs.fx:fetch'")

    def templates(self) -> Iterator[tuple[str, str]]:
        """Yield the arguments."""
        yield from (("arguments", text) for text in self.arguments)


# The key of an execution's input that says which step it is for.
ABOUT = "lamplighter"


class StepFunctionsOptions(CommonOptions, total=False):
    """Everything about a `StepFunctionsTask` but its id."""

    state_machine: str | None  # The name or the ARN of one; it is needed.
    input: Mapping[str, Any]  # Its input, as JSON values; texts in it are templates.


class StepFunctionsTask(Task):
    """One execution of a state machine of AWS Step Functions, for every other service of AWS.

    `state_machine` is the name or the ARN of one of the type STANDARD. All texts in `input` may be
    templates. Its output is the result of the step.
    """

    kind = "step_functions"
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "state_machine": Option(optional(arguments.state_machine)),
        "input": Option(json_mapping, {}),
        **COMMON_OPTIONS,
    }

    state_machine: str
    input: dict[str, Any]

    def __init__(
        self, task_id: str, *, dag: "DAG | None" = None, **options: Unpack[StepFunctionsOptions]
    ) -> None:
        super().__init__(task_id, dag, options)

    def _check_together(self) -> None:
        if self.state_machine is None:
            raise self._error("state_machine", "is needed: give the name of one, or its ARN")
        if ABOUT in self.input:
            raise self._error("input", f"{ABOUT!r} is added with the names of the step: rename it")

    def templates(self) -> Iterator[tuple[str, str]]:
        """Yield every text of the input, however deep."""
        yield from _texts_in(self.input, "input")


KINDS: dict[str, type[SparkTask | PythonTask | StepFunctionsTask]] = {
    each.kind: each for each in (SparkTask, PythonTask, StepFunctionsTask)
}
# Of all kinds: a DAG's `default_args` may have any of them, and each task takes what it knows.
OPTIONS = {name: option for kind in KINDS.values() for name, option in kind.OPTIONS.items()}


def _is_on_s3(asset: object) -> bool:
    return str(getattr(asset, "uri", "")).startswith(("s3://", "s3a://", "s3n://"))


def _texts_in(value: object, place: str) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield place, value
        case Mapping():
            for key, item in value.items():
                yield from _texts_in(item, f"{place}: {key}")
        case list() | tuple():
            for item in value:
                yield from _texts_in(item, place)
