"""Lamplighter: Airflow-style run scheduling with no servers. What authors import."""

from lamplighter.assets import Asset, AssetAlias, AssetAll, AssetAny, AssetWatcher, Dataset
from lamplighter.dags import (
    DAG,
    Param,
    PythonTask,
    SparkTask,
    StepFunctionsTask,
    TaskGroup,
    chain,
    dag,
)

__version__ = "0.2.0"

__all__ = [
    "DAG",
    "Asset",
    "AssetAlias",
    "AssetAll",
    "AssetAny",
    "AssetWatcher",
    "Dataset",
    "Param",
    "PythonTask",
    "SparkTask",
    "StepFunctionsTask",
    "TaskGroup",
    "chain",
    "dag",
]
