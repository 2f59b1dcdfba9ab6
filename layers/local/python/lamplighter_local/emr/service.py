"""The calls of EMR Serverless that the library makes, answered from memory.

Owns: the rates of calls. Refuses: requests that the service would refuse.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import dropwhile, islice
from typing import Any

from lamplighter import clock
from lamplighter.errors import RefusedError
from lamplighter.executors.base import JobState
from lamplighter.zones import as_utc
from lamplighter_local.emr import answers as emr_answers
from lamplighter_local.emr.application import FakeApplication
from lamplighter_local.emr.behaviour import EmrBehaviour
from lamplighter_local.emr.client_tokens import ClientTokens
from lamplighter_local.emr.job import Change, FakeJob
from lamplighter_local.emr.jobs import FakeJobs
from lamplighter_local.emr.rates import TokenBuckets
from lamplighter_local.emr.requests import check, refuse
from lamplighter_local.emr.scripts import JobScripts, step_of
from lamplighter_local.emr.workers import JobSize

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
        self.page_size = _PAGE
        self.tokens = ClientTokens()
        # By operation: all calls, and those that came too often.
        self.calls: Counter[str] = Counter()
        self.throttles: Counter[str] = Counter()
        self._application = FakeApplication(application_id, release_label)
        self._buckets = TokenBuckets()
        self._jobs = jobs
        self._scripts = scripts
        self._refusals: dict[str, list[str]] = {}

    def refuse_next(self, operation: str, code: str, times: int) -> None:
        """Let the next calls of an operation be refused with an error code of the service."""
        if operation not in self._operations:
            raise RefusedError(f"{operation} is not one of {', '.join(self._operations)}")
        if code not in _REFUSALS:
            raise RefusedError(f"{code} is not one of {', '.join(sorted(_REFUSALS))}")
        self._refusals.setdefault(operation, []).extend([code] * times)

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request, or raise the `ClientError` that a refusal becomes."""
        if operation not in self._operations:
            raise RefusedError(f"the fake EMR Serverless does not support {operation}")
        self.calls[operation] += 1
        self._throttle(operation)
        if codes := self._refusals.get(operation):
            refuse(operation, codes.pop(0), "injected")
        sent = copy.deepcopy(dict(request))
        check(operation, sent)
        if sent["applicationId"] != self.application_id:
            message = f"Application {sent['applicationId']} does not exist."
            refuse(operation, "ResourceNotFoundException", message)
        return self._operations[operation](self, sent)

    def _throttle(self, operation: str) -> None:
        """Refuse a call that comes too often.

        Botocore would send it again within a second or two, and raise this when its attempts are
        used up. Here no time passes during a call, so that a further attempt would find what the
        first has found; and where many call at once, they also take the tokens of those seconds.
        So a call is answered as the last attempt is, and counts once.
        """
        rate = self._behaviour.rates.get(operation)
        if rate is None or self._buckets.take(operation, rate, clock.now()):
            return
        self.throttles[operation] += 1
        refuse(operation, "ThrottlingException", "Rate exceeded")

    @property
    def _behaviour(self) -> EmrBehaviour:
        return self._jobs.behaviour

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        token = request["clientToken"]
        lifetime = self._behaviour.client_token_seconds
        known = self.tokens.job_run_id(token, clock.now(), lifetime)
        job = self._jobs.by_id[known] if known else self._new_job(token, request)
        return {
            "applicationId": self.application_id,
            "jobRunId": job.job_run_id,
            "arn": job.arn,
        }

    def _new_job(self, token: str, request: dict[str, Any]) -> FakeJob:
        now, state = clock.now(), self._application_state()
        self._refuse_unsuitable(request, state)
        job = self._made_job(token, request)
        application_at = self._application.start(now, self._behaviour, state)
        self._jobs.add(job, application_at=application_at)
        self.tokens.remember(token, job.job_run_id, now)
        return job

    def _refuse_unsuitable(self, request: dict[str, Any], state: str) -> None:
        """Refuse a job that the application, or the account, does not take now."""
        behaviour = self._behaviour
        # How the service says these things is not documented.
        if state == "STOPPING":
            message = f"Application {self.application_id} cannot run jobs: its state is {state}."
            refuse("StartJobRun", "ValidationException", message)
        longest, asked = behaviour.max_timeout_minutes, request.get("executionTimeoutMinutes")
        if longest is not None and asked is not None and not 0 < asked <= longest:
            message = f"executionTimeoutMinutes of a batch job must be at most {longest}"
            refuse("StartJobRun", "ValidationException", message)
        limit = behaviour.max_queued_jobs
        if limit is not None and self._jobs.queued() >= limit:
            message = f"The account has {limit} queued jobs."
            refuse("StartJobRun", "ServiceQuotaExceededException", message)

    def _made_job(self, token: str, request: dict[str, Any]) -> FakeJob:
        arguments = request["jobDriver"].get("sparkSubmit", {}).get("entryPointArguments", [])
        step = step_of(arguments[0]) if len(arguments) == 1 else step_of("")
        worker = self._behaviour.worker
        return FakeJob(
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
            size=JobSize.of(request) if worker is None else JobSize(worker),
        )

    def _get(self, request: dict[str, Any]) -> dict[str, Any]:
        job = self._find("GetJobRun", request)
        return {"jobRun": emr_answers.description(job, self._behaviour)}

    def _get_dashboard(self, request: dict[str, Any]) -> dict[str, Any]:
        job = self._find("GetDashboardForJobRun", request)
        if job.running_at is None:
            message = f"Job run {job.job_run_id} has no dashboard: its state is {job.state}."
            refuse("GetDashboardForJobRun", "ValidationException", message)
        return {"url": emr_answers.dashboard_url(job)}

    def _get_application(self, _: dict[str, Any]) -> dict[str, Any]:
        state = self._application_state()
        return {"application": self._application.description(clock.now(), self._behaviour, state)}

    def _application_state(self) -> str:
        now = clock.now()
        return self._application.state(now, self._behaviour, self._jobs.busy_until(now))

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
        token = request.get("nextToken")
        if token is not None and token not in self._jobs.by_id:
            refuse("ListJobRuns", "ValidationException", f"nextToken {token} is not known")
        found = self._newest_first(request)
        size = min(request.get("maxResults", _PAGE), self.page_size)
        page = list(islice(found, size))
        answer: dict[str, Any] = {"jobRuns": [emr_answers.summary(job) for job in page]}
        if page and next(found, None) is not None:
            answer["nextToken"] = page[-1].job_run_id
        return answer

    def _newest_first(self, request: dict[str, Any]) -> Iterator[FakeJob]:
        """Yield the jobs that are asked for, after the one that the page token names."""
        jobs = reversed(self._jobs.by_id.values())
        if (token := request.get("nextToken")) is not None:
            jobs = dropwhile(lambda job: job.job_run_id != token, jobs)
            next(jobs)
        after = request.get("createdAtAfter")
        for job in jobs:
            # Inclusive: on a clock that stands still a job is as old as the wish for it.
            if after is not None and job.created_at < as_utc(after):
                return
            if _is_asked_for(job, request):
                yield job

    _operations: Mapping[str, Callable[["EmrService", dict[str, Any]], dict[str, Any]]] = {
        "StartJobRun": _start,
        "GetJobRun": _get,
        "ListJobRuns": _list,
        "CancelJobRun": _cancel,
        "GetApplication": _get_application,
        "GetDashboardForJobRun": _get_dashboard,
    }


def _is_asked_for(job: FakeJob, request: dict[str, Any]) -> bool:
    states = request.get("states")
    mode = request.get("mode")
    before = request.get("createdAtBefore")
    return (
        (not states or job.state in states)
        and (mode is None or mode == job.request.get("mode", "BATCH"))
        and (before is None or job.created_at <= as_utc(before))
    )
