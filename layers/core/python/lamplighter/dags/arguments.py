"""Reads what an author passed to a DAG or a task.

Each reader returns the value in its one form, or says what is wrong with it in words that fit
behind "DAG 'x': argument:".
"""

import datetime
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from dateutil.relativedelta import relativedelta
from pendulum import DateTime

from lamplighter.assets import AssetCondition
from lamplighter.errors import DefinitionError
from lamplighter.identifiers import RUN_TYPES, require_id
from lamplighter.timetables.base import Timetable
from lamplighter.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from lamplighter.timetables.simple import (
    AssetTriggeredTimetable,
    ContinuousTimetable,
    NullTimetable,
    OnceTimetable,
)
from lamplighter.zones import Zone, as_utc

Reader: TypeAlias = Callable[[Any], Any]
Schedule: TypeAlias = (
    str
    | datetime.timedelta
    | relativedelta
    | Timetable
    | AssetCondition
    | Collection[AssetCondition]
    | None
)

MAX_TAG_LENGTH = 100
# Credentials, options of the JVM, and what carries the bundle to the job.
_RESERVED_CONF = re.compile(
    r"(access|secret)\.?key|session\.token|password|extraJavaOptions|defaultJavaOptions"
    r"|^spark\.(archives|submit\.pyFiles|executorEnv\.PYTHONPATH)$",
    re.IGNORECASE,
)

# Spark settings that are options of a task.
SIZES = {
    "spark.driver.cores": "driver_cores",
    "spark.driver.memory": "driver_memory",
    "spark.executor.cores": "executor_cores",
    "spark.executor.memory": "executor_memory",
    "spark.dynamicAllocation.maxExecutors": "max_executors",
}

TRIGGER_RULES = (
    "all_success",
    "all_failed",
    "all_done",
    "all_done_min_one_success",
    "one_success",
    "one_failed",
    "one_done",
    "none_failed",
    "none_failed_min_one_success",
    "none_skipped",
    "all_skipped",
    "always",
)


def optional(read: Reader) -> Reader:
    """Return a reader that lets None pass."""
    return lambda value: None if value is None else read(value)


def flag(value: object) -> bool:
    """Read True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"must be True or False, not {value!r}")
    return value


def string(value: object) -> str:
    """Read a string."""
    if not isinstance(value, str):
        raise TypeError(f"must be a string, not {value!r}")
    return value


def whole_number(*, minimum: int | None = None, maximum: int | None = None) -> Reader:
    """Return a reader of whole numbers within bounds."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"must be a whole number, not {value!r}")
        if minimum is not None and value < minimum:
            raise ValueError(f"must be at least {minimum}, not {value}")
        if maximum is not None and value > maximum:
            raise ValueError(f"must be at most {maximum}, not {value}")
        return value

    return read


def mapping(value: object) -> dict[str, Any]:
    """Read a mapping; its values are read where they are used."""
    if not isinstance(value, Mapping):
        raise TypeError(f"must hold a mapping, not {value!r}")
    return dict(value)


def strings(value: object) -> tuple[str, ...]:
    """Read a list of strings."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"must be a list of strings, not {value!r}")
    return tuple(string(item) for item in value)


def task_ids(value: object) -> tuple[str, ...]:
    """Read a list of tasks or their ids, each once."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"must be a list of tasks or of their ids, not {value!r}")
    return tuple(dict.fromkeys(string(getattr(item, "task_id", item)) for item in value))


def addresses(value: object) -> tuple[str, ...]:
    """Read a list of addresses of files, such as `s3://bucket/wheel.zip#name`."""
    for address in strings(value):
        if not re.fullmatch(r"[^\s,\"'\\]+", address):
            raise ValueError(f"{address!r} is not the address of one file")
    return strings(value)


def spark_conf(value: object) -> dict[str, str]:
    """Read Spark settings; a few are reserved for the deployment."""
    settings = string_map(value)
    for key, setting in settings.items():
        if not re.fullmatch(r"spark\.[A-Za-z0-9._-]+", key):
            raise ValueError(f"{key!r} is not a Spark setting such as 'spark.sql.ansi.enabled'")
        if _RESERVED_CONF.search(key):
            raise ValueError(f"{key!r} is set by the deployment, or belongs in an IAM role")
        if key in SIZES:
            raise ValueError(f"{key!r} is an option of the task: write {SIZES[key]}=…")
        if not setting.strip():
            raise ValueError(f"{key!r} has an empty value")
    return settings


def string_map(value: object) -> dict[str, str]:
    """Read a mapping of strings to strings, such as Spark's configuration."""
    if not isinstance(value, Mapping):
        raise TypeError(f"must be a mapping of strings, not {value!r}")
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, str):
            raise TypeError(f"must map strings to strings: write {str(key)!r}: {str(item)!r}")
    return dict(value)


def duration(value: object) -> datetime.timedelta:
    """Read a timedelta, or a number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(f"must be a finite number of seconds, not {value}")
        value = datetime.timedelta(seconds=value)
    if not isinstance(value, datetime.timedelta):
        raise TypeError(f"must be a timedelta, not {value!r}")
    if value < datetime.timedelta():
        raise ValueError(f"must not be negative: {value}")
    return datetime.timedelta(seconds=value.total_seconds())


def instant(value: object) -> DateTime:
    """Read a datetime; a naive one is taken as UTC."""
    if not isinstance(value, datetime.datetime):
        raise TypeError(f"must be a datetime, not {value!r}")
    try:
        return as_utc(value)
    except OverflowError as error:
        raise ValueError(f"{value} is out of range in UTC") from error


def tags(value: object) -> tuple[str, ...]:
    """Read tags: a set, so their order and repetitions do not matter."""
    if isinstance(value, str) or not isinstance(value, Collection):
        raise TypeError(f"must be a list of strings, not {value!r}")
    for tag in value:
        if len(string(tag)) > MAX_TAG_LENGTH:
            raise ValueError(f"{tag[:20]!r}… is longer than {MAX_TAG_LENGTH} characters")
    return tuple(sorted(set(value)))


def run_types(value: object) -> tuple[str, ...]:
    """Read which run types are allowed: one, or several."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Collection):
        raise TypeError(f"must be a list of run types, not {value!r}")
    for name in names:
        if name not in RUN_TYPES:
            raise ValueError(f"{name!r} is not a run type; use {', '.join(sorted(RUN_TYPES))}")
    return tuple(sorted(set(names)))


def backoff(value: object) -> float:
    """Read the factor by which the delay grows from one retry to the next; 0 is no growth."""
    # Airflow reads True as a factor of 1, which is no back-off at all; authors mean 2.
    if isinstance(value, bool):
        return 2.0 if value else 0.0
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"must be True, False or a factor such as 2, not {value!r}")
    return float(value)


def trigger_rule(value: object) -> str:
    """Read the name of a trigger rule, or an enumeration's member of that value."""
    name = str(getattr(value, "value", value))
    if name not in TRIGGER_RULES:
        raise ValueError(f"{name!r} is not a trigger rule; there are {', '.join(TRIGGER_RULES)}")
    return name


def script(value: object) -> str:
    """Read the path of a Python file inside the bundle."""
    path = PurePosixPath(string(value))
    if path.is_absolute() or ".." in path.parts or re.search(r"^~|[:\\]", string(value)):
        raise ValueError(f"{value!r} is outside the bundle: write a path such as 'jobs/load.py'")
    if path.suffix != ".py":
        raise ValueError(f"{value!r} is not a Python file")
    return str(path)


def job(value: object) -> str:
    """Read a reference to a function, such as `package.module:function`."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", string(value)):
        raise ValueError(f"{value!r} is not of the form 'package.module:function'")
    return string(value)


def state_machine(value: object) -> str:
    """Read the name of a state machine, or its ARN."""
    name = string(value).removeprefix("arn:")
    if name != value:
        is_read = re.fullmatch(r"[\w-]+:states:[\w-]+:\d{12}:stateMachine:[\w-]{1,80}", name)
    else:
        is_read = re.fullmatch(r"[\w-]{1,80}", name)
    if not is_read:
        raise ValueError(f"{value!r} is neither the name of a state machine nor the ARN of one")
    return string(value)


def pool(value: object) -> str:
    """Return the name of a pool."""
    return require_id(value, what="pool")


def memory(value: object) -> str:
    """Read an amount of memory as Spark writes it."""
    if not re.fullmatch(r"[1-9]\d*[kmgt]b?", string(value).lower()):
        raise ValueError(f"{value!r} is not an amount of memory: write it like '4g'")
    return string(value)


def assets(*kinds: type, maximum: int | None = None) -> Reader:
    """Return a reader of lists of assets."""

    def read(value: object) -> tuple[object, ...]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise TypeError(f"must be a list of assets, not {value!r}")
        for item in value:
            if not isinstance(item, kinds):
                raise TypeError(f"{item!r} is not an asset")
        if maximum is not None and len(value) > maximum:
            raise ValueError(f"has {len(value)} assets, at most {maximum} are allowed")
        return tuple(value)

    return read


def timetable_for(schedule: Schedule, *, timezone: Zone) -> Timetable:
    """Return the timetable that an author's `schedule=` means.

    A plain cron expression or delta means data intervals: the run for Monday happens when Monday is
    over.
    """
    match schedule:
        case None:
            return NullTimetable()
        case Timetable():
            return schedule
        case AssetCondition():
            return AssetTriggeredTimetable(schedule)
        case "@once":
            return OnceTimetable()
        case "@continuous":
            return ContinuousTimetable()
        case str():
            return CronDataIntervalTimetable(schedule, timezone)
        case datetime.timedelta() | relativedelta():
            return DeltaDataIntervalTimetable(schedule)
        case Collection() if not isinstance(schedule, bytes | dict):
            return AssetTriggeredTimetable(schedule)
    raise DefinitionError(
        f"{schedule!r} is not a schedule: use a cron expression, a timedelta, a"
        " timetable, assets, or None"
    )
