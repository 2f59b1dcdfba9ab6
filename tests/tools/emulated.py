"""Deploys to an emulator of AWS on this machine: the real CDK, functions that really run.

    python -m tests.tools.emulated

Owns: the emulator's life, and what it has not got: EMR Serverless, which the project's fake answers
for, and the copying of files into the bucket. Everything listens on 127.0.0.1 only. Rights are
enforced there: functions have their roles and nothing else, and nobody is served without TLS.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import boto3

from lamplighter import aws, runtime
from lamplighter.errors import LamplighterError
from lamplighter_infra import layers
from lamplighter_infra.config import Config
from lamplighter_local.emr.fake_emr import FakeEmr
from tests.hostile.as_lambda import drop_rights
from tests.tools.emr_server import serving_emr

ROOT = Path(__file__).parents[2]
EMULATOR = ROOT / ".venv-emulator" / "bin" / "python"
CDK_FOLDER = ROOT / "node_modules" / ".bin"
CDK = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"
REGION = "us-east-1"
ACCOUNT = "000000000000"
_START_FOR = 60.0
_END_FOR = 10.0
_CDK_FOR = 900.0


class EmulatorError(LamplighterError):
    """The emulator, or a command against it, failed."""


def why_not() -> str | None:
    """Return what this machine lacks for an emulated deployment, if it lacks something."""
    if node() is None:
        return "Node is missing"
    if not CDK.is_file():
        return "the CDK's command line is missing: run `npm ci`"
    if not EMULATOR.is_file():
        return "the emulator is missing: run `make emulator`"
    if not layers.is_built(is_local=True):
        return "the layer for this machine is missing: run `make emulator`"
    if shutil.which("openssl") is None:
        return "openssl is missing, which makes the emulator's certificate"
    return None


def node() -> str | None:
    """Return the Node that the CDK runs on."""
    return os.environ.get("JSII_NODE") or shutil.which("node")


@dataclass(frozen=True)
class Emulator:
    """An emulator that runs."""

    endpoint: str
    folder: Path

    @property
    def log(self) -> Path:
        """What it has to say, and what the functions said."""
        return self.folder / "emulator.log"

    @property
    def certificate(self) -> Path:
        """What makes it known as itself."""
        return self.folder / "ministack-tls" / "server.crt"

    def variables(self) -> dict[str, str]:
        """Return what leads clients of AWS here, as the root of the account."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_CA_BUNDLE": str(self.certificate),
            "NODE_EXTRA_CA_CERTS": str(self.certificate),
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def emulator(folder: Path) -> Iterator[Emulator]:
    """Run an emulator of AWS, which keeps its state in `folder`."""
    port = _free_port()
    made = Emulator(f"https://127.0.0.1:{port}", folder)
    variables = {
        **_own_variables(),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        # Whoever calls has the rights of a role, and queues and buckets refuse plain HTTP.
        "AUTH": "true",
        "USE_SSL": "1",
        # They would listen on all addresses.
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "TMPDIR": str(folder),
        "S3_DATA_DIR": str(folder / "s3"),
        # Its functions inherit it: that is how they know that they are in a Lambda.
        "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9",
    }
    with made.log.open("wb") as log:
        process = subprocess.Popen(
            [EMULATOR, "-m", "ministack"],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # The functions are processes of its own, and end with the group.
            start_new_session=True,
            # Functions of root would see each other's memory, whatever they do about it.
            preexec_fn=drop_rights if os.geteuid() == 0 else None,  # noqa: PLW1509 - one call
        )
        try:
            _wait_for(port, process, made.log)
            yield made
        finally:
            _end(process)


def _own_variables() -> dict[str, str]:
    """Return the environment without anything that leads to an account."""
    return {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_FOR
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise EmulatorError(f"the emulator did not start: see {log}")


def _end(process: subprocess.Popen[Any]) -> None:
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sent)
            process.wait(_END_FOR)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


@contextmanager
def leading_to(there: Emulator) -> Iterator[None]:
    """Let all clients of this process ask an emulator until the block ends."""
    variables = {**_own_variables(), **there.variables()}
    with (
        patch.dict(os.environ, variables, clear=True),
        # It keeps the credentials with which its first client was made.
        patch.object(boto3, "DEFAULT_SESSION", None),
        runtime.using(new_clients=True),
    ):
        yield


def bootstrap(there: Emulator) -> None:
    """Make what the CDK needs in an account before it can deploy."""
    # From a folder without an app: there is nothing to synthesize yet.
    _cdk(["bootstrap", f"aws://{ACCOUNT}/{REGION}"], there, cwd=there.folder)


def deploy(
    there: Emulator,
    flags: Mapping[str, str],
    *,
    tree: Path = ROOT,
    runtime: Path | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Deploy the stack that flags describe, and the files of jobs; return what the CDK said.

    The code of another release has a tree and a runtime of its own, and variables that lead to it.
    """
    given = [part for name, text in flags.items() for part in ("-c", f"{name}={text}")]
    command = ["deploy", "-c", "target=local", *given, "--require-approval", "never"]
    out = there.folder / "cdk.out"
    said = _cdk([*command, "--output", str(out)], there, cwd=tree, variables=variables)
    put_job_files(there, Config.from_context({"target": "local", **flags}).stack_name, runtime)
    return said


def put_job_files(there: Emulator, stack: str, runtime: Path | None = None) -> None:
    """Put the files that jobs take along into the bucket of a stack, as AWS would be made to."""
    shipped = runtime or layers.runtime_files()
    bucket = f"{stack}-{ACCOUNT}-{REGION}"
    with leading_to(there):
        for path in sorted(shipped.iterdir()):
            key = f"runtime/{shipped.name}/{path.name}"
            aws.client("s3").put_object(Bucket=bucket, Key=key, Body=path.read_bytes())


def _cdk(
    command: list[str],
    there: Emulator,
    *,
    cwd: Path,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> str:
    found = node()
    assert found is not None
    process = subprocess.Popen(
        [found, str(CDK), *command, "--progress", "events", "--no-color"],
        cwd=cwd,
        env={
            **_own_variables(),
            **there.variables(),
            **variables,
            "PATH": f"{Path(found).parent}{os.pathsep}{os.environ['PATH']}",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # The app that it runs is a process of its own, and ends with the group.
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=_CDK_FOR)
    finally:
        _end(process)
    if process.returncode:
        raise EmulatorError(f"cdk {command[0]} failed:\n{said}")
    return said


def _say(text: str) -> None:
    print(f"deploy-local: {text}", file=sys.stderr)  # noqa: T201 - for people


def main() -> int:
    """Deploy, say how it is reached, and keep it until someone ends it."""
    missing = why_not()
    if missing is not None:
        _say(missing)
        return 1
    # Whoever ends this, at whatever moment, ends the emulator too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _deploy_and_wait()
    except KeyboardInterrupt:
        return 0
    except EmulatorError as error:
        _say(str(error))
        return 1
    return 0


def _deploy_and_wait() -> None:
    _say("starting the emulator")
    with (
        tempfile.TemporaryDirectory(prefix="lamplighter-") as name,
        emulator(Path(name)) as there,
        leading_to(there),
        serving_emr(FakeEmr()) as emr,
    ):
        _say("cdk bootstrap")
        bootstrap(there)
        _say("cdk deploy, which takes half a minute")
        deploy(there, {"emr_endpoint": emr})
        told = [f"export {key}={text}" for key, text in there.variables().items()]
        lines = [*told, "export LAMPLIGHTER_STACK=lamplighter-dev"]
        print("\n".join(lines), flush=True)  # noqa: T201 - to be copied into a shell
        _say(f"deployed, log in {there.log}; jobs succeed after a second; Ctrl-C ends it")
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
