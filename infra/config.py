"""What a stage of a deployment is made with: sizes, limits, and what it shares with others.

Owns: the flags of `cdk deploy -c name=value`, their defaults by stage, and which go together.
"""

import difflib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from lamplighter.errors import SettingsError
from lamplighter.topology import FUNCTIONS

_STAGE = re.compile(r"[a-z][a-z0-9-]{0,19}")
# With an account and a region behind it, it names a bucket, of 63 letters at most.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_LOCAL_ACCOUNT = "000000000000"
_LOCAL_REGION = "us-east-1"
_LIMITS = {
    # DAG rows are spread over so many partitions of the index; see `Settings`.
    "due_shards": (1, 256),
    "look_ahead_seconds": (60, 840),
    # Of an event source mapping.
    "concurrency": (2, 1000),
    "spark_vcpus": (4, 100_000),
    "spark_memory_gb": (8, 1_000_000),
    "spark_disk_gb": (20, 10_000_000),
    "spark_concurrent_runs": (1, 1000),
    "spark_queue_minutes": (15, 720),
    "spark_idle_minutes": (1, 10_080),
    "spark_warm_executors": (0, 1000),
}
# Of the 4 KB that the environment of a function may have; the names of the stack take most.
MAX_OWN_BYTES = 1500
# What CloudWatch Logs takes, as far as anyone keeps logs of functions.
_RETENTIONS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731)


@dataclass(frozen=True, kw_only=True)
class Config:
    """One stage. Every field is a flag: `-c alarm_email=someone@example.com`.

    Lists are JSON (`-c watch_buckets='["landing"]'`) or one name.
    """

    stage: str
    # Of the stack, and of everything in it; empty is `lamplighter-` and the stage.
    name: str = ""
    # Where; empty is wherever the credentials of the CLI lead.
    account: str = ""
    region: str = ""
    # "aws", or "local": an emulator that executes the functions with its own interpreter.
    target: str = "aws"
    # Only of a local target: where the fake EMR Serverless answers.
    emr_endpoint: str = ""

    # Whether tables, the bucket and the key stay when the stack is deleted.
    keep_data: bool = True
    log_days: int = 30
    alarm_email: str = ""
    # A customer-managed key that exists, by ARN, instead of one of the stack's own.
    kms_key_arn: str = ""

    # The scheduler; see `lamplighter.settings`.
    due_shards: int = 16
    look_ahead_seconds: int = 300
    unknown_assets: str = "reject"
    variables: str = "{}"
    # How many batches of one queue are worked on at once.
    concurrency: int = 10
    # Functions that start from a snapshot. Lambda takes about two dollars a month for each.
    snap_start: tuple[str, ...] = ()

    # Who may send events of assets: ARNs of roles and accounts, of topics, buckets and rules.
    event_senders: tuple[str, ...] = ()
    # What watchers listen to: external queues by name, buckets, and `source`s of events.
    watch_queues: tuple[str, ...] = ()
    watch_buckets: tuple[str, ...] = ()
    watch_event_sources: tuple[str, ...] = ()

    # Jobs. With `emr_application_id` the stack makes no application of its own.
    emr_application_id: str = ""
    emr_release: str = "emr-spark-8.0.0"
    spark_vcpus: int = 64
    spark_memory_gb: int = 256
    spark_disk_gb: int = 2000
    spark_concurrent_runs: int = 50
    spark_queue_minutes: int = 360
    spark_idle_minutes: int = 15
    # Executors that are kept warm, beside a driver; they are paid for while the application runs.
    spark_warm_executors: int = 0
    # Buckets that jobs read and write, and further policies of theirs, by ARN.
    data_buckets: tuple[str, ...] = ()
    job_policies: tuple[str, ...] = ()

    # An existing network. The sandbox goes into subnets from which only S3 can be reached.
    vpc_id: str = ""
    sandbox_subnets: tuple[str, ...] = ()
    s3_prefix_list: str = ""
    spark_subnets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what AWS would refuse later, and flags that contradict each other."""
        if not _STAGE.fullmatch(self.stage):
            raise SettingsError(
                f"stage {self.stage!r}: use up to 20 small letters, digits and hyphens"
            )
        if self.name and not _NAME.fullmatch(self.name):
            raise SettingsError(
                f"name {self.name!r}: use up to 32 small letters, digits and hyphens"
            )
        if self.target not in ("aws", "local"):
            raise SettingsError(f"target {self.target!r} must be aws or local")
        for name, (least, limit) in _LIMITS.items():
            if not least <= getattr(self, name) <= limit:
                raise SettingsError(f"{name} must be between {least} and {limit}")
        if self.log_days not in _RETENTIONS:
            raise SettingsError(f"log_days must be one of {', '.join(map(str, _RETENTIONS))}")
        if self.stage == "prod" and not self.keep_data:
            raise SettingsError("keep_data=false: the data of prod are never deleted with a stack")
        for name in self.snap_start:
            # A snapshot belongs to a version, and the sandbox is asked by its name alone.
            if name not in FUNCTIONS or name == "sandbox":
                names = ", ".join(sorted(set(FUNCTIONS) - {"sandbox"}))
                raise SettingsError(f"snap_start: {name!r} is not one of {names}")
        self._require_room()
        self._require_whole_network()

    def _require_room(self) -> None:
        lists = (*self.watch_queues, *self.watch_buckets, *self.watch_event_sources)
        if len(self.variables.encode()) + len(json.dumps(lists)) > MAX_OWN_BYTES:
            raise SettingsError(
                f"variables and watch_* have more than {MAX_OWN_BYTES} bytes together, which"
                " Lambda has no room for"
            )

    def _require_whole_network(self) -> None:
        given = [bool(self.vpc_id), bool(self.sandbox_subnets), bool(self.s3_prefix_list)]
        if any(given) and not all(given):
            raise SettingsError(
                "a network needs vpc_id, sandbox_subnets and s3_prefix_list (of the gateway"
                " endpoint for S3) together"
            )
        if self.spark_subnets and not self.vpc_id:
            raise SettingsError("spark_subnets are subnets of vpc_id: give that too")

    @property
    def stack_name(self) -> str:
        """The name of the stack, which the command line knows it by."""
        return self.name or f"lamplighter-{self.stage}"

    @property
    def is_local(self) -> bool:
        """Whether an emulator is deployed to."""
        return self.target == "local"

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Self:
        """Return the stage that the flags of a command describe."""
        # The keys of the CDK itself have colons, slashes and at signs in them.
        given = {key: value for key, value in context.items() if re.fullmatch(r"[a-z0-9_-]+", key)}
        known = {each.name: each for each in fields(cls)}
        for key in given:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise SettingsError(f"there is no flag {key!r}{hint}")
        values = {key: _READERS[known[key].type](key, value) for key, value in given.items()}
        stage = values.get("stage", "dev")
        made = cls(**{"stage": stage, **_DEFAULTS.get(stage, {}), **values})
        if made.is_local:
            made = replace(made, account=_LOCAL_ACCOUNT, region=_LOCAL_REGION)
        return made


# A stage of another name has the defaults of the fields.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "dev": {
        "keep_data": False,
        "log_days": 7,
        "concurrency": 5,
        "spark_vcpus": 16,
        "spark_memory_gb": 64,
        "spark_disk_gb": 400,
        "spark_concurrent_runs": 10,
    },
    "prod": {"log_days": 90, "snap_start": ("claim", "submit")},
}


def _text(_: str, value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _flag(name: str, value: Any) -> bool:
    found = {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        raise SettingsError(f"{name}={value!r} must be true or false")
    return found


def _whole_number(name: str, value: Any) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not number.is_integer():
        raise SettingsError(f"{name}={value!r} must be a whole number")
    return int(number)


def _names(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    elif isinstance(value, str):
        value = [value] if value else []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise SettingsError(f'{name} must be a name, or a JSON list of names such as ["orders"]')
    return tuple(value)


_READERS: Mapping[Any, Any] = {
    str: _text,
    bool: _flag,
    int: _whole_number,
    tuple[str, ...]: _names,
}
