"""What a deployment holds at one instant, as values of JSON: read from a local one, put into one.

Owns: rows as DynamoDB has them, messages, objects, and the jobs of the fake services. Python jobs
that have begun are not put back: their function has ended meanwhile, as it does at an upgrade.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from lamplighter import aws
from lamplighter.store.models import TABLES
from lamplighter.topology import URL_SETTINGS
from lamplighter.zones import iso, parse_instant
from lamplighter_local import LocalDeployment
from lamplighter_local.aws_lambda.fake_lambda import FakeLambda
from lamplighter_local.emr.events import EventFaults
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.emulator.moto_memory import queue_at
from lamplighter_local.step_functions.fake import FakeStepFunctions

# What is small and text. Archives are made again from the bundle.
_OBJECTS = ("jobs/", "pushes/")
# What is long in a request, and does not change what becomes of the fake's job.
_LEFT_OUT = frozenset({"configurationOverrides", "executionIamPolicy", "tags"})
_SCAN = {"ConsistentRead": True}


def read_tables(lamp: LocalDeployment) -> dict[str, list[dict[str, Any]]]:
    """Return the items of each table, in the order of their keys."""
    found = {}
    for model in TABLES:
        pages = aws.client("dynamodb").get_paginator("scan")
        items = [
            item
            for page in pages.paginate(TableName=lamp.table_name(model.__name__), **_SCAN)
            for item in page["Items"]
        ]
        names = model.key_names()
        found[model.__name__] = sorted(items, key=lambda item: [str(item[n]) for n in names])
    return found


def put_tables(lamp: LocalDeployment, tables: Mapping[str, list[dict[str, Any]]]) -> None:
    """Put the items of tables."""
    for table, items in tables.items():
        for item in items:
            aws.client("dynamodb").put_item(TableName=lamp.table_name(table), Item=item)


def read_messages(lamp: LocalDeployment) -> list[dict[str, Any]]:
    """Return the messages in all queues, each with the seconds until it can be received."""
    now = lamp.now.timestamp() * 1000
    found = []
    for name in URL_SETTINGS:
        for message in queue_at(lamp.queue_url(name))._messages:
            visible = max(message.visible_at, message.delayed_until)
            attributes = message.message_attributes
            found.append(
                {
                    "queue": name,
                    "body": message.body,
                    "attributes": {key: _text(each) for key, each in attributes.items()},
                    "group": message.group_id,
                    "delay": max(0, round((visible - now) / 1000)),
                }
            )
    return found


def _text(attribute: Mapping[str, Any]) -> str:
    text: str = attribute["StringValue"]
    return text


def put_messages(lamp: LocalDeployment, messages: list[dict[str, Any]]) -> None:
    """Send messages as they were read; FIFO queues know no delay of one message."""
    for number, each in enumerate(messages):
        ordered = {"MessageGroupId": each["group"], "MessageDeduplicationId": f"put-{number}"}
        aws.client("sqs").send_message(
            QueueUrl=lamp.queue_url(each["queue"]),
            MessageBody=each["body"],
            MessageAttributes={
                name: {"DataType": "String", "StringValue": text}
                for name, text in each["attributes"].items()
            },
            **(ordered if each["group"] is not None else {"DelaySeconds": min(each["delay"], 900)}),
        )


def read_objects(lamp: LocalDeployment) -> dict[str, str]:
    """Return contexts, reports and announcements by key."""
    client, bucket = aws.client("s3"), lamp.stack.settings.bucket
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
    return {
        key: client.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
        for key in keys
        if key.startswith(_OBJECTS)
    }


def put_objects(lamp: LocalDeployment, objects: Mapping[str, str]) -> None:
    """Put objects, with nobody told of it."""
    for key, text in objects.items():
        bucket = lamp.stack.settings.bucket
        aws.client("s3").put_object(Bucket=bucket, Key=key, Body=text.encode())
    queue_at(lamp.queue_url("registers"))._messages.clear()


# Jobs: their services are not ours, and know them whatever we deploy.


def read_jobs(lamp: LocalDeployment) -> list[dict[str, Any]]:
    """Return what was asked of the services, oldest first, and how each job ends."""
    emr, machines = _fakes(lamp)
    jobs = [
        {
            "service": "emr",
            "at": iso(job.created_at),
            "id": job.job_run_id,
            "request": {key: job.request[key] for key in job.request if key not in _LEFT_OUT},
            "step": [job.dag, job.task],
            "outcome": asdict(job.outcome) | {"takes": job.outcome.takes or job.takes},
        }
        for job in emr.jobs
    ]
    jobs += [
        {
            "service": "stepfunctions",
            "at": iso(each.created_at),
            "id": each.job_run_id,
            "request": {
                "stateMachineArn": each.state_machine,
                "name": each.name,
                "input": each.input,
            },
            "step": [each.dag, each.task],
            "outcome": asdict(each.outcome),
        }
        for each in machines.executions
    ]
    return sorted(jobs, key=lambda job: str(job["at"]))


def put_jobs(lamp: LocalDeployment, jobs: list[dict[str, Any]]) -> None:
    """Let the services begin the same jobs at the same instants; the clock passes all of them.

    What they told then was told to the deployment of then.
    """
    emr, machines = _fakes(lamp)
    emr.events = machines.events = EventFaults(drop=1)
    for job in jobs:
        lamp.stack.clock.move(to=parse_instant(job["at"]))
        fake = emr if job["service"] == "emr" else machines
        dag, task = job["step"]
        fake.next_outcome(dag, task, Outcome(**job["outcome"]))
        operation, key = _STARTS[job["service"]]
        made = fake.call(operation, job["request"])[key]
        assert made == job["id"], f"job {job['id']} was put back as {made}"


_STARTS = {"emr": ("StartJobRun", "jobRunId"), "stepfunctions": ("StartExecution", "executionArn")}


def tell_of_jobs(lamp: LocalDeployment) -> None:
    """Let what jobs do from now on be told, and invoke the Python jobs that have not begun."""
    emr, machines = _fakes(lamp)
    for _ in (emr.take_events(), machines.executions):
        pass  # everything until now has happened
    emr.events = machines.events = EventFaults()
    assert lamp.stack.execution is not None
    python = lamp.stack.execution.fakes["python"]
    assert isinstance(python, FakeLambda)
    for job_id in _jobs_in(lamp, "SUBMITTED"):
        python.invoke(job_id)


def _jobs_in(lamp: LocalDeployment, state: str) -> Iterator[str]:
    for item in read_tables(lamp)["Jobs"]:
        if item["state"] == {"S": state}:
            yield item["job_id"]["S"]


def _fakes(lamp: LocalDeployment) -> tuple[FakeEmr, FakeStepFunctions]:
    assert lamp.stack.execution is not None
    fakes = lamp.stack.execution.fakes
    emr, machines = fakes["spark"], fakes["step_functions"]
    assert isinstance(emr, FakeEmr)
    assert isinstance(machines, FakeStepFunctions)
    return emr, machines


def shape(body: str) -> str:
    """Return what kind of message a body is: the names at its top."""
    try:
        data = json.loads(body)
    except ValueError:
        return "text"
    return ",".join(sorted(data)) if isinstance(data, dict) else type(data).__name__
