from airflow.sdk import DAG, Asset, AssetWatcher
from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.providers.standard.operators.empty import EmptyOperator

trigger = MessageQueueTrigger(queue="https://sqs.us-east-1.amazonaws.com/0123456789/q")
asset = Asset("queue_asset", watchers=[AssetWatcher(name="w", trigger=trigger)])

with DAG(dag_id="custom_trigger", schedule=[asset]):
    EmptyOperator(task_id="task")
