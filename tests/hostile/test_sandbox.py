"""DAG files that attack whoever runs them: each is an error of its own, and its neighbour is well.

Every attack is tried beside a healthy file, which has the same worker before and after it.
"""

import inspect
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lamplighter.bundles.fork import Limits
from lamplighter.bundles.importer import ParsedFile
from lamplighter.bundles.parsing import parse_files, query_timetables
from lamplighter.store.models import Catalog
from lamplighter_local.handlers import handler_of
from lamplighter_local.stack import LocalStack
from tests.conftest import WriteBundle
from tests.hostile.as_lambda import (
    IMPATIENT,
    SECRET,
    TELLS_SECRETS,
    end_as_lambda,
    run_as_lambda,
    with_disk,
)
from tests.patience import LONG_SECONDS

GOOD = "from lamplighter import DAG\nDAG('{name}')\n"
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc and subreapers are Linux's")


def parse_between_neighbours(
    write_bundle: WriteBundle, attack: str, *, seconds: float = LONG_SECONDS
) -> ParsedFile:
    """Parse an attack between two healthy files, with one worker; return what it came to."""
    files = {
        "dags/a.py": GOOD.format(name="before"),
        "dags/b.py": attack,
        "dags/c.py": GOOD.format(name="after"),
    }
    root = write_bundle(files)
    before, bad, after = parse_files(root, list(files), limits=Limits(seconds, processes=1))
    for healthy, name in ((before, "before"), (after, "after")):
        assert healthy.errors == []
        assert [dag["dag_id"] for dag in healthy.dags] == [name]
    return bad


ON_PIPE = """
import json, os
def say(line):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, line)
        except OSError:
            pass
ok = dict(file="b", dags=[], warnings=[], errors=[], output="")
"""
DEAD = {
    "kills the worker": "import os\nos.kill(os.getppid(), 9)\nimport time\ntime.sleep(600)",
    "interrupts the worker": "import os, signal\nos.kill(os.getppid(), signal.SIGTERM)",
    "kills the worker as a daemon": (
        "import os, time\nworker = os.getppid()\n"
        "if os.fork() == 0:\n    os.setsid(); os.kill(worker, 9); time.sleep(600)\ntime.sleep(600)"
    ),
    "exits": "import os\nos._exit(0)",
    "takes all memory": "x = []\nwhile True: x.append(bytearray(10**7))",
    "floods a line": ON_PIPE + "while True: say(b'x' * 65536)",
    "floods lines": ON_PIPE + "for _ in range(100_000): say(b'[]\\n' * 1000)",
    "says garbage": ON_PIPE + "say(bytes(range(256)) + b'\\n')",
    "says something deep": ON_PIPE
    + "say(json.dumps(ok)[:-1].encode() + b', \"x\": ' + b'[' * 500 + b']' * 500 + b'}\\n')",
    "says something very deep": ON_PIPE + "say(b'[' * 100_000 + b'\\n')",
    "says a huge number": ON_PIPE + "say(b'1' * 10_000 + b'\\n')",
    "says no number": ON_PIPE + "say(json.dumps(ok | dict(dags=[float('nan')])).encode() + b'\\n')",
    "says a name twice": ON_PIPE + "say(json.dumps(ok)[:-1].encode() + b', \"dags\": []}\\n')",
    "says half a character": ON_PIPE
    + "say(json.dumps(ok | dict(output='\\ud800')).encode() + b'\\n')",
    "says DAGs that are none": ON_PIPE + "say(json.dumps(ok | dict(dags=['x'])).encode() + b'\\n')",
    "says a DAG of a newer release": ON_PIPE
    + "dag = dict(dag_id='x', line=1, hash='x', document={'schema': 99})\n"
    + "say(json.dumps(ok | dict(dags=[dag])).encode() + b'\\n')",
    "says texts for lists": ON_PIPE
    + "say(json.dumps(ok | dict(dags='', warnings='', errors='')).encode() + b'\\n')",
}


@only_linux
@pytest.mark.parametrize("attack", DEAD.values(), ids=DEAD)
def test_file_that_attacks_its_worker_is_its_own_error(
    write_bundle: WriteBundle, attack: str
) -> None:
    """Whatever it kills or says, the file has an error and no DAG, and the others are parsed."""
    bad = parse_between_neighbours(write_bundle, attack)
    assert (bad.file, bad.dags, len(bad.errors)) == ("dags/b.py", [], 1)


def test_file_that_stops_its_worker_is_its_own_error(write_bundle: WriteBundle) -> None:
    """A worker that says nothing any more is given up, and replaced."""
    stops = "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lamplighter.bundles.parsing._SECONDS_PER_FORK", 5.0)
        bad = parse_between_neighbours(write_bundle, stops, seconds=5.0)
    assert len(bad.errors) == 1


def test_timetable_that_kills_the_worker_fails_only_its_own_questions(
    write_bundle: WriteBundle,
) -> None:
    """The questions about the other file are answered."""
    source = """
import os, pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, Timetable
class Own(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        {act}
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(days=1))
DAG("{dag_id}", schedule=Own(), start_date=pendulum.datetime(2026, 1, 5))
"""
    files = {
        "dags/a.py": source.format(dag_id="a", act="os.kill(os.getppid(), 9)"),
        "dags/b.py": source.format(dag_id="b", act="pass"),
    }
    asked: Any = {"last": None, "count": 1, "at": "2026-01-15T12:00:00+00:00"}
    queries = [asked | {"file": file, "dag_id": file[5]} for file in files]
    bad, good = query_timetables(write_bundle(files), queries, limits=Limits(processes=1))
    assert "ended from within" in str(bad["error"])
    assert good["error"] is None


# What is left behind.

DAEMON = """
import os, time
path = {path!r}
for _ in range({times}):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            with open(path, "a") as file:
                file.write(str(os.getpid()) + "\\n")
            time.sleep(600)
        os._exit(0)
while not os.path.exists(path) or len(open(path).read().split()) < {times}:
    time.sleep(0.01)
"""


def living(path: Path) -> list[int]:
    """Return which of the processes that a file lists are alive; zombies are not."""
    return [pid for pid in map(int, path.read_text().split()) if _is_alive(pid)]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@only_linux
@pytest.mark.parametrize("times", [1, 50], ids=["one daemon", "a small bomb"])
def test_daemons_of_a_file_are_dead_when_it_is_answered(
    write_bundle: WriteBundle, tmp_path: Path, times: int
) -> None:
    """Neither a second fork nor a session of one's own is a way out."""
    path = tmp_path / "daemons"
    parse_between_neighbours(write_bundle, DAEMON.format(path=str(path), times=times))
    try:
        assert living(path) == []
    finally:
        for pid in living(path):
            os.kill(pid, signal.SIGKILL)


@only_linux
@pytest.mark.parametrize("act", ["time.sleep(600)", "while True: os.write(1, b'x' * 65536)"])
def test_daemon_that_holds_the_pipe_of_a_dead_fork_holds_up_nobody(
    write_bundle: WriteBundle, tmp_path: Path, act: str
) -> None:
    """The file is told that its process has ended, and not that it took too long."""
    path = tmp_path / "daemons"
    holds = DAEMON.format(path=str(path), times=1).replace("time.sleep(600)", act)
    bad = parse_between_neighbours(write_bundle, holds + "os._exit(3)")
    (error,) = bad.errors
    assert "ended before it was done (exit code 3)" in error.message


@only_linux
def test_temporary_files_of_a_bundle_are_removed_with_its_workers(
    write_bundle: WriteBundle, tmp_path: Path
) -> None:
    """Whoever uses a temporary folder as usual leaves nothing for others."""
    path = tmp_path / "left"
    leaves = f"import tempfile\nopen({str(path)!r}, 'w').write(tempfile.mkstemp()[1])\n"
    assert parse_between_neighbours(write_bundle, leaves).errors == []
    assert not Path(path.read_text()).exists()
    assert not Path(path.read_text()).parent.exists()


BOMB = """
import os, time
def burst(depth):
    if depth:
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                open({path!r}, "a").write(str(os.getpid()) + "\\n")
                burst(depth - 1)
                time.sleep(600)
burst(4)
"""


@only_linux
def test_processes_that_go_on_forking_are_all_ended(
    write_bundle: WriteBundle, tmp_path: Path
) -> None:
    """Those that are born while others are killed are killed too."""
    path = tmp_path / "daemons"
    parse_between_neighbours(write_bundle, BOMB.format(path=str(path)))
    time.sleep(0.2)  # whoever had survived would go on here
    try:
        assert not path.exists() or living(path) == []
    finally:
        for pid in living(path) if path.exists() else []:
            os.kill(pid, signal.SIGKILL)


MANY = "from lamplighter import DAG\nfor n in range(50): DAG(f'{name}_{{n}}')\n"


def test_files_that_define_too_much_together_are_errors(write_bundle: WriteBundle) -> None:
    """Each is within its limits, and all of them would fill the memory of who reads the answer."""
    files = {f"dags/{name}.py": MANY.format(name=name) for name in "abc"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lamplighter.bundles.parsing.MAX_BUNDLE_BYTES", 60_000)
        first, *rest = parse_files(write_bundle(files), list(files), limits=Limits(processes=1))
    assert len(first.dags) == 50
    assert [file.dags for file in rest] == [[], []]
    assert all("define more than 60,000 bytes" in file.errors[0].message for file in rest)


@pytest.mark.parametrize("is_stored", [False, True])
def test_push_that_defines_too_much_is_refused_and_others_go_on(
    stack: LocalStack, tmp_path: Path, is_stored: bool
) -> None:
    """However its DAGs are divided: `register`, which all pushes share, reads a limited answer."""
    files = {f"dags/{at:03}.py": MANY.format(name=f"d{at}") for at in range(55)}
    for root, some in (("much", files), ("good", {"dags/a.py": GOOD.format(name="good")})):
        for name, text in some.items():
            (tmp_path / root / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / root / name).write_text(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lamplighter.registry.sandbox.MAX_BUNDLE_BYTES", 500_000)
        if is_stored:
            sandbox = inspect.getmodule(handler_of("sandbox"))
            patched.setattr(sandbox, "MAX_RESULT_BYTES", 1_000)
        stack.push(tmp_path / "much", bundle="much")
        stack.push(tmp_path / "good", bundle="good")
    assert stack.dag("good").bundle == "good"
    (problem,) = Catalog.query("problems#much")
    assert "define more than 500,000 bytes" in str(problem.attribute_values)


# The function, in a process of its own.

CALLS = """
import json, sys
from pathlib import Path
from tempfile import TemporaryDirectory
from moto import mock_aws
from lamplighter.bundles.archive import build_archive
from lamplighter.identifiers import bundle_key
from lamplighter_local.handlers import call
with mock_aws():
    import boto3
    s3 = boto3.client("s3", aws_access_key_id="x", aws_secret_access_key="x")
    s3.create_bucket(Bucket="lake")
    answers = []
    for files in json.loads(sys.argv[1]):
        with TemporaryDirectory() as folder:
            for name, text in files.items():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / name).write_text(text)
            archive = build_archive(Path(folder))
        key = bundle_key("b", archive.hash)
        s3.put_object(Bucket="lake", Key=key, Body=archive.data)
        event = {"bucket": "lake", "key": key, "result_key": "r", "verb": "parse"}
        answers.append(call("sandbox", event | {"files": sorted(files)}))
print()
print(json.dumps(answers))
"""

LOOKS = """
import os
from lamplighter import DAG
secret = "-".join(["the", "secret", "of", "the", "function"]).encode()

def parents():
    pid = os.getpid()
    while pid > 1:
        stat = open(f"/proc/{{pid}}/stat").read()
        pid = int(stat.rpartition(")")[2].split()[1])
        yield pid

def memory(pid):
    with open(f"/proc/{{pid}}/maps") as maps, open(f"/proc/{{pid}}/mem", "rb") as mem:
        for line in maps:
            if " rw" in line:
                first, last = (int(at, 16) for at in line.split()[0].split("-"))
                mem.seek(first)
                yield mem.read(min(last - first, 2**26))

def environment(pid):
    yield open(f"/proc/{{pid}}/environ", "rb").read()

def where():
    if any(secret in value.encode() for value in os.environ.values()):
        yield "own"
    for pid in parents():
        try:
            if any(secret in part for part in {look}(pid)):
                yield "parent"
        except OSError:
            pass

DAG("found_" + "_".join(where()))
"""


@only_linux
@pytest.mark.parametrize("look", ["environment", "memory"])
def test_credentials_of_the_function_are_nowhere_to_be_found(look: str) -> None:
    """Neither what author code inherits nor what its ancestors show has them."""
    (answer,) = run_as_lambda(CALLS, [{"dags/a.py": LOOKS.format(look=look)}])
    (file,) = answer["files"]
    assert file["errors"] == []
    assert [dag["dag_id"] for dag in file["dags"]] == ["found_"]
    assert SECRET not in str(answer)


@pytest.mark.parametrize("function", ["sandbox", "watch"])
def test_function_that_runs_author_code_has_no_credentials_in_its_environment(
    function: str,
) -> None:
    """It takes them out when it is loaded: whatever it starts by mistake has none to inherit."""
    assert run_as_lambda(TELLS_SECRETS, function) == []


LISTS = """
import os
from lamplighter import DAG
names = sorted(os.listdir({disk!r}))
os.makedirs({disk!r} + "/folder/inner")
open({disk!r} + "/folder/inner/file", "w").write("x")
os.symlink("/", {disk!r} + "/link")
DAG("found_" + "_".join(names))
"""


@only_linux
def test_files_of_a_call_are_gone_in_the_next_one(tmp_path: Path) -> None:
    """Wherever author code writes; also if Lambda has ended the process and kept its disk."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "of an earlier process").write_text("x")
    files = {"dags/a.py": LISTS.format(disk=str(disk))}
    for answer in run_as_lambda(with_disk(disk, CALLS), [files, files]):
        (file,) = answer["files"]
        assert [dag["dag_id"] for dag in file["dags"]] == ["found_"], file["errors"]
    assert list(disk.iterdir()) == []


@only_linux
def test_disk_of_a_machine_that_is_no_lambda_is_left_alone(tmp_path: Path) -> None:
    """The function's layer is elsewhere there, whatever the environment says."""
    (tmp_path / "mine").write_text("x")
    says = "print(json.dumps([str(processes._own_disk()), processes.lacks_room()]))"
    program = f"import json\nfrom lamplighter.bundles import processes\n{says}"
    assert run_as_lambda(program) == ["None", False]


REWRITES = """
import os, time
from pathlib import Path
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 60  # also where nobody ends it, as it rewrites others' files
        while time.monotonic() < end:
            for path in Path("/tmp").glob("tmp*/bundle/dags/healthy.py"):
                path.chmod(0o600)
                path.write_text("from lamplighter import DAG; DAG('rewritten')")
            time.sleep(0.001)
    os._exit(0)
time.sleep(0.1)
"""


@only_linux
def test_daemon_does_not_rewrite_the_bundle_of_the_next_call() -> None:
    """What is left of one call is ended before the next one has its files."""
    first, second = run_as_lambda(
        CALLS, [{"dags/a.py": REWRITES}, {"dags/healthy.py": GOOD.format(name="healthy")}]
    )
    assert first["files"]
    (file,) = second["files"]
    assert [dag["dag_id"] for dag in file["dags"]] == ["healthy"]


ORPHANS = """
import os, time
worker = os.getppid()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        open({path!r}, "a").write(str(os.getpid()) + "\\n")
        os.kill(worker, 9)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


@only_linux
def test_daemon_that_kills_its_worker_is_ended_with_the_call(tmp_path: Path) -> None:
    """The function adopts whom a dead worker leaves behind."""
    path = tmp_path / "daemons"
    files = {"dags/a.py": ORPHANS.format(path=str(path)), "dags/b.py": GOOD.format(name="b")}
    (answer,) = run_as_lambda(CALLS, [files])
    bad, good = answer["files"]
    assert len(bad["errors"]) == 1
    assert [dag["dag_id"] for dag in good["dags"]] == ["b"]
    try:
        assert living(path) == []
    finally:
        for pid in living(path):
            os.kill(pid, signal.SIGKILL)


@only_linux
def test_survivor_of_a_call_ends_its_environment(tmp_path: Path) -> None:
    """Lambda begins another one; a call that leaves nobody behind goes on in its own."""
    path = tmp_path / "daemons"
    files = {"dags/a.py": ORPHANS.format(path=str(path))}
    assert end_as_lambda(IMPATIENT + CALLS, [files]).returncode == 1
    assert run_as_lambda(IMPATIENT + CALLS, [{"dags/a.py": GOOD.format(name="a")}])


# An error that is only raised would leave the environment to the next call.
FULL = """
import os, resource, sys
from lamplighter_local import handlers
given = handlers.call
def call(*arguments):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return given(*arguments)
handlers.call = call
sys.excepthook = lambda *_: os._exit(3)
"""


@only_linux
def test_disk_that_takes_nothing_ends_the_environment() -> None:
    """Neither this push nor the next ones could be parsed in it."""
    files = {"dags/a.py": GOOD.format(name="a")}
    assert end_as_lambda(FULL + CALLS, [files]).returncode == 1
