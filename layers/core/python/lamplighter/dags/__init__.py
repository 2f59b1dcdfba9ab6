"""What authors define: DAGs, tasks of several kinds, and the order between tasks."""

from lamplighter.dags.dag import DAG, dag
from lamplighter.dags.kinds import PythonTask, SparkTask, StepFunctionsTask
from lamplighter.dags.links import chain

__all__ = ["DAG", "PythonTask", "SparkTask", "StepFunctionsTask", "chain", "dag"]
