"""Events of outlets: nobody but a step that succeeded can tell of one.

Owns: the proof. Such an event is a row with its message, which is stored with the success of the
step, before the message is sent. Anything else under its id, or with a step as its source, is
refused, whoever has sent it.
"""

from collections.abc import Iterable, Sequence

from lamplighter.events.message import AssetEvent
from lamplighter.events.record import IncomingEvent
from lamplighter.identifiers import OUTLET, asset_id
from lamplighter.store.assets import (
    delete_unnumbered_event,
    read_asset_events,
    reject_unnumbered_event,
)

# The `source` of an outlet's event.
_STEP = frozenset({"dag_id", "run_id", "task_id"})
RESERVED = "event_id, source: ids with outlet- and the names of a step are reserved for outlets"


def claims_outlet(event: AssetEvent) -> bool:
    """Return whether an event looks like one of an outlet."""
    source = event.source if isinstance(event.source, dict) else {}
    return event.event_id.startswith(OUTLET) or source.keys() >= _STEP


def unproven(members: Sequence[IncomingEvent]) -> list[IncomingEvent]:
    """Return those that look like events of outlets, and of which no step has told."""
    claims = [member for member in members if claims_outlet(member.event)]
    keys = {key for member in claims for key in _keys(member)}
    if not keys:
        return []
    rows = {(row.asset_id, row.event_id): row for row in read_asset_events(keys)}
    return [
        member
        for member in claims
        # One with a number is recorded; this is the same again, or is noted as another.
        if not any(
            row.seq is not None or row.message == member.delivery.body
            for key in _keys(member)
            if (row := rows.get(key)) is not None
        )
    ]


def _keys(member: IncomingEvent) -> set[tuple[str, str]]:
    event = member.event
    return {(key, event.event_id) for key in (_expected_asset_id(event), member.asset)}


def _expected_asset_id(event: AssetEvent) -> str:
    """Return the asset id that an event names, before it is resolved."""
    return asset_id(event.asset or event.uri or "")


def reject_outlet_event(event: AssetEvent, body: str, reason: str) -> None:
    """Have a rejected event not sent again; its row stays, and proves its message in a replay."""
    if claims_outlet(event):
        reject_unnumbered_event(_expected_asset_id(event), event.event_id, body, reason)


def delete_moved_rows(members: Iterable[IncomingEvent]) -> None:
    """Delete rows of recorded events whose URI resolved to an asset with another id."""
    for member in members:
        expected = _expected_asset_id(member.event)
        if claims_outlet(member.event) and member.asset != expected:
            delete_unnumbered_event(expected, member.event.event_id, member.delivery.body)
