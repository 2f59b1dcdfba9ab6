"""One local Spark for all tests that ask for it."""

import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lamplighter_local.spark.java import NO_JAVA, find_java_home

SPARK = "spark"

# Nothing but loopback, no windows, and little of everything: the data is small.
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # Short runs: a quick start is worth more than the last bit of speed.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    # Compiling a query takes longer than running it here.
    "spark.sql.codegen.wholeStage": "false",
    # Far from UTC and with a change of the clocks: no result may depend on it.
    "spark.sql.session.timeZone": "America/New_York",
}


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests that use Spark talk to it, and to nothing else; none of them is quick."""
    for item in items:
        if isinstance(item, pytest.Function) and SPARK in item.fixturenames:
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1"]))
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group(SPARK))
            # PySpark leaves the sockets of collected rows to the garbage collector.
            ignored = "ignore:unclosed <socket:ResourceWarning"
            item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(scope="session", name=SPARK)
def start_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return a Spark session in this process; skip the test on a machine without Java."""
    home = find_java_home()
    if home is None:
        pytest.skip(NO_JAVA)
    folder = str(tmp_path_factory.mktemp("spark"))
    folders = {"spark.sql.warehouse.dir": folder, "spark.local.dir": folder}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(home))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # Else its workers run on whichever Python the search path has.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2]").appName("examples")
        session = builder.config(map={**CONF, **folders}).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
