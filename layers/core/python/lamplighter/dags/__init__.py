"""What authors say about work: DAGs, Spark tasks, and the order between tasks."""

from lamplighter.dags.dag import DAG
from lamplighter.dags.decorator import dag
from lamplighter.dags.graph import chain
from lamplighter.dags.task import SparkTask

__all__ = ["DAG", "SparkTask", "chain", "dag"]
