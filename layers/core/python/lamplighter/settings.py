"""Settings of a deployment: what its deployer chooses, and the names of its resources.

Owns: defaults and limits, and the external names of each field: a function finds the fields that
differ from their defaults in one variable, `LAMPLIGHTER_SETTINGS`; a single one may be given, and
takes precedence, as `LAMPLIGHTER_EVENTS_QUEUE_URL`; a stack has the output `EventsQueueUrl`.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Annotated, Any, NoReturn, Self

from lamplighter import runtime
from lamplighter.checked_fields import OneOf, Range, read_value, require_known
from lamplighter.errors import SettingsError
from lamplighter.topology import RETENTION_DAYS, URL_SETTINGS

_PREFIX = "LAMPLIGHTER_"
VARIABLE = f"{_PREFIX}SETTINGS"

_Shards = Annotated[int, Range(1, 256)]
_Price = Annotated[float, Range(0, 1_000)]


@dataclass(frozen=True)
class ChosenSettings:
    """What the deployer of a deployment may choose; docs/deploy.md says what for."""

    # The executor for new jobs; existing jobs stay where they were started.
    executor: Annotated[str, OneOf(["emr-serverless"])] = "emr-serverless"
    # The roles of jobs, by bundle, by ARN; all other bundles use the one of the deployment.
    bundle_roles: dict[str, str] = field(default_factory=dict, hash=False)
    # Events of assets that no DAG names: "reject" them, or "register" the asset.
    unknown_assets: Annotated[str, OneOf(["reject", "register"])] = "reject"

    # A claim rewrites one entry of the due index; a shard takes about 500 writes per second. May be
    # changed at any time: entries move when next written, and the tick reads every shard ever used.
    due_shards: _Shards = 16
    # Shards of the indexes on runs, and of the index of open assets. May be raised, not lowered:
    # what is in higher shards would not be found.
    run_shards: _Shards = 8
    # DynamoDB allows 100; some emulators allow fewer.
    transaction_actions: Annotated[int, Range(10, 100)] = 100
    # Whatever is due within this time is sent as a delayed message. At one tick per minute, five
    # minutes survive three lost ticks in a row. SQS delays a message by at most 900 seconds, and
    # the tick may start a minute late.
    look_ahead_seconds: Annotated[int, Range(60, 840)] = 300
    # The minimum time between the starts of two runs of @continuous, for runs that end at once.
    continuous_gap_seconds: Annotated[int, Range(1, 86_400)] = 30
    # A DAG with more asset-triggered runs than this is paused: it may trigger itself.
    asset_runs_per_hour: Annotated[int, Range(1, 1_000_000)] = 600
    # Work not handled within this time, because a message was lost, is sent again.
    resend_after_seconds: Annotated[int, Range(1, 3_600)] = 120
    # A live job without events is polled after this time.
    job_poll_seconds: Annotated[int, Range(60, 86_400)] = 600
    # The maximum time between recording a submission and starting its job: more than the minute
    # that `submit` has.
    job_start_timeout_seconds: Annotated[int, Range(61, 3_600)] = 180
    # How many jobs are started a second, and at once after a pause. EMR Serverless allows 1 and 25
    # per account and region; what is left of the burst absorbs clocks that differ. 0 is no limit.
    job_starts_per_second: Annotated[float, Range(0, 1_000)] = 1.0
    job_start_burst: Annotated[int, Range(1, 10_000)] = 20
    # How long a client token is sure to prevent a second job. EMR Serverless does not document the
    # lifetime; after this time, the job is looked up by name first.
    client_token_valid_seconds: Annotated[int, Range(1, 3_600)] = 300
    # How long a step may wait for capacity without a try being counted.
    capacity_wait_hours: Annotated[int, Range(0, 720)] = 24
    # A message that still fails at this age goes to the dead-letter queue and can be replayed.
    # Queues keep messages for two weeks.
    max_message_age_hours: Annotated[int, Range(1, 240)] = 24
    # Longer than messages about a run may be on their way.
    run_retention_days: Annotated[int, Range(RETENTION_DAYS + 1, 3_650)] = 90
    # How long an event is deduplicated by its id, and its extras can be read: longer than its
    # message may be on a queue, and after that on the dead-letter queue.
    event_retention_days: Annotated[int, Range(2 * RETENTION_DAYS + 2, 3_650)] = 90

    # The maximum time for all watchers of a message; after that it counts as failed. Never more
    # than half of a session, and that of a queue has the 180 seconds of the function `watch`.
    shared_stream_ack_timeout: Annotated[int, Range(1, 90)] = 60
    # The maximum number of events queued for one watcher; if it is exceeded, the watcher fails.
    shared_stream_subscriber_queue_size: Annotated[int, Range(1, 100_000)] = 1_024
    # A source without notifications is polled once a minute, for at most this time. What is left of
    # the 180 seconds of `watch` is for storing what was seen.
    watch_session_seconds: Annotated[int, Range(1, 150)] = 20
    # In how many sessions an event at which a watcher fails is withheld from the author's own
    # producer; in the next one it is given up, and kept among the dead letters.
    watcher_retry_sessions: Annotated[int, Range(1, 1_000)] = 5
    # A watcher that fires more often than this is parked until an operator releases it.
    watcher_events_per_minute: Annotated[int, Range(1, 1_000_000)] = 6_000

    # By bundle the ARN of the role that its own triggers have; without, they have no credentials.
    watcher_roles: dict[str, str] = field(default_factory=dict, hash=False)

    # How long an invocation of the function `task` may take, and with it a Python task: half a
    # minute less. Lambda allows 900 seconds.
    task_timeout_seconds: Annotated[int, Range(60, 900)] = 900

    # What all jobs together may use of EMR Serverless; 0 is unlimited.
    spark_vcpus: Annotated[int, Range(0, 100_000)] = 0
    spark_memory_gb: Annotated[int, Range(0, 1_000_000)] = 0
    spark_disk_gb: Annotated[int, Range(0, 10_000_000)] = 0
    # Sizes that a task leaves out. Those of EMR Serverless (four workers of 4 vCPU and 16 GB) would
    # let one job fill the 16 vCPU that a new account has; four jobs of these make progress there.
    spark_driver_cores: Annotated[int, Range(1, 32)] = 2
    spark_driver_memory_gb: Annotated[int, Range(1, 221)] = 6
    spark_executor_cores: Annotated[int, Range(1, 32)] = 2
    spark_executor_memory_gb: Annotated[int, Range(1, 221)] = 6
    spark_max_executors: Annotated[int, Range(1, 10_000)] = 3
    # Of each worker; EMR Serverless bills what exceeds 20 GB.
    spark_worker_disk_gb: Annotated[int, Range(20, 200)] = 20

    # The architecture of the application's workers, on which prices depend.
    spark_architecture: Annotated[str, OneOf(["x86_64", "arm64"])] = "x86_64"
    # EMR Serverless prices per hour in dollars; 0 is the list price.
    price_vcpu_hour: _Price = 0.0
    price_memory_gb_hour: _Price = 0.0
    price_storage_gb_hour: _Price = 0.0
    # How long a finished run waits for the bills of its jobs; after that, its cost stays unknown.
    cost_wait_hours: Annotated[int, Range(1, 240)] = 24

    def __post_init__(self) -> None:
        """Read every value as the type of its field; refuse those beyond its limits."""
        for each in fields(self):
            value = read_value(each.type, each.name, getattr(self, each.name))
            object.__setattr__(self, each.name, value)

    @classmethod
    def named(cls, given: Mapping[str, object]) -> Self:
        """Return the settings that are given by name; all others have their defaults."""
        for name in given:
            require_known("setting", name, (each.name for each in fields(cls)))
        return cls(**given)  # type: ignore[arg-type] # read as each field's own type


@dataclass(frozen=True)
class Settings(ChosenSettings):
    """The values of one deployment: also those that follow from its resources."""

    table_prefix: str = "lamplighter-"  # What the names of tables begin with.
    bucket: str = ""  # The bucket of bundles, and of what jobs are given and report.
    # By name of queue or dead-letter queue; each has a variable and an output of its own.
    queue_urls: dict[str, str] = field(default_factory=dict, hash=False)
    sandbox_function: str = ""  # The function that imports DAG files.
    task_function: str = ""  # The function that runs Python tasks.
    task_job_role_arn: str = ""  # The role of what they run; without it, no credentials.
    emr_application_id: str = ""  # The application of EMR Serverless on which jobs run.
    emr_job_role_arn: str = ""  # The role of jobs on Spark.
    # The release of the stack's own application; empty if it has none.
    emr_release: str = ""
    # The prefix in the bucket of the files that every job needs: the runner and its library.
    runtime: str = "runtime"
    # Where EMR Serverless writes job logs; if empty, it keeps them itself for a limited time.
    job_logs_uri: str = ""
    # The log group on CloudWatch to which drivers write while they run; if empty, they do not.
    job_log_group: str = ""
    # The EventBridge bus for run-finished events; if empty, none are published.
    event_bus: str = ""
    # Sources connected to watchers; a bundle with a watcher on any other one is refused.
    watch_queues: tuple[str, ...] = ()  # External queues, by name.
    watch_buckets: tuple[str, ...] = ()  # Buckets, by name.
    watch_event_sources: tuple[str, ...] = ()  # The `source` of events on the bus.
    # An environment has no room for many ARNs.
    state_machines: tuple[str, ...] = ()  # The names of those that tasks may start.
    state_machine_prefix: str = ""  # What their ARNs begin with.

    @classmethod
    def from_environment(cls) -> Self:
        """Return the settings of this process."""
        together = _read_together(os.environ.get(VARIABLE, "{}"))
        values = cls._read(together, lambda name: f"{VARIABLE}.{name}")
        single = cls._read(os.environ, _variable)
        urls = {**values.pop("queue_urls"), **single.pop("queue_urls")}
        return cls(**values | single, queue_urls=urls)

    @classmethod
    def from_outputs(cls, outputs: Mapping[str, str]) -> Self:
        """Return the settings that stack outputs describe; missing ones have defaults."""
        return cls(**cls._read(outputs, output_key))

    @classmethod
    def _read(cls, given: Mapping[str, object], name_of: Callable[[str], str]) -> dict[str, Any]:
        """Return values by field; each is given as `name_of` its field."""
        values: dict[str, Any] = {
            each.name: read_value(each.type, name, given[name])
            for each in _single_fields(cls)
            if (name := name_of(each.name)) in given
        }
        urls = {queue: given.get(name_of(setting)) for queue, setting in URL_SETTINGS.items()}
        return {**values, "queue_urls": {queue: url for queue, url in urls.items() if url}}

    def as_outputs(self) -> dict[str, str]:
        """Return these settings as stack outputs; an output cannot be empty."""
        values = {each.name: getattr(self, each.name) for each in _single_fields(self)}
        values |= self._url_settings()
        return {output_key(name): _as_text(value) for name, value in values.items() if value != ""}

    def as_environment(self) -> dict[str, str]:
        """Return these settings as the environment of a function; defaults are left out."""
        default = type(self)()
        given = {each.name: getattr(self, each.name) for each in _single_fields(self)}
        values = {name: value for name, value in given.items() if value != getattr(default, name)}
        values |= self._url_settings()
        return {VARIABLE: json.dumps(values, separators=(",", ":"), ensure_ascii=False)}

    def _url_settings(self) -> dict[str, str]:
        return {URL_SETTINGS[queue]: url for queue, url in self.queue_urls.items() if url}

    def queue_url(self, queue: str) -> str:
        """Return the URL of a queue or dead-letter queue, such as `claims` or `claims-dlq`."""
        return self.queue_urls.get(queue) or _missing(URL_SETTINGS[queue])

    def require(self, name: str) -> str:
        """Return a required setting, or raise an error that names its variable and output."""
        value: str = getattr(self, name)
        return value or _missing(name)


def _missing(name: str) -> NoReturn:
    raise SettingsError(
        f"set {_variable(name)}: it names a resource of the stack, which has it as the"
        f" output {output_key(name)}"
    )


def _single_fields(settings: Settings | type[Settings]) -> list[Field[Any]]:
    """Return the fields that have one variable each: all but the queue URLs."""
    return [each for each in fields(settings) if each.name != "queue_urls"]


def output_key(field: str) -> str:
    """Return the name of a field's stack output, such as `EventsQueueUrl`."""
    return "".join(word.capitalize() for word in field.split("_"))


def _variable(field: str) -> str:
    return _PREFIX + field.upper()


def _as_text(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict | tuple) else str(value)


def _read_together(text: str) -> dict[str, object]:
    """Return what `LAMPLIGHTER_SETTINGS` says, by the names under which errors speak of it."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise SettingsError(f"{VARIABLE} must be a JSON object of settings by name")
    known = {*(each.name for each in _single_fields(Settings)), *URL_SETTINGS.values()}
    for name in given:
        require_known("setting", name, known, where=VARIABLE)
    return {f"{VARIABLE}.{name}": value for name, value in given.items()}


def current() -> Settings:
    """Return the settings of the current runtime."""
    here = runtime.current()
    if here.settings is None:
        here.settings = Settings.from_environment()
    return here.settings
