"""What authors define: DAGs and their params, tasks of several kinds, groups and order."""

from lamplighter.dags.dag import DAG, dag
from lamplighter.dags.groups import TaskGroup
from lamplighter.dags.kinds import PythonTask, SparkTask, StepFunctionsTask
from lamplighter.dags.links import chain
from lamplighter.dags.params import Param

__all__ = [
    "DAG",
    "Param",
    "PythonTask",
    "SparkTask",
    "StepFunctionsTask",
    "TaskGroup",
    "chain",
    "dag",
]
