"""Jobs that are executions of state machines of AWS Step Functions.

Owns: the calls of its API, its errors and events, and what the end of an execution means for its
step. An execution has the token of its submission as its name, so that its ARN is known before it
is started, and nobody can start it twice. Refuses: EXPRESS state machines, which know no names.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lamplighter import aws, settings
from lamplighter.dags.kinds import ABOUT, StepFunctionsTask
from lamplighter.dags.task import Task
from lamplighter.errors import (
    UNREADABLE,
    PermanentError,
    RefusedError,
    ThrottledError,
    TransientError,
    readable,
)
from lamplighter.executors.base import Executor, Job, JobRequest, JobState, Submission
from lamplighter.zones import as_utc, iso

# The `detail-type` of executions on EventBridge.
EVENT_TYPE = "Step Functions Execution Status Change"
# The error of a Fail state by which a state machine skips its step; the cause is the reason.
SKIP = "SkipStep"
# In place of a name in `state_machines`, on a local deployment.
EVERY = "*"
# What Step Functions accepts.
MAX_INPUT_BYTES = 262_144
_STATES = {
    "RUNNING": JobState.RUNNING,
    "PENDING_REDRIVE": JobState.RUNNING,
    "SUCCEEDED": JobState.SUCCESS,
    "FAILED": JobState.FAILED,
    "TIMED_OUT": JobState.FAILED,
    "ABORTED": JobState.CANCELLED,
}
_REFUSED = frozenset(
    {
        "InvalidArn",
        "InvalidExecutionInput",
        "InvalidName",
        "StateMachineDeleting",
        "StateMachineDoesNotExist",
        "ValidationException",
    }
)
_THROTTLED = frozenset(
    {"KmsThrottlingException", "ThrottlingException", "TooManyRequestsException"}
)
_TRANSIENT = frozenset({"ExecutionLimitExceeded", "InternalFailure", "ServiceUnavailable"})
_SERVER_ERROR = 500
# Consoles of partitions other than `aws`.
_CONSOLES = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}
_PARTITION, _REGION = 1, 3


class StepFunctions(Executor):
    """The state machines that the settings name."""

    name = "step-functions"
    # Names are reserved for 90 days.
    forgets_tokens = False
    # It is told of none: the scheduler stops what takes too long.
    min_timeout = timedelta.max
    # An execution costs what the services behind it cost, which nobody tells.
    bills_jobs = False
    keeps_reports = True
    streams = ("history",)

    def check(self, task: Task) -> list[str]:
        """Return what it could never run of a task's options, each with the fix, in one line."""
        assert isinstance(task, StepFunctionsTask)
        is_named = _machine_arn(task.state_machine) is not None
        return [*super().check(task), *([] if is_named else [_not_named(task.state_machine)])]

    def start(self, request: JobRequest) -> str:
        """Start an execution and return its ARN; that of a known token is returned as it is."""
        machine = _machine_arn(request.state_machine)
        if machine is None:
            raise RefusedError(_not_named(request.state_machine))
        with suppress(_ExistsError):
            answer = _call(
                "start_execution",
                stateMachineArn=machine,
                name=request.token,
                input=_text_of(request.input),
            )
            _refuse_express(answer["executionArn"], request.state_machine)
        return _execution_arn(machine, request.token)

    def find(self, submission: Submission) -> str | None:
        """Return the ARN of the execution that a submission has started, if there is one."""
        named = getattr(submission.task, "state_machine", "")
        machine = _machine_arn(named)
        if machine is None:
            raise PermanentError(f"task {submission.task.task_id!r}: {_not_named(named)}")
        arn = _execution_arn(machine, submission.token)
        return arn if self.describe(arn) is not None else None

    def describe(self, job_run_id: str) -> Job | None:
        """Return the current state of an execution, or None if it does not exist."""
        try:
            return _job(_call("describe_execution", executionArn=job_run_id))
        except _NotFoundError:
            return None

    def cancel(self, job_run_id: str) -> None:
        """Stop an execution, and with it the jobs of other services that it waits for."""
        # It may be over, or so long ago that it is forgotten.
        with suppress(_NotFoundError, RefusedError):
            _call("stop_execution", executionArn=job_run_id, cause="Lamplighter has cancelled it")

    def read_event(self, event: Mapping[str, Any]) -> str | None:
        """Return the execution that an event is about, if it is of a state machine of ours."""
        if event.get("detail-type") != EVENT_TYPE:
            return None
        detail = event["detail"]
        is_ours = _machine_arn(detail["stateMachineArn"]) is not None
        return str(detail["executionArn"]) if is_ours else None

    def read_log(self, job_run_id: str, stream: str) -> Iterator[str] | None:  # noqa: ARG002 - it has one
        """Return the history of an execution, an event a line, lazily; None if it has none."""
        if self.describe(job_run_id) is None:
            return None
        return (_line(event) for event in _events(job_run_id))

    def ui_url(self, job_run_id: str) -> str:
        """Return the address of an execution in the console, for those who may sign in there."""
        parts = job_run_id.split(":")
        region = parts[_REGION]
        console = _CONSOLES.get(parts[_PARTITION], "console.aws.amazon.com")
        place = f"states/home?region={region}#/v2/executions/details/{job_run_id}"
        return f"https://{region}.{console}/{place}"


def _machine_arn(named: str) -> str | None:
    """Return the ARN of a state machine, given as name or ARN; None if it is not one of ours."""
    given = settings.current()
    name = named.rpartition(":")[2]
    arn = f"{given.state_machine_prefix}{name}"
    is_ours = bool({name, EVERY} & set(given.state_machines))
    return arn if is_ours and named in {name, arn} else None


def _not_named(named: str) -> str:
    return (
        f"state_machine: this deployment may not start {named!r}: add its name to the flag"
        " state_machines and deploy"
    )


def _execution_arn(machine: str, name: str) -> str:
    return f"{machine.replace(':stateMachine:', ':execution:')}:{name}"


def _text_of(value: Mapping[str, Any]) -> str:
    text = readable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    if (size := len(text.encode())) > MAX_INPUT_BYTES:
        raise RefusedError(
            f"input: it has {size:,} bytes, and Step Functions takes {MAX_INPUT_BYTES:,}: put it"
            " into S3 and pass its address"
        )
    return text


def _refuse_express(execution: str, named: str) -> None:
    if ":express:" in execution:
        raise RefusedError(
            f"state_machine: {named!r} is EXPRESS, whose executions can neither be found nor"
            " stopped: use one of the type STANDARD"
        )


def _job(said: Mapping[str, Any]) -> Job:
    state, started_at, ended_at = _STATES[said["status"]], said.get("startDate"), None
    if state.is_over:
        ended_at = said.get("stopDate")
    is_skip = said["status"] == "FAILED" and said.get("error") == SKIP
    return Job(
        said["executionArn"],
        JobState.SUCCESS if is_skip else state,
        _context_uri(said),
        details=": ".join(filter(None, (said.get("error"), said.get("cause")))),
        started_at=as_utc(started_at) if started_at is not None else None,
        ended_at=as_utc(ended_at) if ended_at is not None else None,
        report=_report(said, is_skip=is_skip) if state.is_over else None,
    )


def _context_uri(said: Mapping[str, Any]) -> str:
    """Return the context of the step that an execution is for; none if others have started it.

    A state machine may hand its whole input on to another one: that execution is not the step's.
    """
    try:
        about = json.loads(said["input"])[ABOUT]
        return str(about["context_uri"]) if about["execution"] == said["name"] else ""
    except UNREADABLE:
        return ""


def _report(said: Mapping[str, Any], *, is_skip: bool) -> dict[str, Any]:
    """Return the end of an execution as the report that a job would leave."""
    if is_skip:
        return {"state": "skipped", "reason": said.get("cause")}
    if "output" not in said:
        return {}
    try:
        output = json.loads(said["output"])
    except UNREADABLE:  # nested too deeply; a text is refused as outputs, with the reason
        return {"outputs": said["output"]}
    return {"outputs": output if isinstance(output, dict) else {"output": output}}


def _events(execution: str) -> Iterator[dict[str, Any]]:
    page: dict[str, Any] = {"executionArn": execution}
    while True:
        answer = _call("get_execution_history", **page)
        yield from answer["events"]
        if not answer.get("nextToken"):
            return
        page["nextToken"] = answer["nextToken"]


def _line(event: Mapping[str, Any]) -> str:
    details = [value for key, value in event.items() if key.endswith("EventDetails")]
    said = "".join(f" {json.dumps(each, ensure_ascii=False, default=str)}" for each in details)
    return f"{iso(as_utc(event['timestamp']))} {event['type']}{said}\n"


class _NotFoundError(PermanentError):
    """The execution does not exist."""


class _ExistsError(PermanentError):
    """There is an execution of this name, which may be over."""


def _call(operation: str, **request: Any) -> dict[str, Any]:
    call = getattr(aws.client("stepfunctions"), operation)
    try:
        answer: dict[str, Any] = call(**request)
    except ClientError as error:
        raise _translate(error) from error
    except BotoCoreError as error:
        raise TransientError(f"Step Functions cannot be reached: {error}") from error
    return answer


def _translate(error: ClientError) -> Exception:
    code = error.response["Error"]["Code"]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "ExecutionAlreadyExists":
        return _ExistsError(f"Step Functions: {error}")
    if code == "ExecutionDoesNotExist":
        return _NotFoundError(f"Step Functions: {error}")
    if code in _REFUSED:
        return RefusedError(f"Step Functions refuses the execution: {error}")
    if code in _THROTTLED:
        return ThrottledError(f"Step Functions is asked too often: {error}")
    if code in _TRANSIENT or status >= _SERVER_ERROR:
        return TransientError(f"Step Functions is busy: {error}")
    return PermanentError(f"Step Functions: {error}")
