"""What the scenarios of asset events do, and how they look at what came of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from lamplighter import DAG, Asset
from lamplighter.events.dead_letters import dead_letters, make_visible
from lamplighter.store.models import AssetEvents
from lamplighter.store.models.assets import REJECTED
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import register_dags
from tests.tools.finish_run import finish_run


def register(stack: LocalStack, *dags: DAG, bundle: str = "objects") -> None:
    """Push DAGs, and let everything come to rest."""
    register_dags(*dags, bundle=bundle)
    stack.run_until_idle()


def consumer(asset: Asset, dag_id: str | None = None) -> DAG:
    """Return a DAG that waits for an asset and has its name."""
    return DAG(dag_id or asset.name, schedule=asset)


def send(stack: LocalStack, *assets: str, **event: Any) -> None:
    """Send an event of each asset, one second after the other, each alone in its batch."""
    for asset in assets:
        stack.advance(seconds=1)
        stack.emit(asset, **event)
        stack.run_until_idle()


def taken(stack: LocalStack, dag_id: str = "dag") -> list[dict[str, list[int]]]:
    """Return which events each run of a DAG has taken, the oldest run first."""
    runs = sorted(stack.runs(dag_id), key=lambda run: (run.created_at, run.run_after))
    return [run.events or {} for run in runs]


def finish_one(stack: LocalStack, dag_id: str = "dag") -> str:
    """Let the active run that began first end, deliver what follows, and return its type."""
    active = stack.dag(dag_id).active or set()
    first = min(
        (run for run in stack.runs(dag_id) if run.run_key in active),
        key=lambda run: run.queued_at,
    )
    assert finish_run(dag_id, first.run_key, state="success")
    stack.advance(seconds=1)
    return str(first.run_type)


def woken(stack: LocalStack, *dag_ids: str) -> list[str]:
    """Return those DAGs that have a run."""
    return [dag_id for dag_id in dag_ids if stack.runs(dag_id)]


def reasons(stack: LocalStack) -> list[str]:
    """Return why messages were given up, as their letters and as the notes on their events say."""
    letters = dead_letters(limit=10)
    make_visible(letters)
    stack.advance(seconds=1)
    found = sorted(letter.reason for letter in letters)
    assert found == sorted(row.rejected or "" for row in AssetEvents.query(REJECTED))
    return found


@contextmanager
def once(
    owner: Any, name: str, act: Callable[[], object], *, is_after: bool = False
) -> Iterator[None]:
    """Let something happen just before, or after, the first call of a function."""
    real, acts = getattr(owner, name), [act]

    def wrapped(*arguments: Any, **named: Any) -> Any:
        mine = acts.pop() if acts else None
        if mine and not is_after:
            mine()
        answer = real(*arguments, **named)
        if mine and is_after:
            mine()
        return answer

    with patch.object(owner, name, wrapped):
        yield
    assert not acts, f"{name} was never called"
