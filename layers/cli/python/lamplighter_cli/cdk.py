"""The AWS CDK, as `deploy`, `diff`, `destroy` and `template` use it.

Owns: which app is synthesized (the one of `cdk.json` in this folder, else that of the package), and
which command line of the CDK runs it: the one in `node_modules`, the one on the search path, else
the pinned one by npx. Refuses to begin where something is missing, in one line.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from lamplighter.errors import RefusedError
from lamplighter_cli.extras import require_package

# It must know the schema that aws-cdk-lib writes; newer ones do too.
CDK_VERSION = "2.1147.0"
_QUALIFIER = "@aws-cdk/core:bootstrapQualifier"
_DEFAULT_QUALIFIER = "hnb659fds"
_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+")
_OWN_APP = "lamplighter_infra.app"
_STDERR = 2
_PLACE = frozenset({"account", "region"})
_OWN_CONTEXT = {
    "@aws-cdk/aws-lambda:recognizeLayerVersion": True,
    "@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": True,
}

Stage = Annotated[str, typer.Option(help="The stage: dev, prod, or a name of yours.")]
# An account and a region.
Place = tuple[str, str]
Flags = Annotated[
    list[str] | None,
    typer.Option("-c", metavar="NAME=VALUE", help="A flag of the deployment; repeatable."),
]


@dataclass(frozen=True)
class App:
    """A CDK app, with the flags of one command."""

    # As a shell reads it.
    command: str
    # Of `cdk.json`; empty for the app of the package, which has none.
    configured: Mapping[str, Any]
    flags: Mapping[str, str]
    is_own: bool

    @property
    def qualifier(self) -> str:
        """What the resources of the CDK in the account have in their names."""
        return str(self.configured.get(_QUALIFIER, _DEFAULT_QUALIFIER))

    @property
    def is_elsewhere(self) -> bool:
        """Whether flags name another place than that of the credentials."""
        return not _PLACE.isdisjoint(self.flags)


def app_here(stage: str, flags: Iterable[str] | None) -> App:
    """Return the app of this folder, or that of the package; refuse flags that do not exist."""
    for package in ("aws_cdk", "lamplighter_infra"):
        require_package(package, "infra")
    given = {"stage": stage, **_read_flags(flags or ())}
    from lamplighter_infra.config import FLAG_PREFIX, Config  # noqa: PLC0415 - may be missing

    Config.from_context(given)
    file = Path("cdk.json")
    if not file.is_file():
        return App(shlex.join([sys.executable, "-m", _OWN_APP]), _OWN_CONTEXT, given, is_own=True)
    found = _read_json(file)
    if "app" not in found:
        raise RefusedError(f"{file} names no app: write the command that runs it as `app`")
    if elsewhere := _PLACE & given.keys():
        raise RefusedError(f"-c {min(elsewhere)}: {file} has an app, which decides that")
    # An app may have flags of its own; a stage it has like all apps here.
    prefixed = {name if name == "stage" else FLAG_PREFIX + name: given[name] for name in given}
    context = {**found.get("context", {}), **_read_json(Path("cdk.context.json"))}
    return App(found["app"], context, prefixed, is_own=False)


def _read_flags(texts: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, is_given, value = text.partition("=")
        if not (name and is_given):
            raise RefusedError(f"-c {text!r}: write NAME=VALUE, such as log_days=14")
        if name == "stage":
            raise RefusedError(f"-c {text!r}: use --stage {value}")
        found[name] = value
    return found


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_bytes())
    except ValueError as error:
        raise RefusedError(f"{file} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RefusedError(f"{file} must be a JSON object")
    return found


# The command line of the CDK.


def cdk_command() -> list[str]:
    """Return the command line of the CDK, as the beginning of a command."""
    _require_node()
    local = Path("node_modules", ".bin", "cdk").absolute()
    for found in (local, shutil.which("cdk")):
        if found is not None and Path(found).is_file() and _fits(_version_of(found)):
            return [str(found)]
    npx = shutil.which("npx")
    if npx is None:
        raise RefusedError("npx was not found: install Node.js 22 or newer, which comes with it")
    return [npx, "--yes", f"aws-cdk@{CDK_VERSION}"]


def _version_of(command: str | Path) -> str:
    try:
        done = subprocess.run(
            [command, "--version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _fits(version: str) -> bool:
    found, oldest = (_VERSION.match(text) for text in (version.strip(), CDK_VERSION))
    if found is None or oldest is None:
        return False
    return found[1] == oldest[1] and int(found[2]) >= int(oldest[2])


def run_cdk(app: App, command: Sequence[str], arguments: Sequence[str]) -> int:
    """Run a command of the CDK on an app; what it prints streams through."""
    context = [part for name, text in app.flags.items() for part in ("-c", f"{name}={text}")]
    with _place_of(app) as place:
        return run_command([*command, *arguments, *place, *context])


def run_command(command: Sequence[str]) -> int:
    """Run a command of the CDK; what it prints streams through."""
    return subprocess.run(command, env=_environment(), check=False).returncode


@contextmanager
def _place_of(app: App) -> Iterator[list[str]]:
    """Yield the options that a `cdk.json` would hold, if there is none."""
    if not app.is_own:
        yield []
        return
    with TemporaryDirectory(prefix="lamplighter-cdk-") as folder:
        context = (f"{name}={json.dumps(value)}" for name, value in app.configured.items())
        options = ["--app", app.command, "--output", folder, "--no-version-reporting"]
        yield [*options, *(part for text in context for part in ("-c", text))]


def _environment() -> dict[str, str]:
    """Return the environment of the CDK: with this Python, and the region that was chosen."""
    node = os.environ.get("JSII_NODE", "")
    folders = [str(Path(sys.executable).parent), *([str(Path(node).parent)] if node else [])]
    found = {**os.environ, "PATH": os.pathsep.join([*folders, os.environ.get("PATH", "")])}
    # It prefers the other name, which could lead elsewhere.
    if region := os.environ.get("AWS_DEFAULT_REGION"):
        found["AWS_REGION"] = region
    return found


# The app, run without the command line of the CDK.


def synthesize(app: App, out: Path, here: Place | None = None) -> None:
    """Run an app, which writes its stacks into a folder.

    With `here`, it gets the account and region of the credentials, as from the CDK's command line.
    """
    _require_node()
    # Flags are texts, as on a command line.
    context = {**app.configured, **app.flags}
    variables = {"CDK_OUTDIR": str(out.absolute()), "CDK_CONTEXT_JSON": json.dumps(context)}
    if here is not None:
        variables |= dict(zip(("CDK_DEFAULT_ACCOUNT", "CDK_DEFAULT_REGION"), here, strict=True))
    done = subprocess.run(
        ["/bin/sh", "-c", app.command],
        env={**_environment(), **variables},
        stdout=_STDERR,
        check=False,
    )
    if done.returncode:
        raise typer.Exit(done.returncode)


def _require_node() -> None:
    if not (os.environ.get("JSII_NODE") or shutil.which("node")):
        raise RefusedError("node was not found: the CDK needs Node.js 22 or newer")
