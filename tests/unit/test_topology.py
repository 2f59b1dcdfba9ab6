"""The topology: its parts fit together, and what is named after them is."""

import pytest

from lamplighter.settings import output_key
from lamplighter.topology import FUNCTIONS, QUEUES, URL_SETTINGS, Queue, queues_of


def test_queues_are_consumed_and_fed_by_functions_that_exist() -> None:
    """Whoever sends to a queue, and whoever consumes it, is one of the functions."""
    named = {name for queue in QUEUES.values() for name in (queue.consumer, *queue.producers)}
    assert named <= set(FUNCTIONS)


def test_every_function_has_something_that_invokes_it() -> None:
    """A function is woken by a queue or by a timer; only two are called by others."""
    alone = {
        name for name, each in FUNCTIONS.items() if not queues_of(name) and not each.every_minutes
    }
    assert alone == {"sandbox", "task"}


@pytest.mark.parametrize(
    ("name", "dlq"), [("claims", "claims-dlq"), ("events.fifo", "events-dlq.fifo")]
)
def test_dead_letter_queue_is_named_after_its_queue(name: str, dlq: str) -> None:
    """The name of a FIFO queue ends in .fifo, and so does that of its dead-letter queue."""
    queue = Queue(name=name, consumer="claim")
    assert (queue.dlq, queue.is_fifo) == (dlq, dlq.endswith(".fifo"))


def test_every_queue_has_a_setting_of_its_own() -> None:
    """Queues and dead-letter queues have settings by which each can be told from the others."""
    assert output_key(URL_SETTINGS["events.fifo"]) == "EventsFifoQueueUrl"
    assert output_key(URL_SETTINGS["events-dlq.fifo"]) == "EventsFifoDlqUrl"
    assert len(set(URL_SETTINGS.values())) == len(URL_SETTINGS) == 2 * len(QUEUES)
