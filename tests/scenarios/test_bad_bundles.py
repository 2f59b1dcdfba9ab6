"""Bundles that are wrong, or mean harm: an error where it belongs, and nothing else is touched."""

import inspect
import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sqs.models import sqs_backends

from lamplighter import aws
from lamplighter.bundles import archive
from lamplighter.bundles.fork import Limits
from lamplighter.identifiers import bundle_key
from lamplighter.registry import pushes
from lamplighter.registry.pushes import Push
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import Catalog, Dags
from lamplighter_local.emulator.moto_memory import REGION
from lamplighter_local.handlers import handler_of
from lamplighter_local.stack import LocalStack
from tests.patience import with_patience

WriteBundle = Callable[[dict[str, str]], Path]

HEAD = """
import pendulum
from lamplighter import DAG, Asset
from lamplighter.timetables.base import DagRunInfo, Timetable
from lamplighter.timetables.events import EventsTimetable
NINE = pendulum.datetime(2026, 1, 5, 9)
"""
GOOD = HEAD + "DAG('good', schedule='0 * * * *', start_date=NINE)\n"


def failing(stack: LocalStack) -> list[str]:
    """Return the messages on `registers` that were received and not acknowledged."""
    queue = sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues["local-registers"]
    assert queue.name in stack.settings.queue_url("registers")
    return [message.body for message in queue._messages if message.approximate_receive_count]


def troubles() -> dict[str, str]:
    """Return the first thing that is wrong, by file."""
    rows = Catalog.query("problems#bundle", consistent_read=True)
    return {row.id: row.problems[0]["message"] for row in rows}


# Files whose code does not behave.

HOSTILE = {
    "loops.py": ("while True: pass\n", "took longer than"),
    "exits.py": ("import sys\nDAG('x')\nsys.exit(0)\n", "called sys.exit(0)"),
    "dies.py": ("import os\nDAG('x')\nos._exit(0)\n", "ended before it was done (exit code 0)"),
    "kills.py": ("import os, signal\nos.kill(os.getpid(), 11)\n", "Segmentation fault"),
    "hoards.py": ("x = bytearray(2 * 1024**3)\n", "more memory than a DAG file may use"),
    "interrupts.py": ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
    "recurses.py": ("def f(): f()\nf()\n", "RecursionError"),
}
FAKE = '{"file": "dags/good.py", "dags": [], "warnings": [], "errors": [], "output": ""}'
HARMLESS = {
    "prints.py": f"DAG('prints')\nprint({FAKE!r})\n",
    "floods.py": "DAG('floods')\nfor _ in range(500): print('x' * 100_000)\n",
}


def test_hostile_files_harm_only_themselves(stack: LocalStack, write_bundle: WriteBundle) -> None:
    """Whatever a file does while it is imported is an error of that file, beside working ones."""
    files = {name: text for name, (text, _) in HOSTILE.items()} | HARMLESS
    root = write_bundle(
        {f"dags/{name}": HEAD + text for name, text in files.items()} | {"dags/good.py": GOOD}
    )

    def push(seconds: float) -> list[str]:
        limits = Limits(seconds=seconds, memory_bytes=700 * 1024**2, processes=1)
        with patch.object(
            inspect.getmodule(handler_of("sandbox")), "limits_within", lambda _: limits
        ):
            stack.push(root)
        return [file for file, text in troubles().items() if "took longer than" in text]

    with_patience(push, lambda late: late != ["dags/loops.py"])
    assert sorted(row.dag_id for row in Dags.scan()) == ["floods", "good", "prints"]
    found = troubles()
    assert sorted(found) == sorted(f"dags/{name}" for name in HOSTILE)
    for name, (_, words) in HOSTILE.items():
        assert words in found[f"dags/{name}"]
    assert len(stack.runs("good")) == 3
    assert failing(stack) == []


FORGE = """
import json, os
answer = {"file": "dags/evil.py", "dags": [{"dag_id": "x"}]}
answer |= {"warnings": [], "errors": [], "output": ""}
for pipe in range(3, 64):
    try:
        os.write(pipe, (json.dumps(answer) + chr(10)).encode())
    except OSError:
        pass
os._exit(0)
"""


def test_forged_answer_harms_only_its_file(stack: LocalStack, write_bundle: WriteBundle) -> None:
    """A file that writes the sandbox's answer itself, and badly, does not stop the others."""
    stack.push(write_bundle({"dags/evil.py": FORGE, "dags/good.py": GOOD}))
    assert [row.dag_id for row in Dags.scan()] == ["good"]
    assert list(troubles()) == ["dags/evil.py"]
    assert failing(stack) == []


# Definitions that fit into a document, but not into a row.

_TIMETABLE = """
class Bad(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        if last_automated_data_interval:
            raise ValueError('x' * 500_000)
        return DagRunInfo.interval(NINE, NINE.add(hours=1))
DAG('large', schedule=Bad(), start_date=NINE)
"""
_PARTITIONS = """
class Long(Timetable):
    partitioned = True
    def next_dagrun_info_v2(self, *, last_dagrun_info, restriction):
        after = last_dagrun_info.run_after.add(hours=1) if last_dagrun_info else NINE
        return DagRunInfo(after, None, after, str(after) + 'x' * 10_000)
DAG('large', schedule=Long(), start_date=NINE)
"""
LARGE = {
    "document": "import random\nDAG('large', doc_md='%x' % random.getrandbits(3_600_000))\n",
    "timetable": (
        "DAG('large', start_date=NINE,"
        " schedule=EventsTimetable([NINE.add(minutes=i) for i in range(25_000)]))\n"
    ),
    "extra of an asset": "DAG('large', schedule=[Asset('a', extra={'x': 'y' * 500_000})])\n",
    "import error": "raise ValueError('x' * 500_000)\n",
    "warnings": (
        "import warnings\nDAG('large')\nfor i in range(20): warnings.warn(str(i) + 'x' * 50_000)\n"
    ),
    "error of a timetable": _TIMETABLE,
    "partition keys": _PARTITIONS,
    "reference to an unknown URI": "DAG('large', schedule=[Asset.ref(uri='s3://no/where')])\n",
}


@pytest.mark.parametrize("name", LARGE)
def test_large_definition_harms_only_itself(
    stack: LocalStack, write_bundle: WriteBundle, name: str
) -> None:
    """A definition that no row can hold is refused alone; the bundle is registered to its end."""
    stack.push(write_bundle({"dags/large.py": HEAD + LARGE[name], "dags/z.py": GOOD}))
    assert failing(stack) == []
    assert len(stack.runs("good")) == 3
    assert Catalog.get("bundle", "bundle").registered == 1


# Archives that no one built with this library.


def zipped(files: dict[str, str]) -> bytes:
    """Return a zip file with any names in it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name, text in files.items():
            target.writestr(name, text)
    return packed.getvalue()


def with_second_name(name: str, second_name: str) -> bytes:
    """Return an archive whose only file has Info-ZIP's Unicode Path, which Python 3.13 follows."""
    field = struct.pack("<BL", 1, zlib.crc32(name.encode())) + second_name.encode()
    entry = zipfile.ZipInfo(name)
    entry.extra = struct.pack("<HH", 0x7075, len(field)) + field
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        target.writestr(entry, GOOD)
    return packed.getvalue()


def put(stack: LocalStack, data: bytes | None) -> None:
    """Put an archive, or none, into the bucket by hand, and announce it."""
    version = "0" * 64 if data is None else sha256(data).hexdigest()
    if data is not None:
        key = bundle_key("bundle", version)
        aws.client("s3").put_object(Bucket=stack.settings.bucket, Key=key, Body=data)
    pushes.announce(Push("bundle", version, next_push_number("bundle")))
    stack.run_until_idle()


ARCHIVES = {
    "parent": (zipped({"dags/a.py": GOOD, "dags/../../evil.py": ""}), "not a plain path"),
    "absolute": (zipped({"/evil/evil.py": "", "dags/a.py": GOOD}), "is not below dags/"),
    "second name": (with_second_name("dags/a.py", "dags/../../evil.py"), "a second name"),
    "bomb": (zipped({"dags/a.py": GOOD, "lib/zeros": "0" * 10_000_000}), "are allowed"),
    "other content": (zipped({"dags/a.py": GOOD}), "does not match its hash"),
    "no zip": (b"PK is how it begins, and that is all", "not a zip file that can be read"),
    "empty": (b"", "not a zip file that can be read"),
    "truncated": (zipped({"dags/a.py": GOOD})[:-30], "not a zip file that can be read"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_unreadable_archive_is_told_and_acknowledged(
    stack: LocalStack, write_bundle: WriteBundle, name: str
) -> None:
    """The catalog says what is wrong, the message is done, and what was registered stays."""
    stack.push(write_bundle({"dags/a.py": GOOD}))
    before = stack.dag("good")
    data, words = ARCHIVES[name]
    with patch.object(archive, "MAX_UNPACKED_BYTES", 1_000_000):
        put(stack, data)
    assert words in "".join(troubles().values())
    assert failing(stack) == []
    assert stack.dag("good").attribute_values == before.attribute_values
    assert not Path("/evil").exists()


def test_good_push_clears_an_unreadable_one(stack: LocalStack, write_bundle: WriteBundle) -> None:
    """The problem of a whole bundle is gone when the next push can be read."""
    put(stack, b"no zip")
    assert troubles()
    stack.push(write_bundle({"dags/a.py": GOOD}))
    assert troubles() == {}
    assert Catalog.get("bundle", "bundle").registered == 2


def test_missing_archive_is_told_and_acknowledged(stack: LocalStack) -> None:
    """An announcement without its archive is a problem in the catalog, not a loop."""
    put(stack, None)
    assert failing(stack) == []
    assert troubles()


def test_archive_without_files_retires_its_dags(
    stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """A bundle that defines nothing any more gives up all its DAGs."""
    stack.push(write_bundle({"dags/a.py": GOOD}))
    root = write_bundle({"jobs/job.py": ""})
    (root / "dags" / "a.py").unlink()
    stack.push(root)
    assert stack.dag("good").is_stale is True
    assert failing(stack) == []


# The sandbox itself fails.


@pytest.mark.parametrize("error", ["TooManyRequestsException", "ServiceException"])
def test_sandbox_that_is_throttled_is_asked_again(
    stack: LocalStack, write_bundle: WriteBundle, error: str
) -> None:
    """A refused call marks nothing; the message comes again and then all is registered."""
    stack.push(write_bundle({"dags/a.py": GOOD}))
    before = stack.dag("good").attribute_values
    client = aws.client("lambda", read_seconds=900.0)
    refusal = client.exceptions.from_code(error)({"Error": {"Code": error}}, "Invoke")
    with patch.object(client, "invoke", side_effect=refusal):
        stack.push(write_bundle({"dags/b.py": GOOD.replace("good", "new")}))
    assert len(failing(stack)) == 1
    assert stack.dag("good").attribute_values == before
    assert troubles() == {}
    stack.advance(minutes=5)
    assert stack.dag("new").push == 2
    assert failing(stack) == []
