"""The events of a step's outlets: stored with its success, sent afterwards.

Owns: event rows without a number. They are part of the transaction that ends the step, so a crash
can neither lose nor invent an event. `ingest` numbers them when the message arrives; until then the
sweep sends it again, at growing intervals.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pendulum import DateTime

from lamplighter import clock, queues, settings
from lamplighter.assets import AssetAlias
from lamplighter.dags.task import Task
from lamplighter.errors import UNREADABLE, RejectedError, readable
from lamplighter.events import fields
from lamplighter.events.message import event_body
from lamplighter.identifiers import asset_id
from lamplighter.runs.job_request import JobName, JobReport, as_mapping
from lamplighter.runs.view import RunView
from lamplighter.store.assets import pending_events, read_unsent_events, send_event_later
from lamplighter.store.models import AssetEvents, Steps
from lamplighter.store.slots import shard_of

# The maximum number of outlets: they are written in one transaction.
MAX_EVENTS = 90
_LONGEST_PAUSE_SECONDS = 4 * 3600


@dataclass(frozen=True)
class _OutletEvent:
    """One event that follows from a step."""

    asset: str | None
    uri: str | None
    extra: Mapping[str, Any]
    aliases: tuple[str, ...] = ()


def outlet_events(
    view: RunView, step: Steps, report: JobReport, *, now: DateTime
) -> tuple[list[AssetEvents], str | None]:
    """Return the events of a step's outlets, and problems of the job's report."""
    name = JobName.of(view.run, step)
    source = {
        "dag_id": view.run.dag_id,
        "run_id": view.run.run_id,
        "task_id": step.step_id,
        "try_number": int(step.try_number),
    }
    common: dict[str, Any] = {"timestamp": now, "source": source}
    rows: dict[tuple[str, str], AssetEvents] = {}
    problems: list[str] = []
    if view.run.partition_key is not None:
        try:
            common["partition_key"] = fields.partition_key(view.run.partition_key, "partition_key")
        except RejectedError as error:  # of a custom timetable; the events are recorded without it
            problems.append(str(error))
    for event in _reported_events(view, step, report):
        if isinstance(event, str):
            problems.append(event)
            continue
        if len(rows) >= _max_events():
            problems.append(f"only the first {_max_events()} assets were told of")
            break
        key = event.asset or event.uri or ""
        facts = {**common, "event_id": name.event_id("|".join((key, *event.aliases)))}
        facts |= {"asset": event.asset} if event.asset else {"uri": event.uri}
        try:
            body = event_body(aliases=event.aliases, extra=event.extra, **facts)
        except (RejectedError, *UNREADABLE) as error:
            problems.append(f"outlet {key!r}: {error}")
            if event.aliases:
                continue  # without a valid report, the asset is unknown
            # The step succeeded, so its event is recorded, without the invalid part.
            body = event_body(**facts)
        row = AssetEvents(
            asset_id(key),
            facts["event_id"],
            timestamp=now,
            recorded_at=now,
            # The content is in the message; twice would be too much for one transaction.
            source=source,
            message=body,
            pending_shard=shard_of(key, settings.current().run_shards),
            send_at=now.add(seconds=settings.current().resend_after_seconds),
            expires_at=now.add(days=settings.current().event_retention_days),
        )
        rows[row.asset_id, row.event_id] = row
    return list(rows.values()), "; ".join(problems) or None


def max_writes(task: Task, report: JobReport) -> int:
    """Return how many events a step may have at most."""
    named = [report.aliases.get(outlet.name) for outlet in task.outlets]
    added = sum(len(found) for found in named if isinstance(found, list))
    return min(len(task.outlets) + added, _max_events())


def _max_events() -> int:
    # A transaction also holds the step, its run and its DAG.
    return min(MAX_EVENTS, settings.current().transaction_actions - 3)


def _reported_events(view: RunView, step: Steps, report: JobReport) -> Iterator[_OutletEvent | str]:
    """Yield the events in a report, or problems of it."""
    for outlet in view.dag.tasks[step.step_id].outlets:
        if not isinstance(outlet, AssetAlias):
            yield _OutletEvent(outlet.name, outlet.uri, as_mapping(report.extras.get(outlet.name)))
            continue
        found = report.aliases.get(outlet.name)
        for added in found if isinstance(found, list) else ():
            said = as_mapping(added)
            name, uri = said.get("name"), said.get("uri")
            if not (_is_text(name) or (name is None and _is_text(uri))):
                yield f"outlet {outlet.name!r}: an asset is added by a name or a uri"
                continue
            try:
                # Normalized: the row must have the key under which the event is recorded.
                uri = uri if name is not None else fields.uri(uri, "uri")
            except RejectedError as error:
                yield f"outlet {outlet.name!r}: {error}"
                continue
            yield _OutletEvent(name, uri, as_mapping(said.get("extra")), (outlet.name,))


def _is_text(value: object) -> bool:
    # JSON may contain lone surrogates, which cannot be stored.
    return isinstance(value, str) and bool(value) and readable(value) == value


def send_outlets(rows: Iterable[AssetEvents]) -> None:
    """Send events to `ingest`."""
    queues.send("events", [{"MessageBody": row.message} for row in rows if row.message])


def sweep_outlets(*, has_time: Callable[[], bool]) -> int:
    """Send events again that have no number yet; return how many."""
    sent, now = 0, clock.now()
    for shard in range(settings.current().run_shards):
        for keys in queues.chunks(pending_events(shard, now), 100):
            rows = read_unsent_events(keys)
            # Sent first: after a crash here they are sent twice, which is harmless.
            send_outlets(rows)
            for row in rows:
                _postpone(row, now)
            sent += len(rows)
            if not has_time():
                return sent
    return sent


def _postpone(row: AssetEvents, now: DateTime) -> None:
    """Schedule the next attempt for twice the event's age: the message may still be queued."""
    age = (now - row.recorded_at).total_seconds()
    pause = min(max(age, settings.current().resend_after_seconds), _LONGEST_PAUSE_SECONDS)
    send_event_later(row, now.add(seconds=pause))
