"""A web page, or another user of the machine, can do nothing to a session of `lamplighter dev`.

Real requests over HTTP, as a browser or a program sends them.
"""

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit
from zipfile import ZipFile

import boto3
import pytest
from botocore.exceptions import ClientError

from lamplighter.store.dags import all_dags
from lamplighter_cli import console
from lamplighter_cli import dev as dev_command
from lamplighter_local.dev import state as dev_state
from lamplighter_local.dev.session import DevSession, dev_session
from lamplighter_local.dev.state import DevState

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

PAGE = "https://evil.example"


@dataclass
class Target:
    """A session, as an attacker sees it who knows everything but the key."""

    dev: DevSession
    state: DevState
    root: Path

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.state.endpoint_url.rpartition(":")[2])

    @property
    def bucket(self) -> str:
        """The bucket that bundles are pushed to."""
        return str(self.state.settings["bucket"])

    @property
    def queue(self) -> str:
        """The path of the queue of asset events."""
        return urlsplit(str(self.state.settings["queue_urls"]["events"])).path

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, dict[str, str], str]:
        """Send a request; return the status, the headers and the text of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            found = {name.lower(): text for name, text in answer.getheaders()}
            return answer.status, found, answer.read().decode()
        finally:
            connection.close()

    def client(self, service: str, **other: str) -> Any:
        """Return a client that has the key, or another one."""
        key = {
            "aws_access_key_id": self.state.access_key_id,
            "aws_secret_access_key": self.state.secret_access_key,
        }
        url, region = self.state.endpoint_url, self.state.region
        return boto3.client(service, endpoint_url=url, region_name=region, **{**key, **other})

    def everything(self) -> tuple[object, ...]:
        """Return all that an attack could change: objects, messages, rows, and files."""
        objects = self.client("s3").list_objects_v2(Bucket=self.bucket).get("Contents", [])
        sqs = self.client("sqs")
        counts = [
            sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])[
                "Attributes"
            ]
            for url in sorted(sqs.list_queues()["QueueUrls"])
        ]
        tables = self.client("dynamodb").list_tables()["TableNames"]
        rows = [row.attribute_values for row in all_dags()]
        files = sorted(str(path) for path in self.root.rglob("*"))
        return sorted((each["Key"], each["ETag"]) for each in objects), counts, tables, rows, files


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Run a session with one DAG."""
    root = tmp_path_factory.mktemp("shop")
    (root / "dags").mkdir()
    (root / "dags" / "a.py").write_text("from lamplighter import DAG\nDAG('a')\n")
    with (
        patch.dict(os.environ, LAMPLIGHTER_STATE_DIR=str(tmp_path_factory.mktemp("state"))),
        dev_session(root, is_instant=True) as dev,
    ):
        dev.step()
        yield Target(dev, dev_state.read(), root)


def evil_bundle(root: Path) -> bytes:
    """Return an archive whose DAG file leaves a trace when it is imported."""
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("dags/evil.py", f"open({str(root / 'ran')!r}, 'w').close()\n")
    return packed.getvalue()


def form(fields: Mapping[str, bytes]) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a form with a file, as a browser posts it."""
    parts = [
        b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), text)
        for name, text in fields.items()
    ]
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    return headers, b"".join(parts) + b"--x--\r\n"


def authorization(key_id: str, service: str = "s3") -> dict[str, str]:
    """Return the header of a request that someone else has signed."""
    return {
        "Authorization": (
            f"AWS4-HMAC-SHA256 Credential={key_id}/20260105/us-east-1/{service}/aws4_request,"
            f" SignedHeaders=host;x-amz-date, Signature={'0' * 64}"
        ),
        "X-Amz-Date": "20260105T120000Z",
    }


SIMPLE_POST = {"Content-Type": "text/plain"}
AS_A_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SEND_MESSAGE = b"Action=SendMessage&Version=2012-11-05&MessageBody=%7B%22asset%22%3A%22a%22%7D"


def attacks(target: Target) -> dict[str, tuple[str, str, dict[str, str], bytes]]:
    """Return requests by what they try: method, path, headers, body."""
    bucket, queue = f"/{target.bucket}", target.queue
    archive = evil_bundle(target.root)
    page = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}
    multipart, posted = form({"key": b"bundles/evil/1.zip", "file": archive})
    announced_as, announced = form({"key": b"pushes/evil/00000001.json", "file": b'{"version":1}'})
    key = authorization(target.state.access_key_id)
    return {
        "form post of a bundle": ("POST", bucket, {**multipart, **page}, posted),
        "form post of a push": ("POST", bucket, {**announced_as, **page}, announced),
        "form post without an origin": ("POST", bucket, multipart, posted),
        "put of a page": ("PUT", f"{bucket}/bundles/evil/1.zip", page, archive),
        "put of a page that knows the key id": ("PUT", f"{bucket}/x", {**page, **key}, archive),
        "put from a site beside it": ("PUT", f"{bucket}/x", {"Sec-Fetch-Site": "same-site"}, b"x"),
        "put without a key": ("PUT", f"{bucket}/bundles/evil/1.zip", {}, archive),
        "put with another key": ("PUT", f"{bucket}/x", authorization("testing"), archive),
        "put with the key id alone": ("PUT", f"{bucket}/x", key, archive),
        "query instead of a header": (
            "PUT",
            f"{bucket}/x?X-Amz-Credential={target.state.access_key_id}%2F20260105",
            {},
            archive,
        ),
        "message as plain text": ("POST", queue, {**SIMPLE_POST, **page}, SEND_MESSAGE),
        "message as a form": ("POST", queue, {**AS_A_FORM, **page}, SEND_MESSAGE),
        "message without an origin": ("POST", queue, AS_A_FORM, SEND_MESSAGE),
        "message of an origin without a name": ("POST", queue, {"Origin": "null"}, SEND_MESSAGE),
        "reset": ("POST", "/moto-api/reset", {}, b""),
        "reset of a page": ("POST", "/moto-api/reset", {**SIMPLE_POST, **page}, b""),
        "reset with the key id": ("POST", "/moto-api/reset", key, b""),
        "reset in disguise": ("POST", "//%6doto-api/reset", key, b""),
        "look at everything": ("GET", "/moto-api/data.json", {}, b""),
        "list of buckets": ("GET", "/", {}, b""),
        "foreign host": ("GET", "/", {"Host": f"evil.example:{target.port}", **key}, b""),
        "foreign port": ("GET", "/", {"Host": "127.0.0.1:1", **key}, b""),
        "no port": ("GET", "/", {"Host": "127.0.0.1", **key}, b""),
        "preflight": (
            "OPTIONS",
            bucket,
            {"Origin": PAGE, "Access-Control-Request-Method": "PUT"},
            b"",
        ),
        "preflight without an origin": ("OPTIONS", bucket, {}, b""),
        "request of a picture": ("GET", f"{bucket}/x", {"Sec-Fetch-Site": "cross-site"}, b""),
    }


def test_every_attack_is_refused_and_changes_nothing(target: Target) -> None:
    """Each gets 403, one line and no header that would let a page read it; nothing has changed."""
    before = target.everything()
    for name, request in attacks(target).items():
        status, headers, said = target.send(*request)
        assert (name, status) == (name, 403)
        assert (name, said.count("\n"), said.strip() != "") == (name, 1, True)
        assert not [each for each in headers if each.startswith("access-control-")], name
    target.dev.step()
    assert target.everything() == before
    assert not (target.root / "ran").exists()


@pytest.mark.parametrize(
    "other", [{"aws_secret_access_key": "guessed"}, {"aws_access_key_id": "guessed"}]
)
@pytest.mark.parametrize("service", ["dynamodb", "s3", "sqs"])
def test_program_with_another_key_is_refused(
    target: Target, service: str, other: dict[str, str]
) -> None:
    """Both halves of the key are needed: whoever has read an id in a log cannot sign with it."""
    client = target.client(service, **other)
    ask = {"dynamodb": "list_tables", "s3": "list_buckets", "sqs": "list_queues"}[service]
    with pytest.raises(ClientError) as refused:
        getattr(client, ask)()
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_answer_to_a_program_has_no_headers_for_pages(target: Target) -> None:
    """Not even to those who have the key does the emulator offer to be read by a page."""
    answer = target.client("s3").list_buckets()["ResponseMetadata"]
    assert answer["HTTPStatusCode"] == 200
    assert not [name for name in answer["HTTPHeaders"] if name.startswith("access-control-")]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_objects_with_any_name_are_written_and_read_with_the_key(target: Target, host: str) -> None:
    """The signature is checked over the path, the query and the headers as the client sent them."""
    url = f"http://{host}:{target.port}"
    session = boto3.Session(
        target.state.access_key_id, target.state.secret_access_key, region_name="us-east-1"
    )
    config = boto3.session.Config(s3={"addressing_style": "path"})
    s3 = session.client("s3", endpoint_url=url, config=config)
    s3.create_bucket(Bucket="lake")
    key = "a b/ä+%2F~'(1)=&?#/../x"
    s3.put_object(Bucket="lake", Key=key, Body=b"x" * 100_000, Metadata={"with_two": "a  b"})
    found = s3.get_object(Bucket="lake", Key=key)
    assert (len(found["Body"].read()), found["Metadata"]) == (100_000, {"with_two": "a  b"})
    listed = s3.list_objects_v2(Bucket="lake", Prefix="a b/ä", Delimiter="#")
    assert listed["KeyCount"] == 1
    s3.delete_object(Bucket="lake", Key=key)
    s3.delete_bucket(Bucket="lake")


def lamplighter(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command on the session in a process of its own."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from lamplighter_cli.app import main; main()",
            "--local",
            *arguments,
        ],
        env={name: text for name, text in os.environ.items() if not name.startswith("AWS_")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_commands_of_the_same_user_work(target: Target, tmp_path: Path) -> None:
    """`lamplighter --local` finds the key by itself, to read, to emit and to push."""
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "b.py").write_text("from lamplighter import DAG\nDAG('b')\n")
    pushed = lamplighter("push", str(tmp_path), "--bundle", "second", "--yes")
    assert (pushed.returncode, pushed.stderr) == (0, "")
    target.dev.step()
    listed = lamplighter("dags", "list", "--json")
    assert [each["dag_id"] for each in json.loads(listed.stdout)] == ["a", "b"]
    assert lamplighter("assets", "emit", "orders").returncode == 0


def test_command_with_a_wrong_key_is_told_what_to_do(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that leads to someone else's session gives one line, with the way out."""
    monkeypatch.setenv("LAMPLIGHTER_STATE_DIR", str(tmp_path))
    dev_state.write(replace(target.state, secret_access_key="another"))  # noqa: S106 - of nobody
    refused = lamplighter("dags", "list")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "not signed with the access key of this session of `lamplighter dev`" in refused.stderr


def test_introduction_names_the_file_and_not_the_key(
    target: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed can be pasted into a shell, and the secret is not left in the terminal."""
    dev_command._introduce(target.dev, console.out())
    said = capsys.readouterr().out
    assert target.state.access_key_id not in said
    assert target.state.secret_access_key not in said
    found = re.search(r"AWS_SHARED_CREDENTIALS_FILE=(\S+) aws --profile (\S+) --endpoint-url", said)
    assert found is not None
    with patch.dict(os.environ, AWS_SHARED_CREDENTIALS_FILE=found[1]):
        session = boto3.Session(profile_name=found[2], region_name="us-east-1")
        client = session.client("dynamodb", endpoint_url=target.state.endpoint_url)
        assert client.list_tables()["TableNames"]
