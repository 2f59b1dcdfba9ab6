"""The deployment that a command uses: a stack, `lamplighter dev`, or that of the environment.

Owns: the global options. They are resolved when a command needs a deployment, so that `check` and
`--help` work offline.
"""

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import boto3
import typer
from botocore.exceptions import BotoCoreError, ClientError

from lamplighter import aws, runtime
from lamplighter.errors import RefusedError, SettingsError
from lamplighter.settings import Settings, output_key
from lamplighter_local.dev import state as dev_state

P = ParamSpec("P")
T = TypeVar("T")

_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# A stack is ours if it has this output.
OUR_OUTPUT = output_key("table_prefix")
_MAX_SUGGESTIONS = 5
# The stack of a stage, where stages are told apart by their names only.
_STAGE = "lamplighter-{}"


@dataclass(frozen=True)
class Target:
    """The global options; empty ones are left to the environment."""

    stack: str = ""
    region: str = ""
    profile: str = ""
    endpoint_url: str = ""
    is_local: bool = False
    # Whether `stack` may also be a stage: `dev` for the stack `lamplighter-dev`.
    may_be_stage: bool = False


_FROM_ENVIRONMENT = Target()
_chosen: ContextVar[Target] = ContextVar("_chosen", default=_FROM_ENVIRONMENT)


def choose(target: Target) -> None:
    """Keep the global options for the command."""
    if target.is_local and (target.stack or target.endpoint_url):
        other = "--stack" if target.stack else "--endpoint-url"
        raise typer.BadParameter(f"--local and {other} exclude each other: choose one")
    _chosen.set(target)


def chosen() -> Target:
    """Return the global options."""
    return _chosen.get()


def on_deployment(command: Callable[P, T]) -> Callable[P, T]:
    """Return a command that runs with its deployment in force."""

    @functools.wraps(command)
    def found(*args: P.args, **kwargs: P.kwargs) -> T:
        with in_force(_chosen.get()):
            return command(*args, **kwargs)

    return found


def on_account(command: Callable[P, T]) -> Callable[P, T]:
    """Return a command that runs with the chosen account and region, and no deployment."""

    @functools.wraps(command)
    def found(*args: P.args, **kwargs: P.kwargs) -> T:
        target = _chosen.get()
        if target.is_local:
            raise RefusedError("--local has nothing to deploy: run the command without it")
        with in_force(replace(target, stack="")):
            return command(*args, **kwargs)

    return found


@contextmanager
def in_force(target: Target) -> Iterator[None]:
    """Let all clients of this process use a deployment until the block ends."""
    if target.is_local:
        state = dev_state.read()
        with (
            _environment(_local_variables(state), leave_out="AWS_"),
            runtime.using(settings=_local_settings(state)),
        ):
            yield
        return
    with _environment(_variables(target)):
        if not target.stack:
            yield
            return
        with runtime.using(settings=_settings_of(target)):
            yield


def _local_variables(state: dev_state.DevState) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": state.access_key_id,
        "AWS_SECRET_ACCESS_KEY": state.secret_access_key,
        "AWS_DEFAULT_REGION": state.region,
        "AWS_ENDPOINT_URL": state.endpoint_url,
    }


def _local_settings(state: dev_state.DevState) -> Settings:
    try:
        return Settings(**state.settings)
    except (TypeError, SettingsError) as error:
        raise RefusedError(
            "`lamplighter dev` was started by another version of lamplighter: restart it"
        ) from error


def _variables(target: Target) -> dict[str, str | None]:
    """Return the environment variables through which all libraries configure botocore."""
    found: dict[str, str | None] = {}
    if target.region:
        found["AWS_DEFAULT_REGION"] = target.region
    if target.endpoint_url:
        found["AWS_ENDPOINT_URL"] = target.endpoint_url
    if target.profile:
        # Keys in the environment would take precedence over the profile.
        found |= {"AWS_PROFILE": target.profile, **dict.fromkeys(_CREDENTIALS)}
    return found


@contextmanager
def _environment(values: Mapping[str, str | None], *, leave_out: str = "") -> Iterator[None]:
    """Set variables, or unset those with None; others that start with `leave_out` are unset."""
    before = dict(os.environ)
    if not leave_out and all(before.get(name) == text for name, text in values.items()):
        yield
        return
    for name in before:
        if (leave_out and name.startswith(leave_out)) or values.get(name, "") is None:
            del os.environ[name]
    os.environ.update({name: text for name, text in values.items() if text is not None})
    # It keeps the profile and the credentials with which its first client was made.
    session, boto3.DEFAULT_SESSION = boto3.DEFAULT_SESSION, None
    try:
        with runtime.using(new_clients=True):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        boto3.DEFAULT_SESSION = session


# Stacks.


def _settings_of(target: Target) -> Settings:
    try:
        return _settings_of_stack(target.stack)
    except (RefusedError, ClientError):  # who may see only one stack is denied the other
        if target.may_be_stage:
            with suppress(RefusedError, ClientError):
                return _settings_of_stack(_STAGE.format(target.stack))
        raise


def _settings_of_stack(stack: str) -> Settings:
    outputs = _outputs(stack)
    if OUR_OUTPUT not in outputs:
        raise RefusedError(
            f"stack {stack!r} is not a deployment of Lamplighter: it has no output {OUR_OUTPUT}"
        )
    return Settings.from_outputs(outputs)


def _outputs(stack: str) -> dict[str, str]:
    try:
        answer = aws.client("cloudformation").describe_stacks(StackName=stack)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        raise RefusedError(_no_stack(stack)) from error
    (found,) = answer["Stacks"]
    return _read(found)


def _read(stack: Mapping[str, Any]) -> dict[str, str]:
    return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}


def _no_stack(stack: str) -> str:
    client = aws.client("cloudformation")
    account, names = "", []
    with suppress(BotoCoreError, ClientError):  # the message goes without it
        account = f" of account {aws.client('sts').get_caller_identity()['Account']}"
        found = client.describe_stacks()["Stacks"]
        names = [each["StackName"] for each in found if OUR_OUTPUT in _read(each)]
    place = f"region {client.meta.region_name}{account}"
    hint = f"there is {', '.join(names[:_MAX_SUGGESTIONS])}" if names else "check --region"
    return f"there is no stack {stack!r} in {place}: {hint}"
