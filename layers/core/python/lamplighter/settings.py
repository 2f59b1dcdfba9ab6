"""What a deployment decides: names of its resources, and the numbers that are choices.

Owns: the only reading of the environment, and both ways of naming a field outside: the variable
`LAMPLIGHTER_EVENTS_QUEUE_URL` and the output `EventsQueueUrl` of a stack.
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
    # A message can be delayed by 900 seconds, and the look-ahead may begin a minute late.
    "look_ahead_seconds": (1, 840),
    # Queues keep a message for two weeks.
    "max_message_age_hours": (1, 240),
}


@dataclass(frozen=True)
class Settings:
    """The values of one deployment."""

    table_prefix: str = "lamplighter-"
    bucket: str = ""
    # By the names of queues and dead-letter queues; outside, each has a variable and an output.
    queue_urls: dict[str, str] = field(default_factory=dict, hash=False)
    sandbox_function: str = ""
    # What new jobs are started on; those that live stay where they are.
    executor: str = "emr-serverless"
    emr_application_id: str = ""
    emr_job_role_arn: str = ""
    # Where in the bucket the files lie that every job takes along: the runner and its library.
    runtime: str = "runtime"
    # Where EMR Serverless puts the logs of jobs; without it, it keeps them for a while itself.
    job_logs_uri: str = ""
    # The EventBridge bus that gets an event when a run finishes; without it, nobody is notified.
    event_bus: str = ""
    # A JSON object of texts that templates and jobs see: {"data_root": "s3://lake"}.
    variables: str = "{}"
    # JSON lists of what is wired to the watchers: external queues by name, buckets, and the
    # `source` of events on the bus. A bundle with a watcher on anything else is refused.
    watch_queues: str = "[]"
    watch_buckets: str = "[]"
    watch_event_sources: str = "[]"

    # A claim rewrites one entry of the due index; a shard takes about 500 of them per second. The
    # number may be changed at any time: entries move when they are next written, and the tick reads
    # all shards that were ever in use.
    due_shards: int = 16
    # Shards of the indexes on runs, and of the one on assets whose events are being handed on.
    run_shards: int = 8
    # DynamoDB takes 100; some emulators take fewer.
    transaction_actions: int = 100
    # The timer fires once a minute; what comes due within this time is sent ahead as a delayed
    # message. Five minutes outlive three lost ticks in a row.
    look_ahead_seconds: int = 300
    # The least time between the ends of two intervals of @continuous.
    continuous_gap_seconds: int = 30
    # What nobody has handled after this time, because a message was lost, is sent again.
    resend_after_seconds: int = 120
    # A live job of which no event has told is polled after this time.
    job_poll_seconds: int = 600
    # The longest that a function may take between writing that it starts a job and starting it.
    job_start_timeout_seconds: int = 180
    # How long a client token surely keeps EMR Serverless from starting a second job. Its real
    # lifetime is not documented; after this time the job is looked for by its name first.
    client_token_valid_seconds: int = 300
    # Rejections for want of capacity, in a row, that do not count as tries.
    capacity_retries: int = 10
    # A message that still fails at this age is moved to the dead-letter queue, from which it can be
    # replayed.
    max_message_age_hours: int = 24
    run_retention_days: int = 90
    # An event is known by its id, and its extras can be read, for this time.
    event_retention_days: int = 90
    # Events of assets that no DAG has named: "reject" them, or "register" the asset.
    unknown_assets: str = "reject"
    # The longest that all watchers of a message may take, until it counts as failed.
    shared_stream_ack_timeout: int = 300
    # So many events may wait for one watcher; one that is slower than that has failed.
    shared_stream_subscriber_queue_size: int = 1024
    # A source that sends no notifications is polled once a minute, for at most this time.
    watch_session_seconds: int = 20
    # A watcher that fires more often than this is parked until someone has looked at it.
    watcher_events_per_minute: int = 6000
    # What EMR Serverless takes for an hour, in dollars: us-east-1 on x86, as far as known.
    price_vcpu_hour: float = 0.052624
    price_memory_gb_hour: float = 0.0057785
    price_storage_gb_hour: float = 0.000111

    def __post_init__(self) -> None:
        """Refuse numbers that the services or the protocols do not allow."""
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
        """Return the names that a setting lists."""
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
        """Return the settings of a stack, given its outputs; those of another meaning are ignored.

        What no output says has its default.
        """
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
        """Return the outputs of a stack with these settings; an output cannot be empty."""
        values = {each.name: getattr(self, each.name) for each in _single_fields(self)}
        values |= self._url_settings()
        return {output_key(name): str(value) for name, value in values.items() if value != ""}

    def as_environment(self) -> dict[str, str]:
        """Return the variables of a process with these settings; defaults need none."""
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
        """Return a name that must have been given, or say which variable or output is missing."""
        value: str = getattr(self, name)
        return value or _missing(name)


def _missing(name: str) -> NoReturn:
    raise SettingsError(
        f"set {_variable(name)}: it names a resource of the stack, which has it as the"
        f" output {output_key(name)}"
    )


def _single_fields(settings: Settings | type[Settings]) -> list[Field[Any]]:
    """Return the fields that are one variable each: all but the URLs of queues."""
    return [each for each in fields(settings) if each.name != "queue_urls"]


def output_key(field: str) -> str:
    """Return the name of the output of a stack that says what a field is: `EventsQueueUrl`."""
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
