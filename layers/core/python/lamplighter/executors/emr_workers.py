"""Workers of EMR Serverless: their shapes and list prices, and what a job needs of them. Pure.

Owns: the tables of shapes and prices, Spark's memory overhead, and the Spark settings that a size
becomes.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from lamplighter.settings import ChosenSettings

# The memory in GB that a worker may have, by its vCPUs.
WORKERS: Mapping[int, Sequence[int]] = {
    1: range(2, 9),
    2: range(4, 17),
    4: range(8, 31),
    8: range(16, 61, 4),
    16: range(32, 121, 8),
    32: (60, 120, 244),
}
# Spark's memory overhead: a tenth of the heap, or this if that is more.
_MIN_OVERHEAD_MB = 384
_MB = {"k": 1 / 1_024, "m": 1, "g": 1_024, "t": 1_024**2}
# A job begins with one executor and grows with its tasks: what was refused to a job that asked
# for more fails it, also if it could have ended well without.
_INITIAL_EXECUTORS = "1"


@dataclass(frozen=True)
class Worker:
    """A driver or an executor, as Spark is told to make it."""

    kind: str
    cores: int
    memory: str  # of the heap, as Spark writes it
    disk_gb: int

    @property
    def needed_gb(self) -> int:
        """The heap and its overhead, in whole GB."""
        heap = _in_mb(self.memory)
        return math.ceil((heap + max(heap // 10, _MIN_OVERHEAD_MB)) / 1_024)

    @property
    def memory_gb(self) -> int:
        """The memory of the smallest worker that has room for it."""
        rooms = WORKERS.get(self.cores, ())
        return next((room for room in rooms if room >= self.needed_gb), self.needed_gb)

    def problem(self) -> str | None:
        """Return why there is no such worker, with the nearest one that there is."""
        rooms = WORKERS.get(self.cores)
        if rooms is None:
            nearest = min(WORKERS, key=lambda cores: (abs(cores - self.cores), -cores))
            known = ", ".join(map(str, WORKERS))
            return f"{self.kind}_cores={self.cores}: a worker has {known} vCPU: use {nearest}"
        if rooms[0] <= self.needed_gb <= rooms[-1]:
            return None
        others = [
            cores for cores, other in WORKERS.items() if other[0] <= self.needed_gb <= other[-1]
        ]
        by_distance = sorted(others, key=lambda cores: abs(cores - self.cores))
        alternative = f", or {self.kind}_cores={by_distance[0]}" if by_distance else ""
        return (
            f"{self.kind}_memory={self.memory!r} needs {self.needed_gb} GB with Spark's overhead,"
            f" and a worker of {self.cores} vCPU has {rooms[0]} to {rooms[-1]} GB: use"
            f" {self.kind}_memory={fitting_heap(self.cores, self.memory)!r}{alternative}"
        )


@dataclass(frozen=True)
class Sizes:
    """The workers of one job."""

    driver: Worker
    executor: Worker
    max_executors: int

    @classmethod
    def of(cls, options: Mapping[str, str], chosen: ChosenSettings) -> Self:
        """Return what a task's options ask for; the settings say what they leave out."""
        return cls(
            _worker("driver", options, chosen),
            _worker("executor", options, chosen),
            int(options.get("max_executors", chosen.spark_max_executors)),
        )

    def problems(self) -> Iterator[str]:
        """Yield what EMR Serverless has no worker for."""
        yield from filter(None, (self.driver.problem(), self.executor.problem()))

    def footprint(self) -> dict[str, float]:
        """Return what the driver and one executor need, by resource."""
        both = (self.driver, self.executor)
        return {
            "vcpus": sum(worker.cores for worker in both),
            "memory_gb": sum(worker.memory_gb for worker in both),
            "disk_gb": sum(worker.disk_gb for worker in both),
        }

    def as_conf(self, spark_conf: Mapping[str, str]) -> dict[str, str]:
        """Return the Spark settings of these sizes, without those that the author has set."""
        conf = {"spark.dynamicAllocation.maxExecutors": str(self.max_executors)}
        for worker in (self.driver, self.executor):
            conf[f"spark.{worker.kind}.cores"] = str(worker.cores)
            conf[f"spark.{worker.kind}.memory"] = worker.memory
            conf[f"spark.emr-serverless.{worker.kind}.disk"] = f"{worker.disk_gb}G"
        # EMR Serverless refuses one that is not between the minimum and the maximum, and has 3.
        conf["spark.dynamicAllocation.initialExecutors"] = spark_conf.get(
            "spark.dynamicAllocation.minExecutors", _INITIAL_EXECUTORS
        )
        return {key: value for key, value in conf.items() if key not in spark_conf}


def _worker(kind: str, options: Mapping[str, str], chosen: ChosenSettings) -> Worker:
    cores = int(options.get(f"{kind}_cores", getattr(chosen, f"spark_{kind}_cores")))
    memory = options.get(f"{kind}_memory")
    if memory is None:
        memory = f"{getattr(chosen, f'spark_{kind}_memory_gb')}g"
        # Whoever chooses only the cores gets memory that goes with them.
        memory = fitting_heap(cores, memory) if f"{kind}_cores" in options else memory
    return Worker(kind, cores, memory, chosen.spark_worker_disk_gb)


def fitting_heap(cores: int, memory: str) -> str:
    """Return the heap nearest to `memory` that a worker with these cores has room for."""
    rooms = WORKERS.get(cores)
    if rooms is None or rooms[0] <= Worker("", cores, memory, 0).needed_gb <= rooms[-1]:
        return memory
    fitting = [
        heap
        for heap in range(1, rooms[-1])
        if rooms[0] <= Worker("", cores, f"{heap}g", 0).needed_gb <= rooms[-1]
    ]
    is_too_small = _in_mb(memory) < fitting[0] * 1_024
    return f"{fitting[0] if is_too_small else fitting[-1]}g"


def _in_mb(memory: str) -> int:
    found = re.fullmatch(r"(\d+)([kmgt])b?", memory.lower())
    assert found is not None, memory  # checked where it was defined
    return int(int(found[1]) * _MB[found[2]])


# Prices.


# Dollars per hour for a vCPU, and for a GB of memory and of storage.
Prices = tuple[float, float, float]

# On-demand prices as published on these days; AWS changes them without notice.
_PRICES: dict[tuple[str, str], Prices] = {
    # The pricing page, 13 August 2026.
    ("us-east-1", "x86_64"): (0.052624, 0.0057785, 0.000111),
    # The AWS Price List (APS1-EMR-SERVERLESS-*), 12 August 2026.
    ("ap-southeast-1", "x86_64"): (0.065728, 0.007189, 0.000133),
    ("ap-southeast-1", "arm64"): (0.052585, 0.005746, 0.000133),
    # The AWS Price List (APN1-EMR-SERVERLESS-ARM-*), 10 October 2026; storage as in us-east-1.
    ("ap-northeast-1", "arm64"): (0.052585, 0.005746, 0.000111),
}
_OTHERWISE = ("us-east-1", "x86_64")


def list_prices(region: str, architecture: str) -> Prices:
    """Return the prices of a region and architecture; those of us-east-1 on x86 if unknown."""
    return _PRICES.get((region, architecture), _PRICES[_OTHERWISE])
