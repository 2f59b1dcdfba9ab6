from datetime import datetime

from airflow import DAG
from airflow.models.baseoperator import chain, cross_downstream
from airflow.operators.bash import BashOperator
from airflow.operators.dummy import DummyOperator
from airflow.utils.edgemodifier import Label
from airflow.utils.task_group import TaskGroup

with DAG("task_groups", schedule_interval="30 1 * * *", start_date=datetime(2024, 1, 1)) as dag:
    begin = DummyOperator(task_id="begin")
    end = DummyOperator(task_id="end", trigger_rule="none_failed_or_skipped")

    with TaskGroup("load", tooltip="reads") as load:
        a = BashOperator(task_id="a", bash_command="sleep 1")
        b = BashOperator(task_id="b", bash_command="exit 0")
        with TaskGroup(group_id="inner", prefix_group_id=False):
            c = BashOperator(task_id="c", bash_command="true && echo done")
        [a, b] >> c

    with TaskGroup("report") as reported:
        d = DummyOperator(task_id="d")
        e = DummyOperator(task_id="e")
        f = DummyOperator(task_id="f")
        cross_downstream([d], [e, f])

    chain(begin, load, reported)
    reported >> Label("all good") >> end
