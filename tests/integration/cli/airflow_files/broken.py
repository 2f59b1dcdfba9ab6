from airflow import DAG
with DAG("broken":
    pass
