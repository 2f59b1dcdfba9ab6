"""What a job is started with: its context, and the request to the executor.

Owns: the document `context.json`, and how a task's options become settings of Spark.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from lamplighter import settings
from lamplighter.assets import Asset, AssetAlias
from lamplighter.assets.asset import AssetRef
from lamplighter.bundles.layout import bundle_key
from lamplighter.dags.dag import DAG
from lamplighter.dags.task import SparkTask
from lamplighter.events.lineage import triggering_asset_events
from lamplighter.executors.job import JobRequest
from lamplighter.runs import templates
from lamplighter.runs.job_names import JobName
from lamplighter.store.models import Runs, Steps
from lamplighter.zones import iso

VERSION = 1

_SIZES = {
    "driver_cores": "spark.driver.cores",
    "driver_memory": "spark.driver.memory",
    "executor_cores": "spark.executor.cores",
    "executor_memory": "spark.executor.memory",
    "max_executors": "spark.dynamicAllocation.maxExecutors",
}


@dataclass(frozen=True)
class PreparedJob:
    """A job that can be started: the context to put first, and the request."""

    context: str
    request: JobRequest


def prepare(run: Runs, step: Steps, dag: DAG) -> PreparedJob:
    """Return what a step is started with; a template that cannot be filled in is an error."""
    deployment = settings.current()
    task = dag.tasks[step.step_id]
    name = JobName.of(run, step)
    bucket = deployment.require("bucket")
    context = _context(run, step, dag, task)
    names = _names(context, run)
    what = f"task {task.task_id!r}"
    context["arguments"] = [
        templates.render(text, names, what=f"{what}: arguments") for text in task.arguments
    ]
    spark_conf = {
        key: templates.render(text, names, what=f"{what}: spark_conf: {key}")
        for key, text in task.spark_conf.items()
    }
    request = JobRequest(
        token=name.token,
        name=name.name,
        context_uri=name.context_uri(bucket),
        bundle_uri=f"s3://{bucket}/{bundle_key(run.bundle, run.bundle_version)}",
        sizes={
            key: str(value)
            for option, key in _SIZES.items()
            if (value := getattr(task, option)) is not None
        },
        spark_conf=spark_conf,
        py_files=task.py_files,
        archives=task.archives,
        timeout=task.execution_timeout,
        tags=name.tags(run.run_id),
    )
    return PreparedJob(json.dumps(context), request)


def _context(run: Runs, step: Steps, dag: DAG, task: SparkTask) -> dict[str, Any]:
    conf = run.conf or {}
    instants = {
        name: None if (at := getattr(run, name)) is None else iso(at)
        for name in ("logical_date", "data_interval_start", "data_interval_end", "run_after")
    }
    events = triggering_asset_events(run).events if run.events else {}
    return {
        "version": VERSION,
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "run_type": run.run_type,
        "task_id": task.task_id,
        "try_number": int(step.try_number),
        "submission": int(step.submission),
        **instants,
        "partition_key": run.partition_key,
        "params": {**dag.params, **conf},
        "conf": conf,
        "variables": settings.current().read_variables(),
        "triggering_asset_events": {
            asset: [{"asset": asset, **event} for event in found] for asset, found in events.items()
        },
        "inlets": [_described(asset) for asset in task.inlets],
        "outlets": [_described(asset) for asset in task.outlets],
        "job": task.job,
        "entry_point": task.entry_point,
    }


def _described(asset: Asset | AssetAlias | AssetRef) -> dict[str, Any]:
    kind = "alias" if isinstance(asset, AssetAlias) else "asset"
    uri = getattr(asset, "uri", None)
    return {"kind": kind, "name": getattr(asset, "name", None), **({"uri": uri} if uri else {})}


def _names(context: Mapping[str, Any], run: Runs) -> dict[str, Any]:
    """Return all that templates may name."""
    step = SimpleNamespace(
        **{name: context[name] for name in ("dag_id", "run_id", "task_id", "try_number")}
    )
    dates = templates.dated(run.logical_date, run.data_interval_start, run.data_interval_end)
    dag_run = SimpleNamespace(
        **{name: context[name] for name in ("dag_id", "run_id", "run_type", "conf")},
        logical_date=run.logical_date,
        data_interval_start=run.data_interval_start,
        data_interval_end=run.data_interval_end,
        run_after=run.run_after,
        partition_key=run.partition_key,
    )
    passed = ("run_id", "params", "conf", "partition_key", "triggering_asset_events")
    return {
        **{name: context[name] for name in (*passed, "inlets", "outlets")},
        "dag": SimpleNamespace(dag_id=run.dag_id),
        "task": SimpleNamespace(task_id=context["task_id"]),
        "ti": step,
        "task_instance": step,
        "dag_run": dag_run,
        "var": SimpleNamespace(value=context["variables"]),
        "macros": templates.MACROS,
        **dates,
    }
