from airflow.sdk import DAG
from airflow.providers.standard.operators.bash import BashOperator

with DAG("bash", schedule="*/15 * * * *") as dag:
    submit = BashOperator(
        task_id="submit",
        bash_command="""spark-submit --master yarn --deploy-mode cluster \\
            --num-executors 4 --executor-memory 8g --py-files s3://b/a.zip \\
            --conf "spark.sql.session.timeZone=UTC" --jars x.jar \\
            s3://b/jobs/daily.py --day '{{ ds }}' --name "two words" """,
    )
    both = BashOperator(task_id="both", bash_command="spark-submit a.py && spark-submit b.py")
    tool = BashOperator(task_id="tool", bash_command="dbt run --select orders")
    lines = BashOperator(task_id="lines", bash_command="set -e\necho one | cat\nsleep 2")
    quote = BashOperator(task_id="quote", bash_command="echo 'unbalanced")
    submit >> [both, tool] >> lines
    lines >> quote
