"""The command line of `spark-submit` as options of a `SparkTask`."""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from lamplighter.dags.arguments import SIZES, spark_conf
from lamplighter.executors.emr_workers import WORKERS, Sizes, Worker, fitting_heap
from lamplighter.settings import ChosenSettings

_SIZE_FLAGS = {
    "--driver-cores": "driver_cores",
    "--driver-memory": "driver_memory",
    "--executor-cores": "executor_cores",
    "--executor-memory": "executor_memory",
    "--num-executors": "max_executors",
}
_CORES = frozenset({"driver_cores", "executor_cores", "max_executors"})
# What the cluster of a deployment decides, or what has no meaning there.
_DROPPED = frozenset(
    {"--master", "--deploy-mode", "--name", "--queue", "--principal", "--keytab", "--proxy-user"}
)
_FLAGS_ALONE = frozenset({"--verbose", "-v", "--supervise"})
# What Spark knows as settings, too.
SETTINGS = {
    "jars": "spark.jars",
    "packages": "spark.jars.packages",
    "exclude_packages": "spark.jars.excludes",
    "repositories": "spark.jars.repositories",
    "files": "spark.files",
}


@dataclass
class SparkJob:
    """What a `SparkTask` needs, and what was left out."""

    application: str = ""
    arguments: list[str] = field(default_factory=list)
    sizes: dict[str, int | str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    py_files: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def set_size(self, option: str, value: str | int) -> None:
        """Note a size; one that is not understood is left out."""
        text = str(value)
        if option in _CORES and text.isdigit() and int(text) > 0:
            self.sizes[option] = int(text)
        elif option not in _CORES and re.fullmatch(r"[1-9]\d*[kmgt]b?", text.lower()):
            self.sizes[option] = text
        else:
            self.notes.append(f"{option}={text!r} is left out: write a constant")

    def set_conf(self, key: str, value: str) -> None:
        """Note a Spark setting; sizes are options of the task."""
        if key in SIZES:
            self.set_size(SIZES[key], value)
        elif key == "spark.executor.instances":
            self.set_size("max_executors", value)
        else:
            try:
                self.conf |= spark_conf({key: value})
            except (TypeError, ValueError) as error:
                self.notes.append(f"the Spark setting {key} is left out: {error}")

    def fit_sizes(self) -> None:
        """Change sizes for which EMR Serverless has no worker."""
        given = {name: str(value) for name, value in self.sizes.items()}
        chosen = Sizes.of(given, ChosenSettings())
        for worker in (chosen.driver, chosen.executor):
            if worker.problem() is None:
                continue
            cores = min(WORKERS, key=lambda each: (_misfit(worker, each), abs(each - worker.cores)))
            memory = fitting_heap(cores, worker.memory)
            said = f"{worker.kind}_cores={cores}, {worker.kind}_memory={memory!r}"
            self.notes.append(f"{said} is written, because {worker.problem()}")
            self.sizes |= {f"{worker.kind}_cores": cores, f"{worker.kind}_memory": memory}

    @property
    def script(self) -> str:
        """The name of the application's file, as one below `jobs/`."""
        name = PurePosixPath(self.application.replace("\\", "/")).name
        stem = re.sub(r"\W+", "_", name.removesuffix(".py")).strip("_") or "job"
        return f"jobs/{stem}.py"


def _misfit(worker: Worker, cores: int) -> bool:
    """Return whether a worker of so many cores has no room for this one's memory."""
    return Worker(worker.kind, cores, worker.memory, worker.disk_gb).problem() is not None


def parse_command(command: str) -> SparkJob | None:
    """Return the job of a `spark-submit` command, or None if it is not one, or not only."""
    # A template may hold spaces and quotes: it is one word.
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return f"\x00{len(held) - 1}\x00"

    text = re.sub(r"\{\{.*?\}\}", hold, command.replace("\\\n", " "), flags=re.DOTALL)
    if re.search(r"[;&|<>`\n]|\$\(", text.strip()):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    found = [re.sub("\x00(\\d+)\x00", lambda m: held[int(m[1])], word) for word in words]
    if not found or PurePosixPath(found[0]).name != "spark-submit":
        return None
    return parse_words(found[1:])


def parse_words(words: list[str]) -> SparkJob | None:
    """Return the job of the words after `spark-submit`."""
    job, rest = SparkJob(), list(words)
    while rest and rest[0].startswith("-"):
        flag = rest.pop(0)
        if flag in _FLAGS_ALONE:
            continue
        flag, is_joined, value = flag.partition("=")
        if not is_joined:
            if not rest:
                return None
            value = rest.pop(0)
        _take_flag(job, flag, value)
    if rest:
        job.application, job.arguments = rest[0], rest[1:]
    return job


def _take_flag(job: SparkJob, flag: str, value: str) -> None:
    if flag in ("--conf", "-c"):
        key, _, setting = value.partition("=")
        job.set_conf(key, setting)
    elif flag in _SIZE_FLAGS:
        job.set_size(_SIZE_FLAGS[flag], value)
    elif flag == "--py-files":
        job.py_files += [part for part in value.split(",") if part]
    elif flag == "--archives":
        job.archives += [part for part in value.split(",") if part]
    elif (name := flag.removeprefix("--").replace("-", "_")) in SETTINGS:
        job.set_conf(SETTINGS[name], value)
    elif flag not in _DROPPED:
        job.notes.append(f"{flag} is left out: it is not known")
