"""The workers of a Spark job, as EMR Serverless reads them from its request.

Owns: the precedence of configurations, EMR's defaults, and the worker sizes that there are.
"""

import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from lamplighter_local.emr.behaviour import NOTHING, Resources

# By vCPUs: the sizes of memory in GB.
_MEMORY_GB: Mapping[int, tuple[int, ...]] = {
    1: tuple(range(2, 9)),
    2: tuple(range(4, 17)),
    4: tuple(range(8, 31)),
    8: tuple(range(16, 61, 4)),
    16: tuple(range(32, 121, 8)),
    32: (60, 120, 244),
}
_LEAST_OVERHEAD_MB = 384
_OVERHEAD = 0.1
_MB = {"b": 2**-20, "k": 2**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20}
_SIZE = re.compile(r"(\d+)\s*([bkmgt])?b?", re.IGNORECASE)
_DEFAULTS = {
    "spark.driver.cores": "4",
    "spark.driver.memory": "14g",
    "spark.emr-serverless.driver.disk": "20g",
    "spark.executor.cores": "4",
    "spark.executor.memory": "14g",
    "spark.emr-serverless.executor.disk": "20g",
    "spark.executor.instances": "3",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "3",
    "spark.dynamicAllocation.minExecutors": "0",
}
_OPTIONS = {
    "--driver-cores": "spark.driver.cores",
    "--driver-memory": "spark.driver.memory",
    "--executor-cores": "spark.executor.cores",
    "--executor-memory": "spark.executor.memory",
    "--num-executors": "spark.executor.instances",
}


class _UnsupportedError(Exception):
    """No worker is like this; the message says why."""


@dataclass(frozen=True)
class JobSize:
    """The workers that a job wants.

    A job gets executors up to its initial number: what it would ask for later depends on its work,
    and a fake job has none.
    """

    driver: Resources
    executor: Resources = NOTHING
    executors: int = 0
    # Why no worker is started at all.
    problem: str = ""

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """Return the workers of a request, or what is wrong with them."""
        conf = {**_DEFAULTS, **_spark_conf(request)}
        try:
            return cls(_worker(conf, "driver"), _worker(conf, "executor"), _executors(conf))
        except (_UnsupportedError, ValueError) as error:
            return cls(NOTHING, problem=f"Job failed. {error}")


def _executors(conf: Mapping[str, str]) -> int:
    if conf["spark.dynamicAllocation.enabled"].lower() != "true":
        return max(1, int(conf["spark.executor.instances"]))
    prefix = "spark.dynamicAllocation."
    least = int(conf[f"{prefix}minExecutors"])
    initial = max(int(conf[f"{prefix}initialExecutors"]), least)
    limit = conf.get(f"{prefix}maxExecutors", "infinity")
    if limit != "infinity" and initial > int(limit):
        raise _UnsupportedError(
            f"Maximum value of {prefix}initialExecutors: {initial} must be between"
            f" {prefix}minExecutor {least} and {prefix}maxExecutors {limit}."
        )
    # With none at first, Spark asks for one as soon as there is a task.
    return max(1, initial)


def _worker(conf: Mapping[str, str], kind: str) -> Resources:
    """Return the smallest worker that has what a driver or an executor needs."""
    cores = int(conf[f"spark.{kind}.cores"])
    heap = _megabytes(conf[f"spark.{kind}.memory"])
    needed = math.ceil((heap + _overhead(conf, kind, heap)) / 1024)
    disk = math.ceil(_megabytes(conf[f"spark.emr-serverless.{kind}.disk"]) / 1024)
    vcpus = next((size for size in _MEMORY_GB if size >= cores), cores)
    memory = next((size for size in _MEMORY_GB.get(vcpus, ()) if size >= needed), None)
    if memory is None:
        raise _UnsupportedError(
            f"There is no {kind} worker with {cores} vCPU and {needed} GB of memory."
        )
    return Resources(vcpus, memory, disk)


def _overhead(conf: Mapping[str, str], kind: str, heap: float) -> float:
    given = conf.get(f"spark.{kind}.memoryOverhead")
    if given is not None:
        return _megabytes(given)
    factor = float(conf.get(f"spark.{kind}.memoryOverheadFactor", _OVERHEAD))
    return max(_LEAST_OVERHEAD_MB, factor * heap)


def _megabytes(text: str) -> float:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise _UnsupportedError(f"{text!r} is not a size such as 14g.")
    return int(found[1]) * _MB[(found[2] or "m").lower()]


def _spark_conf(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the Spark configuration of a job: what spark-submit is given takes precedence."""
    conf: dict[str, str] = {}
    overrides = request.get("configurationOverrides", {})
    for part in overrides.get("applicationConfiguration", ()):
        if part["classification"] == "spark-defaults":
            conf |= part.get("properties", {})
    submit = request["jobDriver"].get("sparkSubmit", {})
    return conf | dict(_submitted(submit.get("sparkSubmitParameters", "")))


def _submitted(parameters: str) -> Iterator[tuple[str, str]]:
    words = iter(shlex.split(parameters))
    for word in words:
        option, has_value, value = word.partition("=")
        if option in {"--conf", "-c"}:
            name, _, text = (value if has_value else next(words, "")).partition("=")
            yield name.strip(), text.strip()
        elif option in _OPTIONS:
            yield _OPTIONS[option], value if has_value else next(words, "")
