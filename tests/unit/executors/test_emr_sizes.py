"""Sizes of jobs on EMR Serverless: workers, defaults, footprints and refusals."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lamplighter import DAG, SparkTask, runtime
from lamplighter.executors.emr import EmrServerless
from lamplighter.executors.emr_workers import WORKERS, Sizes, Worker, fitting_heap
from lamplighter.settings import ChosenSettings, Settings

DEFAULTS = ChosenSettings()


def problems(limits: dict[str, Any] | None = None, **options: Any) -> list[str]:
    """Return what EMR Serverless finds wrong with a task's options."""
    with DAG("orders", schedule=None):
        task = SparkTask("load", job="jobs:load", **options)
    with runtime.using(settings=replace(Settings(), **(limits or {}))):
        return EmrServerless().check(task)


@pytest.mark.parametrize(
    ("cores", "memory", "gb"),
    [
        (1, "1g", 2),  # 384 MB are more than a tenth
        (1, "512m", 2),  # no worker has less
        (1, "7g", 8),
        (2, "6g", 7),
        (2, "6144m", 7),
        (4, "14g", 16),
        (4, "27g", 30),
        (8, "14g", 16),
        (8, "16g", 20),  # 17.6, in steps of 4
        (16, "30g", 40),  # 33, in steps of 8
        (32, "60g", 120),
        (2, "4194304kb", 5),
        (4, "1t", 1127),
    ],
)
def test_memory_of_a_worker_is_heap_and_overhead(cores: int, memory: str, gb: int) -> None:
    """A tenth, or 384 MB, comes on top of the heap, and the next larger worker is taken."""
    assert Worker("executor", cores, memory, 20).memory_gb == gb


def test_job_of_default_sizes_leaves_room_for_others() -> None:
    """Four default jobs make progress within the 16 vCPU of a new account, and none is refused."""
    sizes = Sizes.of({}, DEFAULTS)
    assert sizes.footprint() == {"vcpus": 4, "memory_gb": 14, "disk_gb": 40}
    assert list(sizes.problems()) == []
    assert sizes.as_conf({}) == {
        "spark.driver.cores": "2",
        "spark.driver.memory": "6g",
        "spark.emr-serverless.driver.disk": "20G",
        "spark.executor.cores": "2",
        "spark.executor.memory": "6g",
        "spark.emr-serverless.executor.disk": "20G",
        "spark.dynamicAllocation.maxExecutors": "3",
        "spark.dynamicAllocation.initialExecutors": "1",
    }


@pytest.mark.parametrize(
    ("cores", "heap"), [("1", "6g"), ("4", "7g"), ("8", "14g"), ("16", "29g"), ("32", "54g")]
)
def test_heap_left_out_fits_the_cores_chosen(cores: str, heap: str) -> None:
    """Whoever chooses only cores gets the heap nearest to the default that goes with them."""
    sizes = Sizes.of({"executor_cores": cores}, DEFAULTS)
    assert (sizes.executor.memory, sizes.driver.memory) == (heap, "6g")
    assert list(sizes.problems()) == []


@pytest.mark.parametrize("cores", WORKERS)
@pytest.mark.parametrize("memory", ["1m", "999g"])
def test_heap_that_is_suggested_has_a_worker(cores: int, memory: str) -> None:
    """The nearest heap of every kind of worker is one that it has room for."""
    heap = fitting_heap(cores, memory)
    assert Worker("driver", cores, heap, 20).problem() is None


def test_settings_of_the_author_are_left_to_him() -> None:
    """A disk or a number of executors in `spark_conf` is not overridden by a default."""
    minimum = {"spark.dynamicAllocation.minExecutors": "2"}
    disk = {"spark.emr-serverless.executor.disk": "200G"}
    conf = Sizes.of({"max_executors": "2"}, DEFAULTS).as_conf({**minimum, **disk})
    assert "spark.emr-serverless.executor.disk" not in conf
    assert conf["spark.dynamicAllocation.initialExecutors"] == "2"
    initial = {"spark.dynamicAllocation.initialExecutors": "3"}
    assert not initial.keys() & Sizes.of({}, DEFAULTS).as_conf(initial).keys()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"driver_cores": 3}, "driver_cores=3: a worker has 1, 2, 4, 8, 16, 32 vCPU: use 4"),
        ({"executor_cores": 64}, "executor_cores=64: a worker has 1, 2, 4, 8, 16, 32 vCPU: use 32"),
        (
            {"executor_cores": 4, "executor_memory": "28g"},
            (
                "executor_memory='28g' needs 31 GB with Spark's overhead, and a worker of 4 vCPU"
                " has 8 to 30 GB: use executor_memory='27g', or executor_cores=8"
            ),
        ),
        (
            {"driver_cores": 4, "driver_memory": "2g"},
            (
                "driver_memory='2g' needs 3 GB with Spark's overhead, and a worker of 4 vCPU has 8"
                " to 30 GB: use driver_memory='7g', or driver_cores=1"
            ),
        ),
        (
            {"executor_memory": "1t"},
            (
                "executor_memory='1t' needs 1127 GB with Spark's overhead, and a worker of 2 vCPU"
                " has 4 to 16 GB: use executor_memory='14g'"
            ),
        ),
        (
            {"execution_timeout": timedelta(days=7, seconds=1)},
            (
                "execution_timeout: 7 days, 0:00:01 is longer than emr-serverless lets a job run:"
                " use at most 7 days, 0:00:00, or split the task"
            ),
        ),
    ],
)
def test_task_that_no_worker_could_run_is_told_the_nearest(
    options: dict[str, Any], says: str
) -> None:
    """The error names the option and what to write instead."""
    assert problems(**options) == [says]


def test_task_at_the_limits_has_no_problem() -> None:
    """A week, and the largest heap of a worker, are allowed."""
    assert problems(execution_timeout=timedelta(days=7)) == []
    assert problems(executor_cores=16, executor_memory="109g") == []


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (
            {"spark_vcpus": 16},
            (
                "it needs 18 vCPU for its driver and one executor, and the deployment has 16: make"
                " it smaller, or raise spark_vcpus"
            ),
        ),
        (
            {"spark_memory_gb": 64},
            (
                "it needs 127 GB of memory for its driver and one executor, and the deployment has"
                " 64: make it smaller, or raise spark_memory_gb"
            ),
        ),
        (
            {"spark_disk_gb": 39},
            (
                "it needs 40 GB of disk for its driver and one executor, and the deployment has 39:"
                " make it smaller, or raise spark_disk_gb"
            ),
        ),
    ],
)
def test_task_larger_than_the_deployment_is_refused(limits: dict[str, int], says: str) -> None:
    """What can never fit is named with what it needs and what there is."""
    assert problems(limits, executor_cores=16, executor_memory="109g") == [says]
    assert problems(executor_cores=16, executor_memory="109g") == []


def test_capacity_is_what_the_settings_limit() -> None:
    """A setting of 0 is no limit; a job's footprint has the same names."""
    with runtime.using(settings=Settings(spark_vcpus=16, spark_disk_gb=400)):
        assert EmrServerless().capacity() == {"vcpus": 16, "disk_gb": 400}
        assert EmrServerless().footprint({"driver_cores": "4"}) == {
            "vcpus": 6,
            "memory_gb": 15,
            "disk_gb": 40,
        }
    with runtime.using(settings=Settings()):
        assert EmrServerless().capacity() == {}
