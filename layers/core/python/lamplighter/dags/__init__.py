"""What authors define: DAGs, Spark tasks, and the order between tasks."""

from lamplighter.dags.dag import DAG, dag
from lamplighter.dags.task import SparkTask, chain

__all__ = ["DAG", "SparkTask", "chain", "dag"]
