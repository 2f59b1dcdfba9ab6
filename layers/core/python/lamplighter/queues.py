"""Messages between functions. A message is a hint: what it names is read again before it is used.

Owns: the bodies of messages on `claims`, `submits` and `registers`, and how all are sent.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from pendulum import DateTime

from lamplighter import aws, clock, settings
from lamplighter.errors import DefinitionError, TransientError
from lamplighter.identifiers import require_id

T = TypeVar("T")

DAGS_PER_MESSAGE = 50
RUNS_PER_MESSAGE = 10
PER_CALL = 10
_LONGEST_DELAY = 900
# Entries that come due within the look-ahead are announced by whoever writes them, because the tick
# has passed already. A minute more than the look-ahead covers a tick that is on its way.
_MARGIN_SECONDS = 60


def announce_due(due: Iterable[tuple[str, DateTime]]) -> int:
    """Send each DAG to `claims`, to arrive when it is due; leave out what the tick will find.

    Returns how many messages were sent. DAGs that share a second share messages.
    """
    now = clock.now()
    horizon = now.add(seconds=settings.current().look_ahead_seconds + _MARGIN_SECONDS)
    return send_claims((dag_id, at) for dag_id, at in due if at <= horizon)


def send_claims(due: Iterable[tuple[str, DateTime]]) -> int:
    """Send each DAG to `claims`, to arrive in the second in which it is due."""
    now = clock.now()
    by_delay: dict[int, list[str]] = defaultdict(list)
    for dag_id, at in due:
        seconds = math.ceil((at - now).total_seconds())
        by_delay[min(max(0, seconds), _LONGEST_DELAY)].append(dag_id)
    messages = [
        {"MessageBody": json.dumps({"dag_ids": ids}), "DelaySeconds": delay}
        for delay, together in sorted(by_delay.items())
        for ids in chunks(together, DAGS_PER_MESSAGE)
    ]
    send("claims_queue_url", messages)
    return len(messages)


def read_claims(body: str) -> list[str]:
    """Return the DAG ids of a message on `claims`."""
    ids = json.loads(body)["dag_ids"]
    if not isinstance(ids, list):
        raise DefinitionError(f"dag_ids must be a list, not {ids!r}")
    return [require_id(dag_id, what="DAG") for dag_id in ids]


def send_submits(runs: Iterable[tuple[str, str]]) -> None:
    """Ask for each run, named by DAG and run key, to be moved on."""
    bodies = [json.dumps({"runs": chunk}) for chunk in chunks(runs, RUNS_PER_MESSAGE)]
    send("submits_queue_url", [{"MessageBody": body} for body in bodies])


def send_refill(dag_ids: Iterable[str]) -> None:
    """Ask for the coming runs of authors' timetables to be foretold again."""
    bodies = [json.dumps({"refill": dag_id}) for dag_id in dag_ids]
    send("registers_queue_url", [{"MessageBody": body} for body in bodies])


def send_retire(bundle: str, push: int, *, delay: int) -> None:
    """Ask once more for what a push left out to be retired, when the index has caught up."""
    body = json.dumps({"retire": bundle, "push": push})
    send("registers_queue_url", [{"MessageBody": body, "DelaySeconds": delay}])


def send(queue: str, messages: Sequence[dict[str, Any]]) -> None:
    """Send messages to the queue that a setting names, as few calls as possible."""
    if not messages:
        return
    url = settings.current().require(queue)
    for chunk in chunks(messages, PER_CALL):
        entries = [{"Id": str(at), **message} for at, message in enumerate(chunk)]
        answer = aws.client("sqs").send_message_batch(QueueUrl=url, Entries=entries)
        failed = answer.get("Failed", [])
        if failed:
            raise TransientError(
                f"{len(failed)} of {len(entries)} messages were not taken: {failed[0]}"
            )


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most so many items."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
