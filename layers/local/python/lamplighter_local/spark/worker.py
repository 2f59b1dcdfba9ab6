"""The process that holds one warm Spark and runs jobs in it, one after the other.

Reads one JSON request per line and answers one JSON line. A job gets a session of its own and finds
the process as the job before it found it; what it does to itself beyond that costs the process,
which its parent replaces.

Owns: Spark's settings on one machine, and what one job may leave to the next: nothing.
"""

import faulthandler
import json
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lamplighter_job.report import Outcome
from lamplighter_job.runner import run_step
from lamplighter_local.spark.process import LOOPBACK

_log = logging.getLogger(__name__)

# A quick start and little memory are worth more here than the last bit of speed.
_JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Duser.timezone=UTC"
_MEMORY = "1g"
_PARTITIONS = "2"
_TALKATIVE = "org.apache.spark.sql.execution.streaming.FileStreamSink"
# What a call into the JVM ends with when Spark is stopped there, or the JVM is no more.
_SPARK_IS_GONE = (Py4JError, PySparkException, OSError, AttributeError)


def main() -> None:
    """Serve requests until the caller closes the pipe."""
    folder, cores = Path(sys.argv[1]), sys.argv[2]
    requests, answers = _take_pipes()
    # The parent asks for it when a job hangs, shortly before it ends the process.
    faulthandler.register(signal.SIGUSR1)
    spark = _start_spark(folder, cores)
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    is_busy = threading.Event()
    threading.Thread(target=_listen, args=(requests, lines, is_busy), daemon=True).start()
    _say(answers, {"is_ready": True})
    while line := lines.get():
        is_busy.set()
        _say(answers, _answer(spark, json.loads(line)))
        is_busy.clear()
    _stop(spark)


# The process.


def _take_pipes() -> tuple[TextIO, TextIO]:
    """Return the pipes of the parent, and leave none to what a job prints, reads or starts."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _listen(
    requests: TextIO, lines: "queue.SimpleQueue[str | None]", is_busy: threading.Event
) -> None:
    """Pass on what the parent asks; when it is gone, end the process, busy or not."""
    for line in requests:
        lines.put(line)
    if is_busy.is_set() and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    lines.put(None)


def _say(answers: TextIO, document: Mapping[str, Any]) -> None:
    answers.write(json.dumps(dict(document)) + "\n")
    answers.flush()


# Spark.


def _start_spark(folder: Path, cores: str) -> Any:
    settings: dict[str, Any] = {
        "spark.master": f"local[{cores}]",
        "spark.app.name": "lamplighter",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": _MEMORY,
        "spark.driver.extraJavaOptions": f'{_JVM_OPTIONS} "-Djava.io.tmpdir={folder / "tmp"}"',
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": _PARTITIONS,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    _quiet(spark)
    return spark


def _quiet(spark: Any) -> None:
    """Leave out what Spark warns of, with a page of Java, whenever a path has a pattern in it."""
    log4j = spark._jvm.org.apache.logging.log4j  # noqa: SLF001 - the JVM has no public handle
    log4j.core.config.Configurator.setLevel(_TALKATIVE, log4j.Level.ERROR)


def _stop(spark: Any) -> None:
    """Stop Spark and see its JVM end, so that none is left when this process is gone."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - the JVM has no public handle
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


# One job.


def _answer(spark: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    with ExitStack() as job:
        job.enter_context(_output_to(Path(request["log"])))
        job.enter_context(_process_as_it_was(spark.sparkContext, Path(request["bundle"])))
        outcome = _run(spark, request)
    return {
        "exit_code": outcome.exit_code,
        "summary": outcome.summary,
        "is_reusable": _is_usable(spark) and not (sys.stdout.closed or sys.stderr.closed),
    }


def _run(spark: Any, request: Mapping[str, Any]) -> Outcome:
    context, bundle, py_files = Path(request["context"]), request["bundle"], request["py_files"]
    os.chdir(context.parent)
    sys.path[0:0] = py_files
    # Where Spark runs functions of the bundle's; the processes for that are kept by this value, so
    # that none has the modules of another bundle.
    importable = [bundle, f"{bundle}/jobs", f"{bundle}/lib", *py_files]
    spark.sparkContext.environment["PYTHONPATH"] = os.pathsep.join(importable)
    with _session_of_its_own(spark, request["spark_conf"]) as session:
        return run_step(session, str(context), bundle=Path(bundle))


def _is_usable(spark: Any) -> bool:
    """Return whether Spark still answers, and drop what a job has left in its memory."""
    try:
        if spark.sparkContext._jsc.sc().isStopped():  # noqa: SLF001 - as above
            return False
        spark.sparkContext.cancelAllJobs()
        spark.catalog.clearCache()
    except _SPARK_IS_GONE:
        return False
    return True


@contextmanager
def _session_of_its_own(spark: Any, settings: Mapping[str, str]) -> Iterator[Any]:
    """Let a job have a session without traces of others, also if it asks the builder for one."""
    session = spark.newSession()
    for name, value in settings.items():
        try:
            session.conf.set(name, value)
        except PySparkException:
            _log.warning("%s only applies to clusters and is ignored", name)
    # Spark itself takes a JVM's seconds to start and is shared; only the session is the job's. A
    # program that stops what it takes for its own Spark, as scripts should, must not stop that.
    with (
        patch.object(SparkSession, "_instantiatedSession", session),
        patch.object(SparkSession, "_activeSession", session),
        patch.object(SparkSession, "stop", lambda _: None),
        patch.object(SparkContext, "stop", lambda _: None),
    ):
        _make_default(session)
        yield session
        # A job that took Spark down with it is found out afterwards.
        with suppress(*_SPARK_IS_GONE):
            for stream in session.streams.active:
                stream.stop()
            _make_default(spark)


def _make_default(session: Any) -> None:
    known = session._get_j_spark_session_class(session._jvm)  # noqa: SLF001 - as above
    known.setDefaultSession(session._jsparkSession)  # noqa: SLF001 - as above
    known.setActiveSession(session._jsparkSession)  # noqa: SLF001 - as above


# What a job may change.


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Let all that is printed here, and by what is started here, go to a file."""
    streams = sys.stdout, sys.stderr
    kept = os.dup(1), os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for number, stream in enumerate(streams, start=1):
            if not stream.closed:
                stream.flush()
            os.dup2(kept[number - 1], number)
            os.close(kept[number - 1])


@contextmanager
def _process_as_it_was(context: Any, bundle: Path) -> Iterator[None]:
    """Undo afterwards what a job does to the process, and forget the modules of its bundle."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    environment, folder = dict(os.environ), Path.cwd()
    path, arguments, executors = list(sys.path), list(sys.argv), dict(context.environment)
    try:
        yield
    finally:
        _forget_modules(bundle)
        root.handlers[:] = handlers
        root.setLevel(level)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:], sys.argv[:] = path, arguments
        context.environment.clear()
        context.environment.update(executors)


def _forget_modules(bundle: Path) -> None:
    """Make the next bundle's modules be imported, whatever they are called."""
    below = str(bundle.resolve()) + os.sep
    # All are looked at before any is forgotten: a folder without an `__init__.py` asks its parent
    # where it is.
    theirs = [name for name, module in sys.modules.items() if _is_below(module, below)]
    for name in theirs:
        del sys.modules[name]


def _is_below(module: object, folder: str) -> bool:
    known = getattr(module, "__dict__", {})
    places = [known.get("__file__"), *known.get("__path__", ())]
    return any(isinstance(place, str) and place.startswith(folder) for place in places)


if __name__ == "__main__":
    main()
