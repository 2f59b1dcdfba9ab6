"""Settings of a deployment: names of resources, limits and defaults.

Owns: reading the environment, and the external names of each field: the variable
`LAMPLIGHTER_EVENTS_QUEUE_URL` and the stack output `EventsQueueUrl`.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, NoReturn, Self

from lamplighter import runtime
from lamplighter.errors import SettingsError
from lamplighter.topology import URL_SETTINGS

_PREFIX = "LAMPLIGHTER_"
_CHOICES = {"unknown_assets": ("reject", "register")}
_BOUNDS = {
    "transaction_actions": (10, 100),
    # SQS delays a message by at most 900 seconds, and the tick may start a minute late.
    "look_ahead_seconds": (1, 840),
    # Queues keep messages for two weeks.
    "max_message_age_hours": (1, 240),
}


@dataclass(frozen=True)
class Settings:
    """The values of one deployment."""

    table_prefix: str = "lamplighter-"
    bucket: str = ""
    # By name of queue or dead-letter queue; each has a variable and an output of its own.
    queue_urls: dict[str, str] = field(default_factory=dict, hash=False)
    sandbox_function: str = ""
    # The executor for new jobs; existing jobs stay where they were started.
    executor: str = "emr-serverless"
    emr_application_id: str = ""
    emr_job_role_arn: str = ""
    # The prefix in the bucket of the files that every job needs: the runner and its library.
    runtime: str = "runtime"
    # Where EMR Serverless writes job logs; if empty, it keeps them itself for a limited time.
    job_logs_uri: str = ""
    # The EventBridge bus for run-finished events; if empty, none are published.
    event_bus: str = ""
    # A JSON object of strings for templates and jobs: {"data_root": "s3://lake"}.
    variables: str = "{}"
    # JSON lists of sources connected to watchers: external queues, buckets, and the `source` of
    # events on the bus. A bundle with a watcher on any other source is refused.
    watch_queues: str = "[]"
    watch_buckets: str = "[]"
    watch_event_sources: str = "[]"

    # A claim rewrites one entry of the due index; a shard takes about 500 writes per second. May be
    # changed at any time: entries move when next written, and the tick reads every shard ever used.
    due_shards: int = 16
    # Shards of the indexes on runs, and of the index of open assets.
    run_shards: int = 8
    # DynamoDB allows 100; some emulators allow fewer.
    transaction_actions: int = 100
    # Whatever is due within this time is sent as a delayed message. At one tick per minute, five
    # minutes survive three lost ticks in a row.
    look_ahead_seconds: int = 300
    # The minimum time between the starts of two runs of @continuous, for runs that end at once.
    continuous_gap_seconds: int = 30
    # Work not handled within this time, because a message was lost, is sent again.
    resend_after_seconds: int = 120
    # A live job without events is polled after this time.
    job_poll_seconds: int = 600
    # The maximum time between recording a submission and starting its job.
    job_start_timeout_seconds: int = 180
    # How long a client token is sure to prevent a second job. EMR Serverless does not document the
    # lifetime; after this time, the job is looked up by name first.
    client_token_valid_seconds: int = 300
    # Consecutive rejections for lack of capacity that do not count as tries.
    capacity_retries: int = 10
    # A message that still fails at this age goes to the dead-letter queue and can be replayed.
    max_message_age_hours: int = 24
    run_retention_days: int = 90
    # How long an event is deduplicated by its id, and its extras can be read.
    event_retention_days: int = 90
    # Events of assets that no DAG names: "reject" them, or "register" the asset.
    unknown_assets: str = "reject"
    # The maximum time for all watchers of a message, in seconds; after that it counts as failed.
    shared_stream_ack_timeout: int = 300
    # The maximum number of events queued for one watcher; if it is exceeded, the watcher fails.
    shared_stream_subscriber_queue_size: int = 1024
    # A source without notifications is polled once a minute, for at most this time.
    watch_session_seconds: int = 20
    # A watcher that fires more often than this is parked until an operator releases it.
    watcher_events_per_minute: int = 6000
    # EMR Serverless prices per hour in dollars, us-east-1 on x86.
    price_vcpu_hour: float = 0.052624
    price_memory_gb_hour: float = 0.0057785
    price_storage_gb_hour: float = 0.000111

    def __post_init__(self) -> None:
        """Reject values that services or protocols do not allow."""
        for name, (least, limit) in _BOUNDS.items():
            if not least <= getattr(self, name) <= limit:
                raise SettingsError(f"{name} must be between {least} and {limit}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise SettingsError(f"{name} must be one of {', '.join(choices)}")
        self.read_variables()
        for name in ("watch_queues", "watch_buckets", "watch_event_sources"):
            self.read_names(name)

    def read_names(self, name: str) -> frozenset[str]:
        """Return the names in a setting that is a JSON list."""
        try:
            found = json.loads(getattr(self, name))
        except ValueError:
            found = None
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise SettingsError(f'{name} must be a JSON list of names, such as ["orders"]')
        return frozenset(found)

    def read_variables(self) -> dict[str, str]:
        """Return the deployment's variables."""
        try:
            found = json.loads(self.variables)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
            raise SettingsError(
                'variables must be a JSON object of texts, such as {"root": "/lake"}'
            )
        return found

    @classmethod
    def from_environment(cls) -> Self:
        """Return the settings of this process."""
        return cls._read(os.environ, _variable)

    @classmethod
    def from_outputs(cls, outputs: Mapping[str, str]) -> Self:
        """Return the settings that stack outputs describe; missing ones have defaults."""
        return cls._read(outputs, output_key)

    @classmethod
    def _read(cls, texts: Mapping[str, str], name_of: Callable[[str], str]) -> Self:
        values: dict[str, object] = {}
        for each in _single_fields(cls):
            name = name_of(each.name)
            text = texts.get(name)
            if text is not None:
                values[each.name] = _READERS[each.type](name, text)
        urls = {queue: texts.get(name_of(setting), "") for queue, setting in URL_SETTINGS.items()}
        values["queue_urls"] = {queue: url for queue, url in urls.items() if url}
        return cls(**values)  # type: ignore[arg-type] # read as each field's own type above

    def as_outputs(self) -> dict[str, str]:
        """Return these settings as stack outputs; an output cannot be empty."""
        values = {each.name: getattr(self, each.name) for each in _single_fields(self)}
        values |= self._url_settings()
        return {output_key(name): str(value) for name, value in values.items() if value != ""}

    def as_environment(self) -> dict[str, str]:
        """Return these settings as environment variables; defaults are left out."""
        given = ((each, getattr(self, each.name)) for each in _single_fields(self))
        values = {each.name: value for each, value in given if value != each.default}
        values |= self._url_settings()
        return {_variable(name): str(value) for name, value in values.items()}

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


def _price(name: str, text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < math.inf:
        raise SettingsError(f"{name}={text!r} must be a price, such as 0.05")
    return price


def _whole_number(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise SettingsError(f"{name}={text!r} must be a whole number of at least 1")
    return number


_READERS: Mapping[Any, Callable[[str, str], object]] = {
    str: lambda _, text: text,
    int: _whole_number,
    float: _price,
}


def current() -> Settings:
    """Return the settings of the current runtime."""
    here = runtime.current()
    if here.settings is None:
        here.settings = Settings.from_environment()
    return here.settings
