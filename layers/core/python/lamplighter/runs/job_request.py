"""One job of a step: its names, its context, the request to its executor, and its report.

Owns: the names that belong to one submission of one step, made from nothing but the row, so that
whoever repeats a submission finds what was there; the documents `context.json`, which a job is
given, and `report.json`, which it leaves; and which of a task's options its executor is told.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any, Self
from urllib.parse import quote, unquote

from botocore.exceptions import ClientError

from lamplighter import aws, settings
from lamplighter.assets import Asset, AssetAlias
from lamplighter.assets.asset import AssetRef
from lamplighter.dags import templates
from lamplighter.dags.dag import DAG
from lamplighter.dags.kinds import ABOUT, PythonTask, SparkTask, StepFunctionsTask
from lamplighter.dags.task import Task
from lamplighter.dags.template_rules import OUTPUTS
from lamplighter.errors import UNREADABLE, DefinitionError, RejectedError, readable
from lamplighter.events import fields
from lamplighter.events.lineage import RunEvents, triggering_asset_events
from lamplighter.executors.base import Job, JobRequest, data_of
from lamplighter.identifiers import OUTLET, bundle_key
from lamplighter.serialization import is_newer
from lamplighter.store.models import Runs, Steps
from lamplighter.store.rows import instant_text
from lamplighter.zones import iso_or_none

CONTEXT_VERSION = 1
REPORT_VERSION = 1

_PREFIX = "jobs"
_CONTEXT = "context.json"
_REPORT = "report.json"
_LONGEST_NAME = 256
_LONGEST_KEY = 1_024
_FOLDER = re.compile(
    rf"s3://([^/]+)/{_PREFIX}/([^/]+)/([^/]+)/([^/]+)/(\d+)-([0-9a-f]+)/{re.escape(_CONTEXT)}"
)
# Characters that AWS does not allow in a tag.
_NOT_IN_A_TAG = re.compile(r"[^A-Za-z0-9 /_.:=+@-]")
_LONGEST_TAG = 256
# Ninety outlets with 32 KB each.
_MAX_REPORT_BYTES = 4_000_000

_INSTANTS = ("logical_date", "data_interval_start", "data_interval_end", "run_after")


@dataclass(frozen=True)
class SubmissionKey:
    """The submission that a job belongs to, parsed from its only argument."""

    dag_id: str
    run_key: str
    task_id: str
    submission: int
    fingerprint: str

    @classmethod
    def read(cls, context_uri: str, *, bucket: str | None = None) -> Self | None:
        """Return the key in the URI of a context, or None if it is not in our bucket."""
        found = _FOLDER.fullmatch(context_uri)
        # Deployments may share an application and see each other's jobs.
        if found is None or bucket not in (None, found[1]):
            return None
        dag_id, run_key, task_id = (unquote(part) for part in found.group(2, 3, 4))
        return cls(dag_id, run_key, task_id, int(found[5]), found[6])


@dataclass(frozen=True)
class JobName:
    """One submission of one step of one run."""

    key: SubmissionKey
    # Includes the creation time of the run: a run created again under the same name after a
    # deletion is another run. Also the client token: an executor starts only one job per token.
    token: str

    @classmethod
    def of(cls, run: Runs, step: Steps) -> Self:
        """Return the name of a step's current submission."""
        step_names = (run.dag_id, run.run_key, step.step_id)
        number = int(step.submission)
        text = "|".join((*step_names, str(number), instant_text(run.created_at)))
        digest = hashlib.sha256(text.encode()).hexdigest()[:48]
        return cls(SubmissionKey(*step_names, number, digest[:12]), digest)

    @property
    def name(self) -> str:
        """The name of the job in the console."""
        key = self.key
        full = f"{key.dag_id}/{key.run_key}/{key.task_id}/{key.submission}"
        ending = f"#{key.fingerprint}"
        seen = "".join(char if char.isprintable() else "_" for char in full)
        return seen[: _LONGEST_NAME - len(ending)] + ending

    def context_uri(self, bucket: str) -> str:
        """Return the URI of the job's context."""
        name = self.key
        parts = (quote(part, safe="") for part in (name.dag_id, name.run_key, name.task_id))
        place = f"{name.submission}-{name.fingerprint}"
        key = f"{_PREFIX}/{'/'.join(parts)}/{place}/{_CONTEXT}"
        if len(key) > _LONGEST_KEY:
            raise DefinitionError(
                f"task {name.task_id!r}: the names of DAG, run and task are too long together: S3"
                f" takes {_LONGEST_KEY} characters, and they have {len(key)}"
            )
        return f"s3://{bucket}/{key}"

    @property
    def folder(self) -> str:
        """The folder of the context as a pattern in which `*` stands for run and task.

        They may be too long for a policy. The hash in the last part is of them, too.
        """
        key = self.key
        return f"{_PREFIX}/{quote(key.dag_id, safe='')}/*/{key.submission}-{key.fingerprint}"

    def event_id(self, asset: str) -> str:
        """Return the id of an outlet's event."""
        digest = hashlib.sha256(f"{self.token}|{asset}".encode()).hexdigest()
        return f"{OUTLET}{digest[:32]}"

    def tags(self, run_id: str) -> dict[str, str]:
        """Return tags for cost allocation."""
        values = {
            "lamplighter:dag_id": self.key.dag_id,
            "lamplighter:run_id": run_id,
            "lamplighter:task_id": self.key.task_id,
            "lamplighter:submission": str(self.key.submission),
        }
        return {key: _NOT_IN_A_TAG.sub("_", text)[:_LONGEST_TAG] for key, text in values.items()}


def report_uri(context_uri: str) -> str:
    """Return the URI of the job's report."""
    return context_uri.removesuffix(_CONTEXT) + _REPORT


@dataclass(frozen=True)
class PreparedJob:
    """A job that can be started: its step, the context to put first, and the request."""

    step: Steps
    context: str = field(repr=False)  # with the secret of the submission
    request: JobRequest


def prepare(
    run: Runs,
    step: Steps,
    dag: DAG,
    *,
    variables: Mapping[str, str],
    outputs: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    read_events: Callable[[Runs], RunEvents] = triggering_asset_events,
) -> PreparedJob:
    """Return the job of a step, given the outputs of the steps that it reads.

    Raises `DefinitionError` if a template cannot be rendered.
    """
    deployment = settings.current()
    task = dag.tasks[step.step_id]
    name = JobName.of(run, step)
    bucket = deployment.require("bucket")
    events = read_events(run).events if run.events else {}
    context = _context(run, step, dag, task, events)
    context |= {"variables": dict(variables), "inputs": dict(outputs)}
    names = _names(context, run)
    what = f"task {task.task_id!r}"

    def render(text: str, place: str) -> str:
        return templates.render(text, names, what=f"{what}: {place}")

    own: dict[str, Any] = {}
    if isinstance(task, SparkTask | PythonTask):
        context["arguments"] = [render(text, "arguments") for text in task.arguments]
        context["job"] = task.job
    if isinstance(task, SparkTask):
        context["entry_point"] = task.entry_point
        own = _of_spark(task, render)
    if isinstance(task, StepFunctionsTask):
        about = {key: context[key] for key in ("dag_id", "run_id", "task_id", "try_number")}
        about |= {"context_uri": name.context_uri(bucket), "execution": name.token}
        given = _rendered(task.input, lambda text: render(text, "input"))
        own = {"state_machine": task.state_machine, "input": {**given, ABOUT: about}}
        context |= {"state_machine": task.state_machine, "input": given}
    request = JobRequest(
        token=name.token,
        name=name.name,
        context_uri=name.context_uri(bucket),
        bundle_uri=f"s3://{bucket}/{bundle_key(run.bundle, run.bundle_version)}",
        bundle=run.bundle,
        folder=name.folder,
        timeout=task.execution_timeout,
        tags=name.tags(run.run_id),
        **own,
    )
    # Here, where no template can read it.
    context["report_secret"] = step.report_secret
    return PreparedJob(step, json.dumps(context), request)


def _of_spark(task: SparkTask, render: Callable[[str, str], str]) -> dict[str, Any]:
    return {
        "data": data_of(task),
        "sizes": task.sizes,
        "spark_conf": {
            key: render(text, f"spark_conf: {key}") for key, text in task.spark_conf.items()
        },
        "py_files": task.py_files,
        "archives": task.archives,
    }


def _rendered(value: Any, render: Callable[[str], str]) -> Any:
    """Return a JSON value with all its texts rendered; keys stay as they are."""
    if isinstance(value, str):
        return render(value)
    if isinstance(value, Mapping):
        return {key: _rendered(item, render) for key, item in value.items()}
    if isinstance(value, list):
        return [_rendered(item, render) for item in value]
    return value


def _context(
    run: Runs,
    step: Steps,
    dag: DAG,
    task: Task,
    events: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    conf = run.conf or {}
    return {
        "version": CONTEXT_VERSION,
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "run_type": run.run_type,
        "task_id": task.task_id,
        "try_number": int(step.try_number),
        "submission": int(step.submission),
        **{name: iso_or_none(getattr(run, name)) for name in _INSTANTS},
        "partition_key": run.partition_key,
        "params": {**dag.params, **conf},
        "conf": conf,
        "triggering_asset_events": {
            asset: [{"asset": asset, **event} for event in found] for asset, found in events.items()
        },
        "inlets": [_described(asset) for asset in task.inlets],
        "outlets": [_described(asset) for asset in task.outlets],
    }


def _described(asset: Asset | AssetAlias | AssetRef) -> dict[str, Any]:
    kind = "alias" if isinstance(asset, AssetAlias) else "asset"
    uri = getattr(asset, "uri", None)
    return {"kind": kind, "name": getattr(asset, "name", None), **({"uri": uri} if uri else {})}


def _names(context: Mapping[str, Any], run: Runs) -> dict[str, Any]:
    step = SimpleNamespace(
        **{name: context[name] for name in ("dag_id", "run_id", "task_id", "try_number")}
    )
    dates = templates.dated(run.logical_date, run.data_interval_start, run.data_interval_end)
    dag_run = SimpleNamespace(
        **{name: context[name] for name in ("dag_id", "run_id", "run_type", "conf")},
        **{name: getattr(run, name) for name in (*_INSTANTS, "partition_key")},
    )
    passed = ("run_id", "params", "conf", "partition_key", "triggering_asset_events")
    return {
        **{name: context[name] for name in (*passed, "inlets", "outlets")},
        "dag": SimpleNamespace(dag_id=run.dag_id),
        "task": SimpleNamespace(task_id=context["task_id"]),
        "ti": step,
        "task_instance": step,
        "dag_run": dag_run,
        "var": SimpleNamespace(value=context["variables"]),
        "macros": templates.MACROS,
        OUTPUTS: context["inputs"],
        **dates,
    }


# What a job says when it ends.


@dataclass(frozen=True)
class JobReport:
    """A job's report. It comes from author code, so its values are checked where they are used."""

    is_skipped: bool = False
    reason: str | None = None
    # By outlet name.
    extras: Mapping[str, Any] = field(default_factory=dict)
    # By alias name: the assets that the job produced under it.
    aliases: Mapping[str, Any] = field(default_factory=dict)
    secret: str = field(default="", repr=False, compare=False)
    # What later steps may read, and what is wrong with it.
    outputs: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None
    # Its executor gave it, or it states nothing.
    is_trusted: bool = field(default=False, compare=False)

    def is_of(self, step: Steps) -> bool:
        """Return whether the current submission of a step has written it, or it states nothing."""
        if self.is_trusted:
            return True
        return step.report_secret is not None and hmac.compare_digest(
            self.secret.encode(), step.report_secret.encode()
        )


NO_REPORT = JobReport(is_trusted=True)
UNREADABLE_REPORT = JobReport(reason="the job's report cannot be read", is_trusted=True)


def read_report(job: Job) -> JobReport:
    """Return the report of a finished job, or an empty one if there is none.

    Only a report that is definitely missing counts as none. If it cannot be read, this raises: the
    step would be settled without its skip, extras and error.
    """
    if job.report is not None:
        return replace(_report_of(job.report), is_trusted=True)
    bucket, key = aws.bucket_and_key(report_uri(job.context_uri))
    s3 = aws.client("s3")
    try:
        body = s3.get_object(Bucket=bucket, Key=key)["Body"].read(_MAX_REPORT_BYTES)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        # S3 may answer "access denied" for a missing object, but never lists one.
        if code == "NoSuchKey" or (code == "AccessDenied" and not _is_listed(s3, bucket, key)):
            return NO_REPORT
        raise
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    return _report_of(said) if isinstance(said, dict) else UNREADABLE_REPORT


def _is_listed(s3: Any, bucket: str, key: str) -> bool:
    answer = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    return any(found["Key"] == key for found in answer.get("Contents", ()))


def _report_of(said: Mapping[str, Any]) -> JobReport:
    if is_newer(said.get("version"), REPORT_VERSION):
        # No error: author code may write any number, and the step would never end.
        newer = (
            f"the job's report has version {said['version']}, and this release reads"
            f" {REPORT_VERSION}: upgrade the deployment"
        )
        return JobReport(reason=newer, problem=newer, is_trusted=True)
    reason = said.get("reason")
    outputs, problem = _outputs_of(said)
    return JobReport(
        is_skipped=said.get("state") == "skipped",
        reason=readable(str(reason)) if reason is not None else None,
        extras=as_mapping(said.get("outlets")),
        aliases=as_mapping(said.get("aliases")),
        outputs=outputs,
        problem=problem,
        secret=readable(str(said.get("secret"))),
    )


def _outputs_of(said: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """Return the outputs in a report, and why they were refused: a step has none of these then."""
    try:
        outputs = fields.json_object(json.dumps(said.get("outputs") or {}), "outputs")
        return fields.extra(outputs, "outputs"), None  # noqa: S610 - not the one of Django
    except (RejectedError, *UNREADABLE) as error:
        return {}, str(error)


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else that a job reported."""
    return value if isinstance(value, dict) else {}
