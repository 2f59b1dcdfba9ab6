"""The four calls of EMR Serverless that the library makes, answered from memory.

Owns: the memory of client tokens. Refuses: requests that the service would refuse.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from lamplighter import clock
from lamplighter.errors import RefusedError
from lamplighter.executors.base import JobState
from lamplighter.zones import as_utc
from lamplighter_local.emr import answers as emr_answers
from lamplighter_local.emr.job import Change, FakeJob
from lamplighter_local.emr.jobs import FakeJobs
from lamplighter_local.emr.requests import check, refuse
from lamplighter_local.emr.scripts import JobScripts, step_of

_PAGE = 50
_REFUSALS = frozenset(
    {
        "AccessDeniedException",
        "ConflictException",
        "InternalServerException",
        "ResourceNotFoundException",
        "ServiceQuotaExceededException",
        "ServiceUnavailableException",
        "ThrottlingException",
        "TooManyRequestsException",
        "ValidationException",
    }
)


class EmrService:
    """One application, with its jobs and what shall become of them.

    Calls must come one at a time, and only when all has happened that comes until now.
    """

    def __init__(
        self, application_id: str, release_label: str, jobs: FakeJobs, scripts: JobScripts
    ) -> None:
        self.application_id = application_id
        self.release_label = release_label
        self.remembers_tokens = True
        self.page_size = _PAGE
        self.billing_seconds = 0.0
        self._jobs = jobs
        self._scripts = scripts
        self._tokens: dict[str, str] = {}
        self._refusals: dict[str, list[str]] = {}

    def refuse_next(self, operation: str, code: str, times: int) -> None:
        """Let the next calls of an operation be refused with an error code of the service."""
        if operation not in self._operations:
            raise RefusedError(f"{operation} is not one of {', '.join(self._operations)}")
        if code not in _REFUSALS:
            raise RefusedError(f"{code} is not one of {', '.join(sorted(_REFUSALS))}")
        self._refusals.setdefault(operation, []).extend([code] * times)

    def forget_tokens(self) -> None:
        """Let every client token that was used be as good as new."""
        self._tokens.clear()

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request, or raise the `ClientError` that a refusal becomes."""
        if operation not in self._operations:
            raise RefusedError(f"the fake EMR Serverless does not support {operation}")
        if codes := self._refusals.get(operation):
            refuse(operation, codes.pop(0), "injected")
        sent = copy.deepcopy(dict(request))
        check(operation, sent)
        if sent["applicationId"] != self.application_id:
            message = f"Application {sent['applicationId']} does not exist."
            refuse(operation, "ResourceNotFoundException", message)
        return self._operations[operation](self, sent)

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        token = request["clientToken"]
        known = self._tokens.get(token) if self.remembers_tokens else None
        job = self._jobs.by_id[known] if known else self._new_job(token, request)
        return {
            "applicationId": self.application_id,
            "jobRunId": job.job_run_id,
            "arn": job.arn,
        }

    def _new_job(self, token: str, request: dict[str, Any]) -> FakeJob:
        arguments = request["jobDriver"].get("sparkSubmit", {}).get("entryPointArguments", [])
        step = step_of(arguments[0]) if len(arguments) == 1 else step_of("")
        job = FakeJob(
            job_run_id=f"00fake{len(self._jobs.by_id) + 1:06}",
            application_id=self.application_id,
            release_label=self.release_label,
            name=request.get("name", ""),
            token=token,
            dag=step.dag,
            run_key=step.run_key,
            task=step.task,
            submission=step.submission,
            request=request,
            outcome=self._scripts.take(step.dag, step.task),
            takes=self._scripts.seconds(
                step.dag, step.task, otherwise=self._jobs.pace.takes_seconds
            ),
            timeline=(Change(JobState.SUBMITTED, clock.now()),),
        )
        self._jobs.add(job)
        self._tokens[token] = job.job_run_id
        return job

    def _get(self, request: dict[str, Any]) -> dict[str, Any]:
        job = self._find("GetJobRun", request)
        billed_at = job.ended_at and job.ended_at.add(seconds=self.billing_seconds)
        is_billed = billed_at is not None and billed_at <= clock.now()
        return {"jobRun": emr_answers.description(job, is_billed=is_billed)}

    def _cancel(self, request: dict[str, Any]) -> dict[str, Any]:
        job = self._find("CancelJobRun", request)
        if job.state.is_over:
            message = f"Job run {job.job_run_id} is not in a cancellable state"
            refuse("CancelJobRun", "ValidationException", message)
        self._jobs.cancel(job, clock.now())
        return {"applicationId": self.application_id, "jobRunId": job.job_run_id}

    def _find(self, operation: str, request: dict[str, Any]) -> FakeJob:
        job = self._jobs.by_id.get(request["jobRunId"])
        if job is None:
            message = f"Job run {request['jobRunId']} does not exist."
            refuse(operation, "ResourceNotFoundException", message)
        return job

    def _list(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return a page of jobs, the newest first."""
        ids = list(self._jobs.by_id)
        token = request.get("nextToken")
        if token is not None:
            if token not in self._jobs.by_id:
                refuse("ListJobRuns", "ValidationException", f"nextToken {token} is not known")
            ids = ids[: ids.index(token)]
        jobs = [self._jobs.by_id[job_run_id] for job_run_id in reversed(ids)]
        found = [job for job in jobs if _is_asked_for(job, request)]
        size = min(request.get("maxResults", _PAGE), self.page_size)
        answer: dict[str, Any] = {"jobRuns": [emr_answers.summary(job) for job in found[:size]]}
        if len(found) > size:
            answer["nextToken"] = found[size - 1].job_run_id
        return answer

    _operations: Mapping[str, Callable[["EmrService", dict[str, Any]], dict[str, Any]]] = {
        "StartJobRun": _start,
        "GetJobRun": _get,
        "ListJobRuns": _list,
        "CancelJobRun": _cancel,
    }


def _is_asked_for(job: FakeJob, request: dict[str, Any]) -> bool:
    states = request.get("states")
    mode = request.get("mode")
    after, before = request.get("createdAtAfter"), request.get("createdAtBefore")
    return (
        (not states or job.state in states)
        and (mode is None or mode == job.request.get("mode", "BATCH"))
        # Inclusive: on a clock that stands still a job is as old as the wish for it.
        and (after is None or job.created_at >= as_utc(after))
        and (before is None or job.created_at <= as_utc(before))
    )
