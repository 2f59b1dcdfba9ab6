import functools
import math
from dataclasses import dataclass
from datetime import datetime

from airflow import DAG
from airflow.exceptions import AirflowException, AirflowSkipException
from airflow.operators.python import PythonOperator, ShortCircuitOperator

LIMIT = 10
COUNTER = 0


@dataclass
class Row:
    n: int


def helper(n):
    return math.sqrt(n) + LIMIT


def uses_helper(n=4):
    """Text with
  odd indentation."""
    return helper(n)


def uses_class():
    return Row(1).n


def changes():
    global COUNTER
    COUNTER += 1


def generator():
    yield 1


def skips(ds_nodash, *, strict=False):
    if ds_nodash > "2024":
        raise AirflowSkipException("too new")
    if strict:
        raise AirflowException(f"bad {ds_nodash}")


with DAG("closures", start_date=datetime(2024, 1, 1), schedule_interval="@daily") as dag:
    PythonOperator(task_id="helper", python_callable=uses_helper, op_args=[9])
    PythonOperator(task_id="class", python_callable=uses_class)
    PythonOperator(task_id="changes", python_callable=changes)
    PythonOperator(task_id="generator", python_callable=generator)
    PythonOperator(task_id="skips", python_callable=skips, op_kwargs=dict(strict=True))
    PythonOperator(task_id="lambda", python_callable=lambda: print("x"))
    PythonOperator(task_id="partial", python_callable=functools.partial(helper, 3))
    ShortCircuitOperator(task_id="short", python_callable=lambda: LIMIT > 5)
