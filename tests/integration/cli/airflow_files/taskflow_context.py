import pendulum
from airflow.decorators import dag, task
from airflow.operators.python import get_current_context


@dag(schedule_interval="@hourly", start_date=pendulum.datetime(2024, 5, 1, tz="Europe/Zurich"))
def taskflow_context():
    @task
    def window(data_interval_start=None, data_interval_end=None, params=None):
        return [str(data_interval_start), str(data_interval_end), params]

    @task
    def describe(pair):
        context = get_current_context()
        print(context["ds"], context["ti"].try_number, context["dag_run"].conf, pair)

    describe(window())


dag = taskflow_context()
