"""A bundle that attacks what is deployed, from its watcher and its DAG files, and a healthy one."""

import json
from collections.abc import Mapping
from pathlib import Path

from lamplighter_operations.push import push_bundle
from tests.hostile.test_sandbox import DEAD
from tests.hostile.test_watch import DAG_FILE, QUEUE_TRIGGER

HEALTHY, HOSTILE = "neighbour", "intruder"
# Looks for credentials in whatever it inherits and whatever its ancestors show, and tries what it
# finds: none at all, these, and those of the function, in case somebody has got them.
_HUNT = """
import json, os
from pathlib import Path
import boto3

GIVEN = json.loads(GIVEN_AS_JSON)

def environments():
    yield dict(os.environ)
    pid = os.getpid()
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        try:
            text = Path(f"/proc/{pid}/environ").read_text()
        except OSError:
            continue
        yield dict(each.partition("=")[::2] for each in text.split(chr(0)))

def attempts(credentials):
    for name, key in {"Catalog": ("kind", "id"), "Dags": ("dag_id",)}.items():
        try:
            boto3.client("dynamodb", **GIVEN["place"], **credentials).put_item(
                TableName=GIVEN["stack"] + "-" + name, Item={part: {"S": "x"} for part in key}
            )
        except Exception as error:
            response = getattr(error, "response", None)
            yield response["Error"]["Code"] if response else type(error).__name__
        else:
            yield "written"

def hunt():
    found = [each for each in environments() if "AWS_SECRET_ACCESS_KEY" in each]
    without, stolen = attempts({}), attempts(GIVEN["stolen"])
    return ".".join(["hunt", str(len(found)), *without, *stolen])
"""
_HUNTS = "from lamplighter import DAG\nfrom triggers.hunt import hunt\nDAG(hunt())\n"
# What a hunt comes to.
IN_VAIN = ".".join(["hunt", "0", *["NoCredentialsError"] * 2, *["AccessDeniedException"] * 2])
_ACT = """
if message.content["how"] == "hunts":
    found = hunt()
else:
    open({mark!r}, "w").close()
    time.sleep(200)  # longer than the function has; the emulator may end without ending this
"""
_FURTHER = """
from lamplighter import DAG, SparkTask
with DAG("{name}", schedule=None):
    SparkTask("t", job="jobs.x:main")
"""


def push_healthy(root: Path, queue: str, *further: str) -> None:
    """Push the healthy bundle, with further DAGs."""
    files = _watching(HEALTHY, queue, "pass")
    files |= {f"dags/{name}.py": _FURTHER.format(name=name) for name in further}
    _push(root, HEALTHY, files)


def push_hostile(root: Path, queue: str, *, mark: Path, **given: object) -> None:
    """Push the other one; its watcher makes a file when it begins to hang."""
    files = _watching(HOSTILE, queue, _ACT.format(mark=str(mark)))
    trigger = f"triggers/{HOSTILE}.py"
    files |= {
        trigger: "from triggers.hunt import hunt\n" + files[trigger],
        "triggers/hunt.py": _HUNT.replace("GIVEN_AS_JSON", repr(json.dumps(given))),
        "dags/hunts.py": _HUNTS,
        "dags/kills.py": DEAD["kills the worker"],
        "dags/exits.py": DEAD["exits"],
    }
    _push(root, HOSTILE, files)


def push_calm(root: Path) -> None:
    """Push the hostile bundle without anything hostile."""
    (root / HOSTILE).rename(root / "before")
    _push(root, HOSTILE, {"dags/calm.py": _FURTHER.format(name="calm")})


def _watching(bundle: str, queue: str, act: str) -> dict[str, str]:
    indented = "\n".join(f"            {line}" for line in act.strip().splitlines())
    trigger = QUEUE_TRIGGER.format(bundle=bundle, act=indented)
    files = {
        "dags/watched.py": DAG_FILE.format(bundle=bundle),
        f"triggers/{bundle}.py": trigger,
    }
    return {name: text.replace('"raw"', f'"{queue}"') for name, text in files.items()}


def _push(root: Path, bundle: str, files: Mapping[str, str]) -> None:
    for name, text in {**files, "jobs/x.py": "def main(): pass\n"}.items():
        path = root / bundle / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    push_bundle(root / bundle, bundle)
