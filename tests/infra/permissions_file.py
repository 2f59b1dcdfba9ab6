"""What functions and people may do, as lines that are reviewed: `permissions.txt`.

    [claim]
    sqs:SendMessage        queue/claims
    events:PutEvents       bus/default       if events:source is lamplighter

Owns: the way from a policy to lines, and from a call that a handler makes to the lines it needs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lamplighter_local.resources import APPLICATION
from tests.tools.function_calls import FunctionCall

# Names the file into which scenarios write the permissions that they used.
USED_FILE = "LAMPLIGHTER_USED_PERMISSIONS"
# A bucket, and a queue, that watchers listen to.
WATCHED = "watched"
# A state machine that tasks may start.
NAMED = "named"
FILE = Path(__file__).with_name("permissions.txt")

_TRANSACTION = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}
_WITHOUT_BATCH = {
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
    "DeleteMessageBatch": "DeleteMessage",
    "SendMessageBatch": "SendMessage",
}
# What is referred to in a template, by how its logical id begins.
_REFERENCES = {"<Key": "key", "<SparkJobRole": "role/jobs", "<StorageBucket": "bucket"}
_ON_JOBS = frozenset({"GetJobRun", "CancelJobRun", "GetDashboardForJobRun"})


class Need(NamedTuple):
    """One action on one thing, in the words of the file."""

    action: str
    thing: str


class Line(NamedTuple):
    """One line of the file."""

    action: str
    thing: str
    condition: str = ""
    effect: str = ""

    def __str__(self) -> str:
        """Return the line."""
        text = f"{self.effect}{self.action:<32} {self.thing:<38} {self.condition}"
        return text.rstrip()

    def allows(self, need: Need) -> bool:
        """Return whether it is this line that allows something."""
        same = self.action == need.action and not self.effect
        return same and fnmatchcase(need.thing, self.thing)


# From policies.


def lines_of(policy: Mapping[str, Any], *, stack: str) -> list[Line]:
    """Return a policy of a template as lines; `stack` is the name that all names begin with."""
    found = [line for each in policy["Statement"] for line in _of_statement(each, stack)]
    return sorted(found)


def _of_statement(statement: Mapping[str, Any], stack: str) -> Iterator[Line]:
    from tests.infra.synthesis import short  # noqa: PLC0415 - scenarios read files, without a CDK

    condition = " and ".join(
        f"if {key} is {', '.join(short(text) for text in _listed(value))}"
        for test in statement.get("Condition", {}).values()
        for key, value in test.items()
    )
    effect = "" if statement["Effect"] == "Allow" else "never: "
    for action in _listed(statement["Action"]):
        for resource in _listed(statement["Resource"]):
            yield Line(action, thing_of(short(resource), stack), condition, effect)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def thing_of(arn: str, stack: str) -> str:
    """Return what an ARN names, without what all of them have in common."""
    if arn.startswith("<"):
        return next(
            name + arn.partition(">")[2] for start, name in _REFERENCES.items() if start in arn
        )
    if arn == "*":
        return arn
    _, _, service, _, _, name = arn.split(":", 5)
    name = name.replace(f"{stack}-", "")
    match service:
        case "sqs":
            return f"queue/{name}"
        case "s3":
            bucket, slash, keys = name.partition("/")
            own = re.fullmatch(r"\d{12}-[a-z0-9-]+", bucket)
            return f"{'bucket' if own else bucket}{slash}{keys}"
        case "emr-serverless":
            return re.sub(r"^/applications/[^/]+", "application", name)
        case "events":
            return name.replace("event-bus", "bus")
    return name


# From calls.


def needs(call: FunctionCall, *, prefix: str) -> Iterator[Need]:
    """Yield what a call needs; `prefix` is what the names of the deployment begin with."""
    given = call.arguments
    match call.service:
        case "dynamodb":
            yield from _on_tables(call.operation, given, prefix)
        case "sqs":
            name = given.get("QueueName") or given["QueueUrl"].rpartition("/")[2]
            operation = _WITHOUT_BATCH.get(call.operation, call.operation)
            yield Need(f"sqs:{operation}", f"queue/{name.removeprefix(prefix)}")
        case "s3":
            yield _on_objects(call.operation, given, prefix)
        case "emr-serverless":
            yield from _on_jobs(call.operation, given)
        case "stepfunctions":
            yield _on_state_machines(call.operation)
        case "lambda":
            function = given["FunctionName"].removeprefix(prefix)
            yield Need("lambda:InvokeFunction", f"function:{function}")
        case "events":
            for entry in given["Entries"]:
                yield Need("events:PutEvents", f"bus/{entry['EventBusName']}")
        case "sts" | "cloudformation":
            return  # anyone may ask who they are; stacks have names of their own in tests
        case _:
            raise ValueError(f"nobody has ever called {call.service}")


def _on_objects(operation: str, given: Mapping[str, Any], prefix: str) -> Need:
    if operation == "ListObjectsV2" and given["Bucket"].startswith(prefix):
        return Need("s3:ListBucket", "bucket")
    if operation == "ListObjectsV2":
        # Whatever it is called, it stands for one that a flag names.
        return Need("s3:ListBucket", WATCHED)
    return Need(f"s3:{operation.replace('Head', 'Get')}", f"bucket/{given['Key']}")


def _on_state_machines(operation: str) -> Need:
    # Whatever it is called, as above.
    is_start = operation == "StartExecution"
    thing = f"stateMachine:{NAMED}" if is_start else f"execution:{NAMED}:one"
    return Need(f"states:{operation}", thing)


def _on_jobs(operation: str, given: Mapping[str, Any]) -> Iterator[Need]:
    assert given["applicationId"] == APPLICATION
    job = f"/jobruns/{given['jobRunId']}" if operation in _ON_JOBS else ""
    yield Need(f"emr-serverless:{operation}", f"application{job}")
    if operation == "StartJobRun":
        yield Need("iam:PassRole", "role/jobs")
        yield Need("emr-serverless:TagResource", "application/jobruns/new")


def _on_tables(operation: str, given: Mapping[str, Any], prefix: str) -> Iterator[Need]:
    def table(name: str) -> str:
        return f"table/{name.removeprefix(prefix)}"

    if operation.startswith("Transact"):
        for item in given["TransactItems"]:
            for kind, action in item.items():
                yield Need(f"dynamodb:{_TRANSACTION[kind]}", table(action["TableName"]))
    elif operation.startswith("Batch"):
        for name in given["RequestItems"]:
            yield Need(f"dynamodb:{operation}", table(name))
    else:
        index = f"/index/{given['IndexName']}" if "IndexName" in given else ""
        yield Need(f"dynamodb:{operation}", table(given["TableName"]) + index)


# The file.


def read_lines(name: str, file: Path = FILE) -> list[Line]:
    """Return the lines of one function, or of whoever else has a section."""
    return read_sections(file)[name]


@cache
def read_sections(file: Path = FILE) -> dict[str, list[Line]]:
    """Return the lines of all sections."""
    sections: dict[str, list[Line]] = {}
    lines: list[Line] = []
    for text in filter(None, file.read_text().splitlines()):
        if text.startswith("["):
            lines = sections.setdefault(text.strip("[]"), [])
            continue
        is_never = text.startswith("never: ")
        words = text.removeprefix("never: ").split(maxsplit=2)
        condition = words[2] if len(words) == 3 else ""
        lines.append(Line(words[0], words[1], condition, "never: " if is_never else ""))
    return sections


def write_sections(sections: Mapping[str, Sequence[Line]], file: Path = FILE) -> None:
    """Replace the file."""
    texts = ["\n".join([f"[{name}]", *map(str, sections[name])]) for name in sorted(sections)]
    file.write_text("\n\n".join(texts) + "\n")
    read_sections.cache_clear()


# Calls held against the file.


class CheckedPermissions:
    """What functions did with their permissions."""

    def __init__(self, prefix: str, *, beside: str | None = None) -> None:
        """Hold calls against the section of the same name, and one that everyone has beside it."""
        self._prefix = prefix
        self._beside = read_lines(beside) if beside is not None else []
        self._lines: dict[str, list[Line]] = {}
        # What was called without permission, by function.
        self.forbidden: set[tuple[str, Need]] = set()
        # Which lines allowed something: function, action and thing.
        self.used: set[tuple[str, str, str]] = set()

    def note(self, call: FunctionCall) -> None:
        """Hold a call against the permissions of its function."""
        if call.function not in self._lines:
            self._lines[call.function] = [*read_lines(call.function), *self._beside]
        for need in needs(call, prefix=self._prefix):
            lines = [line for line in self._lines[call.function] if line.allows(need)]
            self.used |= {(call.function, line.action, line.thing) for line in lines}
            if not lines:
                self.forbidden.add((call.function, need))
