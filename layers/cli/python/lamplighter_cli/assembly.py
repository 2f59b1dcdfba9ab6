"""What a synthesized CDK app leaves in its folder: stacks, their templates, their assets."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamplighter.errors import RefusedError
from lamplighter.settings import output_key

_OUR_OUTPUT = output_key("table_prefix")
_UNKNOWN = frozenset({"unknown-account", "unknown-region"})


@dataclass(frozen=True)
class Stack:
    """A stack of an app."""

    folder: Path
    # What the app calls it, and what CloudFormation does.
    id: str
    name: str
    # Empty where the app leaves them to the credentials.
    account: str
    region: str
    template: Mapping[str, Any]
    # Its files beside the template, as the manifest of its assets lists them.
    assets: tuple[Mapping[str, Any], ...]


def our_stack(folder: Path) -> Stack:
    """Return the one stack that is a deployment of Lamplighter."""
    found = [stack for stack in _stacks(folder) if _OUR_OUTPUT in stack.template.get("Outputs", {})]
    if len(found) != 1:
        names = ", ".join(stack.name for stack in found) or "none"
        raise RefusedError(
            f"the app must have one stack with a deployment of Lamplighter; it has {names}:"
            " use the command line of the CDK"
        )
    return found[0]


def require_no_lookups(folder: Path) -> None:
    """Refuse an app that has looked something up: without an answer the CDK writes a dummy."""
    missing = json.loads((folder / "manifest.json").read_bytes()).get("missing")
    if missing:
        raise RefusedError(
            f"the app looks up {missing[0]['key']} in an account: run `npx aws-cdk synth` once,"
            " which keeps the answer in cdk.context.json"
        )


def _stacks(folder: Path) -> Iterator[Stack]:
    artifacts = json.loads((folder / "manifest.json").read_bytes())["artifacts"]
    for name, artifact in artifacts.items():
        if artifact["type"] == "aws:cloudformation:stack":
            properties = artifact["properties"]
            yield Stack(
                folder,
                artifact.get("displayName", name),
                properties.get("stackName", name),
                *_environment(artifact["environment"]),
                json.loads((folder / properties["templateFile"]).read_bytes()),
                tuple(_assets(folder, artifacts, artifact)),
            )
        elif artifact["type"] == "cdk:cloud-assembly":
            # A `cdk.Stage` has a folder of its own.
            yield from _stacks(folder / artifact["properties"]["directoryName"])


def _environment(url: str) -> tuple[str, str]:
    """Return the account and region of a URL such as aws://111111111111/unknown-region."""
    parts = url.removeprefix("aws://").split("/")
    account, region = ("" if part in _UNKNOWN else part for part in parts)
    return account, region


def _assets(
    folder: Path, artifacts: Mapping[str, Any], stack: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    template = stack["properties"]["templateFile"]
    for name in stack.get("dependencies", ()):
        if artifacts[name]["type"] == "cdk:asset-manifest":
            manifest = json.loads((folder / artifacts[name]["properties"]["file"]).read_bytes())
            if manifest.get("dockerImages"):
                raise RefusedError("the stack has Docker images: use the command line of the CDK")
            files = manifest.get("files", {}).values()
            yield from (file for file in files if file["source"].get("path") != template)
