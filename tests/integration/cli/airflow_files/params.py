from airflow.sdk import DAG, Param, task

with DAG(
    "params",
    schedule=None,
    params={"days": Param(1, type="integer", minimum=1), "mode": Param("new", enum=["new", "all"]), "limit": 5},
    render_template_as_native_obj=True,
) as dag:

    @task
    def use(params: dict, days):
        print(params["mode"], days)

    use(days="{{ params.days }}")
