"""What a program can know about the run that it works for.

Owns: reading `context.json`, and which context is the current one. Refuses: where the file lies.
"""

from __future__ import annotations

import copy
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lamplighter_job.errors import ContextError
from lamplighter_job.outlets import Outlet, find_outlet
from lamplighter_job.secrets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VERSION = 1

_FRACTION = re.compile(r"\.([0-9]+)")


@dataclass(frozen=True)
class TriggeringEvent:
    """One asset event that the run was created for."""

    asset: str  # The name of the asset.
    event_id: str  # The same for each delivery of the event.
    timestamp: datetime  # When it happened, as its sender says.
    extra: dict[str, Any] = field(default_factory=dict)  # The facts that its sender gave.
    source: Any = None  # Who says so.
    partition_key: str | None = None  # Which part of the asset it is about.


@dataclass(frozen=True)
class Inlet:
    """An asset that the task says it reads."""

    kind: str  # `asset` or `alias`.
    name: str  # Of the asset or alias.
    uri: str | None = None  # Where the data is.


@dataclass(frozen=True)
class Context:
    """The run, the step and this attempt at it; instants are aware, or None where there is none.

    Attributes:
        dag_id: The id of the DAG.
        run_id: The id of the run.
        run_type: `scheduled`, `manual`, `asset_triggered` or `backfill`.
        task_id: The id of the task.
        try_number: 1 for the first try, one more for each retry.
        submission: Counts all jobs of the step, also those that cost no try.
        run_after: The earliest time at which the run could be created.
        logical_date: The date of the run, which is the start of its data interval.
        data_interval_start: The start of the run's data, inclusive.
        data_interval_end: The end of the run's data, exclusive.
        partition_key: The partition that the run builds.
        params: The params of the DAG, with the conf of the run over them.
        conf: The parameters that were given when the run was triggered.
        variables: The variables of the deployment, by name.
        triggering_asset_events: The events that the run consumed, by the name of the asset.
        inlets: The assets that the task says it reads.
        outlets: The assets and aliases that the task updates.
        arguments: The arguments of the task, rendered.
    """

    dag_id: str
    run_id: str
    run_type: str
    task_id: str
    try_number: int
    submission: int
    run_after: datetime
    logical_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    partition_key: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    conf: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    triggering_asset_events: dict[str, list[TriggeringEvent]] = field(default_factory=dict)
    inlets: tuple[Inlet, ...] = ()
    outlets: tuple[Outlet, ...] = ()
    arguments: tuple[str, ...] = ()
    # The outputs of the steps in the task's `inputs`, by task; `input` returns a copy.
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    # The outputs of this step: a dict of JSON values to fill in.
    output: dict[str, Any] = field(default_factory=dict)

    def input(self, task_id: str) -> dict[str, Any]:
        """Return the outputs of an earlier step of this run; empty if it left none."""
        if task_id not in self.inputs:
            named = ", ".join(map(repr, self.inputs)) or "none"
            raise ContextError(
                f"task {self.task_id!r} does not read the outputs of {task_id!r}, only of: {named};"
                f" give it the option inputs=[{task_id!r}]"
            )
        return copy.deepcopy(self.inputs[task_id])

    def outlet(self, asset: object) -> Outlet:
        """Return an outlet of this task, by asset, alias or name."""
        return find_outlet(self.outlets, asset)

    def secret(self, name: str) -> str:
        """Return the secret that a variable refers to, or that a reference names."""
        return resolve(str(self.variables.get(name, name)))


def context_from(document: Mapping[str, Any]) -> Context:
    """Return the context that a document of this version holds."""
    version = document.get("version")
    if version != VERSION:
        raise ContextError(
            f"the context has version {version!r} and this runner reads {VERSION}: deploy the"
            " runner and the scheduler of one release"
        )
    try:
        return _context_of(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ContextError(
            f"the context cannot be read ({type(error).__name__}: {error})"
        ) from error


def _context_of(document: Mapping[str, Any]) -> Context:
    return Context(
        dag_id=document["dag_id"],
        run_id=document["run_id"],
        run_type=document["run_type"],
        task_id=document["task_id"],
        try_number=document["try_number"],
        submission=document["submission"],
        run_after=parse_instant(document["run_after"]),
        logical_date=_instant_or_none(document, "logical_date"),
        data_interval_start=_instant_or_none(document, "data_interval_start"),
        data_interval_end=_instant_or_none(document, "data_interval_end"),
        partition_key=document.get("partition_key"),
        params=dict(document.get("params") or {}),
        conf=dict(document.get("conf") or {}),
        variables=dict(document.get("variables") or {}),
        triggering_asset_events=_events_of(document.get("triggering_asset_events") or {}),
        inlets=tuple(Inlet(**_reference(entry)) for entry in document.get("inlets") or ()),
        outlets=tuple(Outlet(**_reference(entry)) for entry in document.get("outlets") or ()),
        arguments=tuple(document.get("arguments") or ()),
        inputs={task: dict(left) for task, left in (document.get("inputs") or {}).items()},
    )


def _reference(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": entry["kind"], "name": entry["name"], "uri": entry.get("uri")}


def _events_of(document: Mapping[str, Any]) -> dict[str, list[TriggeringEvent]]:
    return {asset: [_event_of(entry) for entry in events] for asset, events in document.items()}


def _event_of(entry: Mapping[str, Any]) -> TriggeringEvent:
    return TriggeringEvent(
        asset=entry["asset"],
        event_id=entry["event_id"],
        timestamp=parse_instant(entry["timestamp"]),
        extra=dict(entry.get("extra") or {}),
        source=entry.get("source"),
        partition_key=entry.get("partition_key"),
    )


def _instant_or_none(document: Mapping[str, Any], name: str) -> datetime | None:
    written = document.get(name)
    return None if written is None else parse_instant(written)


def parse_instant(written: str) -> datetime:
    """Return the aware instant that an ISO text means."""
    # Before 3.11, Python reads neither `Z` nor fractions of other than three or six digits.
    text = re.sub(r"[Zz]$", "+00:00", written)
    instant = datetime.fromisoformat(_FRACTION.sub(lambda digits: f".{digits[1]:0<6.6}", text))
    if instant.tzinfo is None:
        raise ValueError(f"{written!r} has no offset")
    return instant


_current: Context | None = None


def current_context() -> Context:
    """Return the context of the job that is running, in any thread of its driver."""
    if _current is None:
        raise ContextError(
            "no job is running here: current_context() answers in the driver of a step, not in"
            " functions that Spark runs on executors; pass them the values they need"
        )
    return _current


def secret(name: str) -> str:
    """Return a secret of the job that is running, as `Context.secret` does."""
    return current_context().secret(name)


@contextmanager
def running(context: Context) -> Iterator[None]:
    """Let `context` be the current one until the block ends."""
    global _current  # noqa: PLW0603 - a driver runs one job, and its threads must see it too
    before, _current = _current, context
    try:
        yield
    finally:
        _current = before
