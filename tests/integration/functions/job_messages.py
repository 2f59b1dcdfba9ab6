"""Runs to be executed, the messages that `submit` and `settle` get, and what became of them."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from lamplighter import DAG, SparkTask, aws
from lamplighter.store.models import Steps
from lamplighter.store.rows import connection
from lamplighter_local import handlers
from lamplighter_local.emulator.moto_memory import queues
from lamplighter_local.stack import LocalStack
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import register_dags
from tests.tools.faults import Crash, Faults

DAG_ID, RUN_ID = "dag", "first"
KEY = f"~{RUN_ID}"
JOB = "jobs.x:main"
FIRST_JOB = "00fake000001"
APPLICATION = "00local"


def one_task(dag_id: str = DAG_ID, **arguments: Any) -> DAG:
    """Return a DAG with the task `t`."""
    with DAG(dag_id) as dag:
        SparkTask("t", job=JOB, **arguments)
    return dag


def two_parents() -> DAG:
    """Return a DAG in which `c` follows `a` and `b`."""
    with DAG(DAG_ID) as dag:
        [SparkTask("a", job=JOB), SparkTask("b", job=JOB)] >> SparkTask("c", job=JOB)
    return dag


def queue_run(*dags: DAG) -> None:
    """Register DAGs, and ask for a run of each by hand; nothing is delivered."""
    register_dags(*dags)
    for dag in dags:
        create_manual_run(dag.dag_id, logical_date=None, run_id=RUN_ID)


def record(body: object, message_id: str = "message") -> dict[str, Any]:
    """Return a message as Lambda hands it over; what is not a string becomes JSON."""
    return {
        "messageId": message_id,
        "receiptHandle": "handle",
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:queue",
        "awsRegion": "us-east-1",
    }


def of_run(dag_id: str = DAG_ID, key: str = KEY) -> dict[str, Any]:
    """Return the message that asks for one run to be moved on."""
    return {"runs": [[dag_id, key]]}


def of_job(job_run_id: str = FIRST_JOB, *, application: str = APPLICATION) -> dict[str, Any]:
    """Return what EventBridge sends about a job; the state that it tells is never believed."""
    return {
        "version": "0",
        "detail-type": "EMR Serverless Job Run State Change",
        "source": "aws.emr-serverless",
        "detail": {"jobRunId": job_run_id, "applicationId": application, "state": "RUNNING"},
    }


def of_bill(job_run_id: str = FIRST_JOB, *, is_final: bool = True) -> dict[str, Any]:
    """Return what EventBridge sends about the usage of a job."""
    detail = {"jobRunId": job_run_id, "applicationId": APPLICATION}
    return {
        "version": "0",
        "detail-type": "EMR Serverless Job Resource Utilization Update",
        "source": "aws.emr-serverless",
        "detail": {**detail, "resourceUtilizationFinal": is_final},
    }


def submit(*bodies: object) -> list[int]:
    """Call `submit` with messages; return the positions of those that come again."""
    return _call("submit", bodies)


def settle(*bodies: object) -> list[int]:
    """Call `settle` with messages; return the positions of those that come again."""
    return _call("settle", bodies)


def _call(function: str, bodies: tuple[object, ...]) -> list[int]:
    records = [record(body, str(at)) for at, body in enumerate(bodies)]
    answer = handlers.call(function, {"Records": records})
    return [int(item["itemIdentifier"]) for item in answer["batchItemFailures"]]


def step(task: str = "t", dag_id: str = DAG_ID) -> Steps:
    """Return the row of a step."""
    return Steps.get(f"{dag_id}|{KEY}", task, consistent_read=True)


def states(stack: LocalStack, dag_id: str = DAG_ID) -> list[str]:
    """Return the states of a DAG's run and its steps."""
    (run,) = stack.runs(dag_id)
    return [run.state, *(row.state for _, row in sorted(stack.steps(run).items()))]


def wait(stack: LocalStack, **duration: float) -> None:
    """Let time pass in which nothing is delivered."""
    stack.clock.advance(timedelta(**duration))


def lose_messages(*names: str) -> None:
    """Let everything be gone from some queues."""
    for queue in queues():
        if queue.name.removeprefix("local-") in names:
            queue._messages.clear()


def messages_on(name: str) -> list[Any]:
    """Return the bodies of the messages on a queue, whether they can be received yet or not."""
    (found,) = [queue for queue in queues() if queue.name == f"local-{name}"]
    return [json.loads(message.body) for message in found._messages]


@contextmanager
def fault(kind: Any, operation: str, call: int = 1) -> Iterator[Faults]:
    """Let one call of an operation go wrong; whoever dies of it is dead, and no more."""
    faults = Faults()
    faults.at(call, kind, operation)
    services = (aws.client(name) for name in ("sqs", "s3", "emr-serverless"))
    with faults.on(connection().client, *services), suppress(Crash):
        yield faults
    assert not faults.pending


@contextmanager
def before_call(operation: str, do: Callable[[], object]) -> Iterator[None]:
    """Let something happen just before EMR Serverless is called like this for the first time."""
    client: Any = aws.client("emr-serverless")
    send = client._make_api_call
    waiting = [do]

    def send_later(name: str, request: Any) -> Any:
        if name == operation and waiting:
            waiting.pop()()
        return send(name, request)

    client._make_api_call = send_later
    try:
        yield
    finally:
        del client._make_api_call
    assert not waiting
