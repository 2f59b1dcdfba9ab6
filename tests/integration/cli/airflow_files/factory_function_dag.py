"""A function that makes a DAG for each team, with tasks in a helper."""
import pendulum
from airflow.models.dag import DAG
from airflow.operators.bash import BashOperator
from airflow.operators.empty import EmptyOperator


def add_tasks(dag, team):
    start = EmptyOperator(task_id="start", dag=dag)
    for step in ["a", "b"]:
        start >> BashOperator(task_id=f"{team}_{step}", bash_command="echo {{ ds }}", dag=dag)


def create(team):
    with DAG(dag_id="team_" + team, schedule="@daily", start_date=pendulum.datetime(2024, 1, 1, tz="UTC"), catchup=False) as dag:
        add_tasks(dag, team)
    return dag


for team in ["red", "blue"]:
    globals()["dag_" + team] = create(team)
