"""One DAG whose tasks are of all kinds and read what each other left, and the bundle that runs it.

    load (Spark) → check (Python) → export (state machine) → report (Python) → publish (Spark)

Each of the first three updates an asset, and `consumer` waits for all three.
"""

import inspect
from pathlib import Path
from typing import Any

import pendulum

from lamplighter import DAG, Asset, PythonTask, SparkTask, StepFunctionsTask, chain

# A task of each kind, in their order.
TASKS = ("load", "check", "export")
_JOBS = """
from lamplighter_job import SkipStep


def act(context):
    if context.conf.get("fails") == context.task_id and context.try_number == 1:
        raise ValueError("not yet")
    if context.conf.get("skips") == context.task_id:
        raise SkipStep("a holiday")


def load(spark, context):
    act(context)
    context.output["rows"] = spark.range(3).count()
    context.outlet("loaded").extra["rows"] = 3


def check(context):
    act(context)
    (rows,) = context.arguments
    assert context.input("load")["rows"] == int(rows)
    context.output["good"] = int(rows) - 1
    context.outlet("checked").extra["by"] = "Python"


def report(context):
    context.output["lines"] = [context.input("export")["file"], context.input("load")["rows"]]


def read(context):
    assert len(context.triggering_asset_events) == 3


def publish(spark, context):
    (file,) = context.arguments
    lines = context.input("report")["lines"]
    context.output["said"] = [file, *lines, context.input("check")["good"]]
"""


def kinds_dags(**options: Any) -> tuple[DAG, DAG]:
    """Return the DAG, with options of all its tasks, and the consumer of its assets."""
    schedule = options.pop("schedule", None)
    start = pendulum.datetime(2026, 1, 4)
    with DAG("shop", schedule=schedule, start_date=start, default_args=options) as dag:
        load = SparkTask("load", job="jobs.shop:load", outlets=[Asset("loaded")])
        check = PythonTask(
            "check",
            job="jobs.shop:check",
            inputs=[load],
            arguments=["{{ outputs.load.rows | default(0) }}"],
            outlets=[Asset("checked")],
        )
        export = StepFunctionsTask(
            "export",
            state_machine="export",
            input={
                "rows": "{{ outputs.load.rows | default(0) }}",
                "good": "{{ outputs.check.good | default(0) }}",
            },
            outlets=[Asset("exported")],
        )
        report = PythonTask("report", job="jobs.shop:report", inputs=[load, export])
        publish = SparkTask(
            "publish",
            job="jobs.shop:publish",
            inputs=[check, report],
            arguments=["{{ outputs.export.file | default('') }}"],
        )
        chain(load, check, export, report, publish)
    all_three = Asset("loaded") & Asset("checked") & Asset("exported")
    with DAG("consumer", schedule=all_three) as consumer:
        PythonTask("read", job="jobs.shop:read")
    return dag, consumer


def write_kinds(folder: Path) -> Path:
    """Write the bundle of the DAG into a folder, and return it.

    The conf of a run says which program fails at first, or skips: `{"fails": "load"}`.
    """
    imports = "import pendulum\nfrom typing import Any\nfrom lamplighter import *\n"
    text = f"{imports}\n{inspect.getsource(kinds_dags)}\nshop, consumer = kinds_dags(retries=1)\n"
    for name, content in (("dags/kinds.py", text), ("jobs/shop.py", _JOBS)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return folder
