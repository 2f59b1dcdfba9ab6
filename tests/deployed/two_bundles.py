"""Bundles that attack what is deployed, each beside a healthy one.

One attacks from its watcher and its DAG files; the other with what it defines, what its jobs write,
and what it sends.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError
from pendulum import DateTime

from lamplighter import aws, settings
from lamplighter.runs.job_request import report_uri
from lamplighter.store.models import AssetEvents, Dags
from lamplighter_local.emr.fake_emr import FakeJob
from lamplighter_operations.push import push_bundle
from tests.hostile.test_jobs import policy_of
from tests.hostile.test_sandbox import DEAD
from tests.hostile.test_templates import HARMLESS, store_hostile
from tests.hostile.test_templates import HOSTILE as HOSTILE_TEMPLATES
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

# The other one.
STEADY, FORGER = "steady", "forger"
_STEADY_FILE = """
from lamplighter import DAG, Asset, SparkTask
made = Asset("made", "s3://lake/made")
with DAG("steady", schedule=None):
    SparkTask("t", job="jobs.x:main", outlets=[made])
with DAG("steady_reader", schedule=made):
    SparkTask("t", job="jobs.x:main")
"""
_FORGER_FILE = f"""
from lamplighter import DAG, Asset, SparkTask
x, y = Asset("x"), Asset("y")
with DAG("forger", schedule=None):
    SparkTask("t", job="jobs.x:main")
with DAG("greedy", schedule=None):
    SparkTask("t", job="jobs.x:main", arguments=["{HARMLESS}"])
with DAG("refused", schedule=x):
    SparkTask("t", job="jobs.x:main", outlets=[x])
with DAG("endless", schedule=y, allow_cycle=True):
    SparkTask("t", job="jobs.x:main", outlets=[y])
"""
_ALL = {"Effect": "Allow", "Action": "*", "Resource": "*"}


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


# The bundle that forges, floods and never ends.


def push_steady(root: Path) -> None:
    """Push the healthy bundle beside it: a step that updates an asset, and a DAG that reads it."""
    _push(root, STEADY, {"dags/steady.py": _STEADY_FILE})


def push_forger(root: Path) -> None:
    """Push the other one."""
    _push(root, FORGER, {"dags/forger.py": _FORGER_FILE})


def prepare_forger(now: DateTime) -> None:
    """Let it have a template that nobody would define now, and runs of most of an hour."""
    store_hostile(HOSTILE_TEMPLATES["tower of powers"], "greedy")
    almost = settings.current().asset_runs_per_hour - 1
    Dags("endless").update([Dags.asset_hour_start.set(now), Dags.asset_runs_in_hour.set(almost)])


def rights_of(job: FakeJob, place: Mapping[str, Any], account: str) -> Any:
    """Return a client of S3 with the widest role there is, narrowed by the policy of a job."""
    iam, name = aws.client("iam"), f"widest-{job.dag}"
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": account}}
    role = iam.create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps({"Statement": [trust]})
    )["Role"]["Arn"]
    everything = json.dumps({"Version": "2012-10-17", "Statement": [_ALL]})
    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=everything)
    given = aws.client("sts").assume_role(
        RoleArn=role, RoleSessionName="job", Policy=policy_of(job)
    )["Credentials"]
    return boto3.client(
        "s3",
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
        **place,
    )


def reach(s3: Any, uri: str, *, write: bool) -> str:
    """Return what AWS says when a job reads an object, or writes it as it is."""
    bucket, key = aws.bucket_and_key(uri)
    try:
        if write:
            s3.put_object(Bucket=bucket, Key=key, Body=b"{}")
        else:
            s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "done"


def reports_and_contexts(job: FakeJob, other: FakeJob) -> dict[str, tuple[str, bool]]:
    """Return what a job may and may not reach: its URI, and whether it writes."""
    return {
        "own context": (job.context_uri, False),
        "own report": (report_uri(job.context_uri), True),
        "context of another": (other.context_uri, False),
        "report of another": (report_uri(other.context_uri), True),
    }


def forge_events(number: int) -> None:
    """Speak for the step of the healthy bundle, with ids of ours and with its own."""
    source = {"dag_id": STEADY, "run_id": "x", "task_id": "t", "try_number": 1}
    forged: list[dict[str, Any]] = [
        {"asset": "made", "event_id": f"outlet-{number:032x}", "extra": {"rows": 0}},
        {"asset": "made", "event_id": f"x-{number}", "source": source},
        *(
            {"asset": "made", "event_id": row.event_id, "extra": {"rows": -1}}
            for row in AssetEvents.query("made", consistent_read=True)
        ),
    ]
    url = settings.current().queue_url("events")
    for event in forged:
        aws.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(event))
