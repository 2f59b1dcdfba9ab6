"""Triggers that attack the function which runs them: they fail with their own bundle alone.

Every attack is tried beside a healthy bundle on the same queue, and a built-in trigger.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from lamplighter import aws
from lamplighter.events.dead_letters import dead_letters, make_visible
from lamplighter.store.models import AssetEvents, WatcherStates
from lamplighter.store.watchers import read_watchers
from lamplighter.streams import isolation
from lamplighter.streams.watchers import watchers_in
from lamplighter_local import handlers
from lamplighter_local.emulator.moto_memory import queue_at
from lamplighter_local.handlers import LambdaContext
from lamplighter_local.stack import LocalStack
from tests.hostile.as_lambda import IMPATIENT, SECRET, end_as_lambda, run_as_lambda, with_disk
from tests.hostile.test_sandbox import LOOKS, living
from tests.integration.events.batches import received

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a Lambda is Linux")

DAG_FILE = """
from lamplighter import DAG, Asset, AssetWatcher
from lamplighter.triggers import SqsTrigger
from triggers.{bundle} import Own
own = Asset("{bundle}", watchers=[AssetWatcher("own", Own())])
built_in = Asset("built_in_{bundle}", watchers=[AssetWatcher("built_in", SqsTrigger("raw"))])
DAG("{bundle}", schedule=[own, built_in])
"""
QUEUE_TRIGGER = """
import json, os, time
from lamplighter.triggers.feeds import Feed
from lamplighter.triggers.sources import QueueTrigger

def say(line):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, line)
        except OSError:
            pass

class Own(QueueTrigger):
    feed = Feed(queue="raw")

    def serialize(self):
        return "triggers.{bundle}.Own", {{}}

    def payloads(self, message):
        found = message.content["name"]
        if found == "attack":
{act}
        yield found
"""
# Long enough for a process to begin on a busy machine; what hangs takes all of it.
SECONDS = 30


@pytest.fixture(autouse=True)
def _isolated(stack: LocalStack) -> Iterator[None]:
    """Let author code have processes, as in Lambda, and end them with the test."""
    with patch.object(stack.runtime, "isolates_watchers", True):
        yield
        for process in isolation._idle().values():
            process.end()


def push(stack: LocalStack, root: Path, bundle: str, act: str = "pass", **files: str) -> None:
    """Push a bundle whose watcher does something when it gets the message `attack`."""
    indented = "\n".join(f"            {line}" for line in act.strip().splitlines())
    written = {
        "dags/a.py": DAG_FILE.format(bundle=bundle),
        f"triggers/{bundle}.py": QUEUE_TRIGGER.format(bundle=bundle, act=indented),
        **files,
    }
    for name, text in written.items():
        path = root / bundle / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    stack.push(root / bundle, bundle=bundle)


def watch(stack: LocalStack, *names: str, seconds: int = SECONDS) -> list[str]:
    """Send messages, hand them to the function, and return which it wants to see again."""
    url = stack.watched_queue("raw")
    for name in names:
        aws.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps({"name": name}))
    records = received(url)
    answer = handlers.call("watch", {"Records": records}, LambdaContext(seconds * 1000))
    by_id = {record["messageId"]: json.loads(record["body"])["name"] for record in records}
    failed = sorted(by_id[item["itemIdentifier"]] for item in answer["batchItemFailures"])
    queue_at(url)._messages.clear()
    stack.run_until_idle()
    return failed


def recorded() -> dict[str, list[str]]:
    """Return by asset what its events say."""
    found: dict[str, list[str]] = {}
    for row in AssetEvents.scan(consistent_read=True):
        payload = row.extra["payload"]
        name = payload["name"] if isinstance(payload, dict) else payload
        found.setdefault(row.asset_id, []).append(name)
    return {asset: sorted(names) for asset, names in found.items()}


ATTACKS = {
    "exits": "os._exit(0)",
    "takes all memory": "x = []\nwhile True: x.append(bytearray(10**7))",
    "kills the process above": "os.kill(os.getppid(), 9)\ntime.sleep(600)",
    "ends the process above": "os.kill(os.getppid(), 15)\ntime.sleep(600)",
    "hangs": "time.sleep(600)",
    "stops the process above, and itself": "os.kill(os.getppid(), 19)\nos.kill(os.getpid(), 19)",
    "says garbage": "say(bytes(range(256)) + b'\\n')\ntime.sleep(600)",
    "floods": "while True: say(b'x' * 65536)",
    "says something deep": "say(b'[' * 100_000 + b'\\n')\ntime.sleep(600)",
    "asks for what there is not": 'say(b\'{"ask": "everything"}\\n\')\ntime.sleep(600)',
    "speaks for others": (
        "forged = dict(watcher='good/own/0', event_id='1', payload='forged', lane=None)\n"
        "say(json.dumps(dict(ask='send', events=[forged])).encode() + b'\\n')\ntime.sleep(600)"
    ),
    "says what it is not asked": (
        "say(json.dumps(dict(answer=dict(done=[99], reasons=[], failed_watchers=-1))).encode()"
        " + b'\\n')\ntime.sleep(600)"
    ),
    "says nothing of use": "say(b'{\"answer\": null}\\n')\nos._exit(0)",
    "asks without end": (
        "while True:\n"
        '    say(b\'{"ask": "keep", "letters": []}\\n\' * 100)\n'
        "    for pipe in range(3, 64):\n"
        "        try:\n"
        "            os.set_blocking(pipe, False)\n"
        "            os.read(pipe, 65536)\n"
        "        except OSError:\n"
        "            pass"
    ),
}


@pytest.mark.parametrize("act", ATTACKS.values(), ids=ATTACKS)
def test_trigger_that_attacks_fails_with_its_bundle_alone(
    stack: LocalStack, tmp_path: Path, act: str
) -> None:
    """All others have their events at once; what the attacker did not finish comes again."""
    push(stack, tmp_path, "evil", act)
    push(stack, tmp_path, "good")
    assert "attack" in watch(stack, "attack", "calm")
    found = recorded()
    for healthy in ("good", "built_in_good", "built_in_evil"):
        assert found[healthy] == ["attack", "calm"]
    # It goes on as soon as nothing is wrong, with what is new.
    assert watch(stack, "later") == []
    found = recorded()
    for asset in ("evil", "good", "built_in_good", "built_in_evil"):
        assert "later" in found[asset]


def test_trigger_without_attack_lets_its_messages_go(stack: LocalStack, tmp_path: Path) -> None:
    """What all watchers of all bundles are done with is acknowledged, by the same processes."""
    push(stack, tmp_path, "one")
    push(stack, tmp_path, "two")
    assert watch(stack, "a") == []
    processes = {process.pid for process in isolation._idle().values()}
    assert watch(stack, "b") == []
    assert {process.pid for process in isolation._idle().values()} == processes
    assert recorded()["one"] == recorded()["two"] == ["a", "b"]


def test_rejection_in_a_process_keeps_the_message_with_its_reason(
    stack: LocalStack, tmp_path: Path
) -> None:
    """It is a dead letter once all others are done with it."""
    reject = (
        "from lamplighter.triggers.shared_stream import reject_shared_stream_event\n"
        "reject_shared_stream_event('not for me')\nreturn"
    )
    push(stack, tmp_path, "picky", reject)
    push(stack, tmp_path, "good")
    assert watch(stack, "attack", "calm") == []
    letters = dead_letters(limit=10)
    make_visible(letters)
    reasons = [letter.reason for letter in letters]
    assert reasons == ["rejected by watcher 'own' of asset 'picky': not for me"]
    assert recorded()["picky"] == ["calm"]
    assert recorded()["good"] == ["attack", "calm"]


# Rights.

CALLS_AWS = """
import boto3
try:
    boto3.client("dynamodb", region_name="us-east-1").put_item(
        TableName="Catalog", Item={"kind": {"S": "tick"}, "id": {"S": "look-ahead"}}
    )
    found = "written"
except Exception as error:
    found = type(error).__name__
"""


def test_trigger_has_no_credentials(
    stack: LocalStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its calls to tables of the deployment are not even signed."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    push(stack, tmp_path, "evil", CALLS_AWS)
    push(stack, tmp_path, "good", CALLS_AWS.replace("error).__name__", "error).__name__ * 2"))
    assert watch(stack, "attack") == []
    assert recorded()["evil"] == ["NoCredentialsError"]


TELLS = """
import resource
read = open("/proc/self/environ").read().split(chr(0))
names = sorted({each.partition("=")[0] for each in read} | {*os.environ})
withheld = ("AWS_", "_X_AMZN", "LAMBDA_", "LAMPLIGHTER_")
found = dict(
    name="told",
    withheld=[name for name in names if name.startswith(withheld)],
    memory=resource.getrlimit(resource.RLIMIT_AS)[1],
)
"""


def test_trigger_has_neither_names_of_resources_nor_the_memory_of_the_function(
    stack: LocalStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process inherits what is listed, and cannot use up what all bundles share."""
    for name in ("AWS_SECRET_ACCESS_KEY", "LAMBDA_TASK_ROOT", "LAMPLIGHTER_SETTINGS"):
        monkeypatch.setenv(name, "of the function")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    push(stack, tmp_path, "evil", TELLS)
    assert watch(stack, "attack") == []
    (event,) = [row for row in AssetEvents.scan(consistent_read=True) if row.asset_id == "evil"]
    told = event.extra["payload"]
    assert set(told["withheld"]) <= {"AWS_REGION", "AWS_DEFAULT_REGION"}
    assert 0 < told["memory"] < 1024**3  # unlimited is -1


def test_role_of_a_bundle_is_given_to_its_watchers_and_no_other(
    stack: LocalStack, tmp_path: Path
) -> None:
    """The temporary credentials of a role are all that a process gets."""
    tell = "found = os.environ.get('AWS_ACCESS_KEY_ID', 'none')[:4]"
    push(stack, tmp_path, "good", tell)
    push(stack, tmp_path, "poor", tell)
    roles = {"good": "arn:aws:iam::123456789012:role/good-watchers"}
    with patch.object(stack.runtime, "settings", replace(stack.settings, watcher_roles=roles)):
        assert watch(stack, "attack") == []
    assert recorded()["good"] == ["ASIA"]
    assert recorded()["poor"] == ["none"]


REWRITES = """
from pathlib import Path
import tempfile
files = "lamplighter-bundle-*/bundle/triggers/healthy_neighbour.py"
for path in Path(tempfile.gettempdir()).glob(files):
    path.chmod(0o600)
    path.write_text("raise SystemExit('rewritten')")
"""


def test_files_of_another_bundle_may_be_rewritten_without_effect(
    stack: LocalStack, tmp_path: Path
) -> None:
    """A process has its own copy, which it has read; the next one gets another from the bucket."""
    push(stack, tmp_path, "healthy_neighbour")
    push(stack, tmp_path, "evil", REWRITES)
    assert watch(stack, "calm") == []
    assert watch(stack, "attack") == []
    assert watch(stack, "later") == []
    for process in isolation._idle().values():
        process.end()
    isolation._idle().clear()
    assert watch(stack, "much later") == []
    found = recorded()["healthy_neighbour"]
    assert found == ["attack", "calm", "later", "much later"]


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        open({path!r}, "a").write(str(os.getpid()) + "\\n")
        time.sleep(600)
    os._exit(0)
while not os.path.exists({path!r}):
    time.sleep(0.01)
{then}
"""


@pytest.mark.parametrize("then", ["os._exit(1)", "time.sleep(600)"])
def test_daemon_of_a_trigger_is_ended_with_its_process(
    stack: LocalStack, tmp_path: Path, then: str
) -> None:
    """Whoever is left below a process that has failed is killed."""
    path = tmp_path / "daemons"
    push(stack, tmp_path, "evil", DAEMON.format(path=str(path), then=then))
    push(stack, tmp_path, "good")
    assert watch(stack, "attack") == ["attack"]
    assert recorded()["good"] == ["attack"]
    try:
        assert living(path) == []
    finally:
        for pid in living(path):
            os.kill(pid, signal.SIGKILL)


HOLDS = """
above = os.getppid()
if os.fork() == 0:
    os.setsid()
    open({path!r}, "a").write(str(os.getpid()) + "\\n")
    os.kill(above, 9)
    {then}
time.sleep(600)
"""
SURVIVES = """
import ctypes
ctypes.CDLL(None).prctl(1, 0)
open({path!r}, "a").write(str(os.getpid()) + "\\n")
os.kill(os.getppid(), 9)
time.sleep(600)
"""
HOLDERS = {
    "a daemon that is silent": HOLDS.replace("{then}", "time.sleep(600)"),
    "a daemon that goes on asking": HOLDS.replace(
        "{then}", 'while True: say(b\'{{"ask": "keep", "letters": []}}\\n\')'
    ),
    "a daemon that speaks slowly": HOLDS.replace(
        "{then}", "while True: say(b'x'); time.sleep(0.1)"
    ),
    "the trigger itself": SURVIVES,
}


@pytest.mark.parametrize("act", HOLDERS.values(), ids=HOLDERS)
def test_pipe_of_a_dead_process_that_is_held_open_holds_up_nobody(
    stack: LocalStack, tmp_path: Path, act: str
) -> None:
    """Its end is noticed at once: waiting would take longer than a test may."""
    path = tmp_path / "daemons"
    push(stack, tmp_path, "evil", act.format(path=str(path)))
    push(stack, tmp_path, "good")
    try:
        assert watch(stack, "attack", "calm", seconds=3_600) == ["attack", "calm"]
        assert recorded()["good"] == ["attack", "calm"]
        assert watch(stack, "later", seconds=3_600) == []
        assert "later" in recorded()["good"]
    finally:
        for pid in living(path):
            os.kill(pid, signal.SIGKILL)


BOMB = """
def burst(depth):
    for _ in range(3):
        if depth and os.fork() == 0:
            os.setsid()
            open({path!r}, "a").write(str(os.getpid()) + "\\n")
            burst(depth - 1)
            time.sleep(600)
burst(3)
time.sleep(600)
"""


def test_fork_bomb_of_a_trigger_is_ended_with_its_time(stack: LocalStack, tmp_path: Path) -> None:
    """Every process that it has started is dead when the function answers."""
    path = tmp_path / "daemons"
    push(stack, tmp_path, "evil", BOMB.format(path=str(path)))
    push(stack, tmp_path, "good")
    assert watch(stack, "attack") == ["attack"]
    assert recorded()["good"] == ["attack"]
    try:
        assert len(path.read_text().split()) == 3 + 9 + 27
        assert living(path) == []
    finally:
        for pid in living(path):
            os.kill(pid, signal.SIGKILL)
    assert watch(stack, "later") == []


# What is asked for, without end.

# Asks for something over and over, and reads what it is told.
ASKS = """
for number in range({times}):
    say(json.dumps({question}).encode() + b"\\n")
    for pipe in range(3, 64):
        try:
            os.set_blocking(pipe, False)
            os.read(pipe, 65536)
        except OSError:
            pass
time.sleep(600)
"""
SENDS = (
    "dict(ask='send', events=[dict(watcher=WATCHER, event_id=f'{number}-{each}', payload='forged',"
    " lane=None) for each in range(10)])"
)
KEEPS = "dict(ask='keep', letters=[dict(message_id='1', body='x', reason='x')] * 10)"


def watcher_of(bundle: str) -> str:
    """Return the id of the watcher of author code that a bundle has."""
    found = watchers_in(read_watchers("raw"))
    return next(each.id for each in found if each.bundle == bundle and each.is_authors)


@pytest.mark.parametrize("question", [SENDS, KEEPS], ids=["events", "dead letters"])
def test_flood_of_what_a_process_asks_for_ends_at_its_limit(
    stack: LocalStack, tmp_path: Path, question: str
) -> None:
    """No more reaches the queue of all events than a watcher may fire; the others have theirs."""
    push(stack, tmp_path, "evil")
    act = ASKS.format(times=100, question=question.replace("WATCHER", repr(watcher_of("evil"))))
    push(stack, tmp_path, "evil", act)
    push(stack, tmp_path, "good")
    limited = replace(stack.settings, watcher_events_per_minute=50)
    with patch.object(stack.runtime, "settings", limited):
        assert watch(stack, "attack") == ["attack"]
    found = recorded()
    assert len(found.get("evil", [])) <= 50
    assert len(dead_letters(limit=1_000)) <= 50
    assert found["good"] == found["built_in_good"] == ["attack"]


def test_bucket_that_no_watcher_of_the_bundle_declares_is_not_listed(
    stack: LocalStack, tmp_path: Path
) -> None:
    """What others watch is not told: the function may list it, and asks who wants to know."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="of-others")
    s3.put_object(Bucket="of-others", Key="a-secret-name", Body=b"x")
    asks = """
import select
say(json.dumps(dict(ask="list", bucket="of-others", prefix="")).encode() + b"\\n")
for pipe in range(3, 20):
    try:
        if select.select([pipe], [], [], 1)[0]:
            found = os.read(pipe, 65536).decode()
            break
    except OSError:
        pass
"""
    push(stack, tmp_path, "evil", asks)
    push(stack, tmp_path, "good")
    watch(stack, "attack")
    assert "a-secret-name" not in str(recorded())
    assert recorded()["good"] == ["attack"]


LEAVES_A_FILE = "import tempfile\nfound = tempfile.mkstemp()[1]"


def test_temporary_files_of_a_trigger_are_removed_with_its_process(
    stack: LocalStack, tmp_path: Path
) -> None:
    """They are in a folder that no other process has."""
    push(stack, tmp_path, "one", LEAVES_A_FILE)
    push(stack, tmp_path, "two", LEAVES_A_FILE)
    assert watch(stack, "attack") == []
    (one,), (two,) = (map(Path, recorded()[bundle]) for bundle in ("one", "two"))
    assert one.exists()
    assert two.exists()
    assert one.parent != two.parent
    for process in isolation._idle().values():
        process.end()
    assert not one.parent.exists()
    assert not two.parent.exists()


# Polled sources.

POLL_FILE = """
from lamplighter import DAG, Asset, AssetWatcher
from triggers.{bundle} import Own
DAG("{bundle}", schedule=Asset("{bundle}", watchers=[AssetWatcher("own", Own())]))
"""
POLLED = """
import os, time
from lamplighter.triggers.sources import PollingTrigger, SourceItem
from pendulum import datetime

class Own(PollingTrigger):
    def serialize(self):
        return "triggers.{bundle}.Own", {{}}

    def shared_stream_key(self):
        return "the same for all"

    @classmethod
    async def poll(cls, kwargs):
        {act}
        return [SourceItem("x", "1", {{"name": "{bundle}"}}, datetime(2030, 1, 1))]
"""


@pytest.mark.parametrize(
    "act", ["time.sleep(600)", "os._exit(0)", "os.kill(os.getppid(), 9); time.sleep(600)"]
)
def test_source_that_attacks_is_polled_in_vain_and_others_are_not(
    stack: LocalStack, tmp_path: Path, act: str
) -> None:
    """Its lease expires, items of others are recorded once, and are remembered as seen."""
    for bundle, does in (("evil", act), ("good", "pass")):
        files = {
            "dags/a.py": POLL_FILE.format(bundle=bundle),
            f"triggers/{bundle}.py": POLLED.format(bundle=bundle, act=does),
        }
        push(stack, tmp_path, bundle, **files)
    limited = replace(stack.settings, watch_session_seconds=10)
    with patch.object(stack.runtime, "settings", limited):
        for _ in range(2):
            handlers.call("watch", {}, LambdaContext(60_000))
            stack.run_until_idle()
    assert recorded() == {"good": ["good"]}
    seen = [row.seen_items for row in WatcherStates.query("stream") if row.seen_items]
    assert len(seen) == 1


# The function, in a process of its own.

CALLS = """
import json, os, sys
from pathlib import Path
from pendulum import datetime
from lamplighter import aws
from lamplighter.store.models import AssetEvents
from lamplighter_local.handlers import LambdaContext, call
from lamplighter_local.stack import local_stack
from tests.integration.events.batches import received
with local_stack(at=datetime(2026, 1, 5, 12)) as stack:
    stack.runtime.isolates_watchers = True
    os.environ["AWS_LAMBDA_RUNTIME_API"] = "127.0.0.1:9"  # the emulator has cleared the environment
    for root in json.loads(sys.argv[1]):
        stack.push(Path(root), bundle=Path(root).name)
    url = stack.watched_queue("raw")
    aws.client("sqs").send_message(QueueUrl=url, MessageBody='{"name": "attack"}')
    call("watch", {"Records": received(url)}, LambdaContext(60_000))
    stack.run_until_idle()
    rows = list(AssetEvents.scan(consistent_read=True))
    found = {row.asset_id: row.extra["payload"] for row in rows}
print()
print(json.dumps(found))
"""


def run_bundles(root: Path, *, program: str = CALLS, **acts: str) -> dict[str, object]:
    """Run bundles in a function of its own; return by asset what its event says."""
    found: dict[str, object] = run_as_lambda(program, written(root, acts))
    return found


def written(root: Path, acts: Mapping[str, str]) -> list[str]:
    """Write bundles, and return where they are."""
    roots = []
    for bundle, act in acts.items():
        indented = "\n".join(f"            {line}" for line in act.strip().splitlines())
        files = {
            "dags/a.py": DAG_FILE.format(bundle=bundle),
            f"triggers/{bundle}.py": QUEUE_TRIGGER.format(bundle=bundle, act=indented),
        }
        for name, text in files.items():
            path = root / bundle / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        roots.append(str(root / bundle))
    return roots


@pytest.mark.parametrize("look", ["environment", "memory"])
def test_credentials_of_the_function_are_nowhere_to_be_found(tmp_path: Path, look: str) -> None:
    """Neither what a trigger inherits nor what its ancestors show has them."""
    looks = LOOKS.format(look=look).replace("from lamplighter import DAG", "")
    looks = looks.replace('DAG("found_" + "_".join(where()))', 'found = "_".join(where())')
    # Its functions see each other only in a namespace of their own.
    act = f"space = {{}}\nexec({looks!r}, space)\nfound = 'found_' + space['found']"
    found = run_bundles(tmp_path, evil=act, good="pass")
    assert found["evil"] == "found_"
    assert found["good"] == "attack"
    assert SECRET not in str(found)


def test_daemon_that_kills_the_process_above_it_is_ended_by_the_function(tmp_path: Path) -> None:
    """The function adopts whom a dead process leaves behind."""
    path = tmp_path / "daemons"
    act = DAEMON.format(path=str(path), then="os.kill(os.getppid(), 9)\ntime.sleep(600)")
    found = run_bundles(tmp_path, evil=act, good="pass")
    assert found["good"] == "attack"
    assert "evil" not in found
    try:
        assert living(path) == []
    finally:
        for pid in living(path):
            os.kill(pid, signal.SIGKILL)


def test_survivor_of_a_trigger_ends_the_environment(tmp_path: Path) -> None:
    """What cannot be ended must not meet the next batch; its messages come again."""
    path = tmp_path / "daemons"
    act = DAEMON.format(path=str(path), then="os.kill(os.getppid(), 9)\ntime.sleep(600)")
    roots = written(tmp_path, {"evil": act, "good": "pass"})
    assert end_as_lambda(IMPATIENT + CALLS, roots).returncode == 1
    assert run_bundles(tmp_path, program=IMPATIENT + CALLS, good="pass")["good"] == "attack"


CROWDED = "from lamplighter.bundles import processes\nprocesses._MIN_ROOM_BYTES = 10**18\n"
BEGINS_NO_MORE = """
from lamplighter.store.watchers import read_watchers
from lamplighter.streams import isolation
from lamplighter.streams.watchers import watchers_in
fetched = isolation.fetched
def full(bundle, version):
    if bundle == "evil":
        raise OSError(28, "No space left on device")
    return fetched(bundle, version)
isolation.fetched = full
"""


@pytest.mark.parametrize(
    ("before", "is_kept"),
    [("", True), (CROWDED, False), (BEGINS_NO_MORE, False)],
    ids=["there is room", "there is none", "no process can begin"],
)
def test_disk_that_triggers_have_filled_is_emptied(
    tmp_path: Path, before: str, is_kept: bool
) -> None:
    """Files by an absolute path stay while there is room, and do not keep others from beginning."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "of an earlier process").write_text("x")
    fills = f"open({str(disk / 'left')!r}, 'w').write('x')"
    program = with_disk(disk, before + CALLS)
    assert run_bundles(tmp_path, program=program, evil="pass", good=fills)["good"] == "attack"
    assert [path.name for path in disk.iterdir()] == ["left"] * is_kept
