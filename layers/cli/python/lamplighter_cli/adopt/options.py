"""Arguments of tasks and DAGs that have no counterpart, and what is said about them."""

import ast
from datetime import timedelta

from lamplighter.dags.kinds import OPTIONS
from lamplighter.dags.task import COMMON_OPTIONS
from lamplighter_cli.adopt.findings import DagReport, Level
from lamplighter_cli.adopt.schedules import AIRFLOW_3
from lamplighter_cli.adopt.translator import Translator, quoted

_CALLBACK = "callbacks stay behind: subscribe to the event 'Run Finished' on EventBridge"
_DEADLINE = (
    "is left out: there are no SLAs: watch the run's duration, or set dagrun_timeout or"
    " execution_timeout"
)
_SLOTS = "is left out: give the task a pool of that many slots"
_SIZES = "is left out: sizes are options of SparkTask"
_OTHERS_GO_ON = "is left out: other tasks of the run are not stopped"

# Without effect on what a task does.
_SILENT = frozenset(
    {"owner", "doc", "doc_md", "doc_json", "doc_yaml", "doc_rst", "task_display_name"}
    | {"provide_context", "do_xcom_push", "multiple_outputs", "show_return_value_in_logs"}
    | {"ui_color", "email", "executor", "show_env", "deferrable", "aws_conn_id", "region_name"}
    | {"poll_interval", "waiter_delay", "waiter_max_attempts", "wait_for_completion", "verbose"}
    | {"email_on_failure", "email_on_retry", "retry_policy", "map_index_template"}
)
_ADVISED: dict[str, tuple[Level, str]] = {
    "sla": (Level.EDIT, _DEADLINE),
    "wait_for_downstream": (Level.EDIT, "is left out: depends_on_past waits for the same task"),
    "weight_rule": (Level.CHANGE, "is left out: weights count all downstream tasks"),
    "max_active_tis_per_dag": (Level.EDIT, _SLOTS),
    "task_concurrency": (Level.EDIT, _SLOTS),
    "max_active_tis_per_dagrun": (Level.EDIT, "is left out: use max_active_tasks of the DAG"),
    "queue": (Level.CHANGE, "is left out: there are no workers to choose from"),
    "executor_config": (Level.EDIT, _SIZES),
    "resources": (Level.EDIT, _SIZES),
    "run_as_user": (Level.EDIT, "is left out: jobs run with the role of the deployment"),
    "task_group": (Level.EDIT, "is left out: make the task in the `with` block of its group"),
    "on_kill": (Level.EDIT, f"is left out: {_CALLBACK}"),
    "deadline": (Level.EDIT, _DEADLINE),
}

_SILENT_OF_DAG = frozenset(
    {"default_view", "orientation", "access_control", "owner_links", "dag_display_name"}
    | {"auto_register", "full_filepath", "template_undefined", "rerun_with_latest_version"}
)
_ADVISED_OF_DAG: dict[str, tuple[Level, str]] = {
    "template_searchpath": (Level.EDIT, "is left out: templates are not read from files"),
    "user_defined_macros": (Level.EDIT, "is left out: compute the values in the job"),
    "user_defined_filters": (Level.EDIT, "is left out: compute the values in the job"),
    "jinja_environment_kwargs": (Level.EDIT, "is left out: templates are rendered strictly"),
    "render_template_as_native_obj": (Level.EDIT, "is left out: a template makes a text"),
    "fail_stop": (Level.CHANGE, _OTHERS_GO_ON),
    "fail_fast": (Level.CHANGE, _OTHERS_GO_ON),
    "deadline": (Level.EDIT, _DEADLINE),
}
KEPT_OF_DAG = frozenset(
    {"start_date", "end_date", "catchup", "max_active_runs", "max_active_tasks", "dagrun_timeout"}
    | {"max_consecutive_failed_dag_runs", "params", "tags", "description", "doc_md"}
    | {"is_paused_upon_creation", "allowed_run_types", "default_args"}
)
_PYTHON = frozenset({"@task", "PythonOperator", "ShortCircuitOperator"})
_LONGEST_PYTHON_TASK = timedelta(seconds=870)
_OLD_RULES = {
    "dummy": "always",
    "none_failed_or_skipped": "none_failed_min_one_success",
    "all_done_setup_success": "all_done",
}


def about(name: str, *, of_dag: bool = False) -> tuple[Level, str] | None:
    """Return what to say about an argument that is left out, or None if nothing."""
    if name.endswith("_callback"):
        return Level.EDIT, f"is left out: {_CALLBACK}"
    if name in (_SILENT_OF_DAG if of_dag else _SILENT):
        return None
    found = (_ADVISED_OF_DAG if of_dag else _ADVISED).get(name)
    return found or (Level.CHANGE, "is left out: it has no counterpart")


def common(
    translator: Translator, call: ast.AST, options: dict[str, ast.expr], used: set[str]
) -> list[str]:
    """Return the options that all tasks have, as arguments; say what is left out."""
    made = []
    for name, node in options.items():
        if name in COMMON_OPTIONS or name == "dag":
            made.append(f"{name}={_value(translator, name, node)}")
        elif name not in used and name != "task_id":
            said = about(name)
            if said is not None:
                translator.on_task(said[0], node, f"{name} {said[1]}")
    return made


def _check_timeout(translator: Translator, node: ast.expr) -> None:
    """Say what a push would refuse: a Python task has less time than Lambda."""
    task, limit = translator.current_task, translator.constants.value_or(node)
    if task is None or task.operator not in _PYTHON or not isinstance(limit, timedelta):
        return
    if limit > _LONGEST_PYTHON_TASK:
        message = f"execution_timeout is at most {_LONGEST_PYTHON_TASK.total_seconds():.0f} seconds"
        translator.on_task(
            Level.EDIT, node, f"{message} for a PythonTask: use a SparkTask or split"
        )


def _value(translator: Translator, name: str, node: ast.expr) -> str:
    if name == "execution_timeout":
        _check_timeout(translator, node)
    if name == "trigger_rule":
        value = translator.constants.text(node)
        if value in _OLD_RULES:
            new = _OLD_RULES[value]
            translator.on_task(Level.CHANGE, node, f"trigger_rule {value!r} is called {new!r}")
            return quoted(new)
    if name == "retry_exponential_backoff" and translator.airflow >= AIRFLOW_3:
        value = translator.constants.value_or(node)
        if value is True:
            message = "retry_exponential_backoff=True doubles the delay here; Airflow 3 uses 1"
            translator.on_task(Level.CHANGE, node, f"{message}, so the factor is written")
            return "1.0"
    return translator.text(node)


def translate_default_args(
    translator: Translator, dag: DagReport | None, node: ast.expr | None
) -> None:
    """Take from a literal `default_args` what no task here knows."""
    node = translator.constants.node(node)
    if not isinstance(node, ast.Dict):
        return
    kept = {*OPTIONS, "owner", "params", "start_date", "end_date"}
    for number, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)) or key.value in kept:
            continue
        said = about(key.value)
        if said is not None:
            translator.on_dag(dag, said[0], key, f"default_args: {key.value} {said[1]}")
        _remove_entry(translator, node, number, key, value)


def _remove_entry(
    translator: Translator, node: ast.Dict, number: int, key: ast.expr, value: ast.expr
) -> None:
    source = translator.source
    start, end = source.start(key), source.end(value)
    data = source.data
    # With its comma and what follows on the line, or with the line if nothing else is on it.
    while data[end : end + 1] in (b" ", b","):
        end += 1
    line = source.line_start(key)
    is_alone = not data[line:start].strip() and data[end : end + 1] in (b"\n", b"#")
    if is_alone:
        start, end = line, source.line_end(end) + 1
    translator.edits.replace(start, end, "")
