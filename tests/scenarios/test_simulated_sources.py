"""Simulated time asks nothing real: a polled source has what a test puts there, and no more."""

from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from typing import Any, ClassVar, Never

import pytest

from lamplighter import DAG, Asset, AssetWatcher, aws
from lamplighter.errors import RefusedError
from lamplighter.triggers import S3PrefixTrigger, SqsTrigger
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.shared_stream import reject_shared_stream_event
from lamplighter.triggers.sources import SourceItem
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.page import Page, serving_page
from triggers import http_poll
from triggers.http_poll import HttpPollTrigger
from triggers.partition_log import PartitionLog, PartitionLogTrigger, Record

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

NOON = "2026-01-05T12:00:00Z"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """Yield a page of a real server, which triggers may ask."""
    monkeypatch.setattr(http_poll, "HOSTS", {"127.0.0.1"})
    with serving_page() as page:
        yield page


def watching(**triggers: BaseEventTrigger) -> list[DAG]:
    """Return a DAG for each trigger, which runs when that fires; its watcher is `<name>/it`."""
    return [
        DAG(name, schedule=Asset(name, watchers=[AssetWatcher("it", trigger)]))
        for name, trigger in triggers.items()
    ]


def payloads(lamp: LocalDeployment, dag_id: str) -> list[Any]:
    """Return what the runs of a DAG have consumed."""
    return [event.extra["payload"] for run in lamp.runs(dag_id) for event in run.events]


# Pages and folders: sources that have items.


def test_simulated_day_requests_no_page(page: Page) -> None:
    """A day has 1,440 polls, and none of them leaves the process."""
    with LocalDeployment(watching(rates=HttpPollTrigger(page.url)), at=NOON) as lamp:
        lamp.advance(days=1)
        assert page.requests == 0
        assert lamp.runs("rates") == []


def test_page_is_requested_if_that_is_asked_for(page: Page) -> None:
    """With real sources a page is requested once a minute, and a change starts a run."""
    dags = watching(rates=HttpPollTrigger(page.url))
    with LocalDeployment(dags, at=NOON, poll_real_sources=True) as lamp:
        lamp.advance(minutes=2)
        page.body = b"other rates"
        lamp.advance(minutes=2)
        assert page.requests == 4
        assert payloads(lamp, "rates") == [{"url": page.url}]


def test_item_that_is_put_fires_once_and_again_with_another_version(page: Page) -> None:
    """The test says what the page has; weeks in which it stays the same bring nothing."""
    with LocalDeployment(watching(rates=HttpPollTrigger(page.url)), at=NOON) as lamp:
        source = lamp.source("rates/it")
        source.put(SourceItem("page", "v1", {"etag": "v1"}))
        lamp.advance(days=20)
        assert payloads(lamp, "rates") == [{"etag": "v1"}]
        source.put(SourceItem("page", "v2", {"etag": "v2"}))
        lamp.advance(minutes=2)
        assert payloads(lamp, "rates") == [{"etag": "v1"}, {"etag": "v2"}]
        assert page.requests == 0


def test_fixture_of_pytest_requests_no_page(
    page: Page, lamplighter: Callable[..., LocalDeployment]
) -> None:
    """What authors use in their tests is silent too, and takes what they put."""
    lamp = lamplighter(watching(rates=HttpPollTrigger(page.url)))
    lamp.advance(hours=1)
    lamp.source("rates/it").put(SourceItem("page", "v1", {"etag": "v1"}))
    lamp.advance(minutes=2)
    assert payloads(lamp, "rates") == [{"etag": "v1"}]
    assert page.requests == 0


def test_bucket_is_listed_beside_silent_sources(page: Page) -> None:
    """The emulator's S3 is not real: it is polled as ever."""
    dags = watching(rates=HttpPollTrigger(page.url), files=S3PrefixTrigger("landing"))
    with LocalDeployment(at=NOON) as lamp:
        aws.client("s3").create_bucket(Bucket="landing")
        lamp.push(dags)
        lamp.advance(minutes=2)
        aws.client("s3").put_object(Bucket="landing", Key="a.csv", Body=b"x")
        lamp.advance(minutes=2)
        assert [payload["key"] for payload in payloads(lamp, "files")] == ["a.csv"]
        assert page.requests == 0


# Producers and triggers that read by themselves: sources that have events.


def test_producer_is_not_opened_and_its_watchers_filter_what_is_put(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Raw events reach all watchers that share the stream; each takes what it wants, once."""

    def refuse(*_: object) -> Never:
        raise AssertionError("the producer was made")

    monkeypatch.setattr(PartitionLog, "__init__", refuse)
    orders, returns = (
        PartitionLogTrigger(folder="/shop/log", kind=kind) for kind in ("order", "return")
    )
    with LocalDeployment(watching(orders=orders, returns=returns), at=NOON) as lamp:
        lamp.advance(days=1)
        for offset, kind in enumerate(("order", "return", "order", "other")):
            lamp.source("orders/it").put(Record("till", offset, f'{{"kind": "{kind}"}}'))
        lamp.source("orders/it").put(Record("till", 0, '{"kind": "order"}'))  # delivered again
        lamp.advance(days=1)
        taken = {
            name: sorted(payload["offset"] for payload in payloads(lamp, name))
            for name in ("orders", "returns")
        }
        assert taken == {"orders": [0, 2], "returns": [1]}


class Own(BaseEventTrigger):
    """Reads a source of its own, which must not be opened here."""

    failures: ClassVar[list[Exception]] = []

    def __init__(self, *, is_shared: bool) -> None:
        super().__init__()
        self.is_shared = is_shared

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "scripts.Own", {"is_shared": self.is_shared}

    def shared_stream_key(self) -> Hashable | None:
        return "own" if self.is_shared else None

    @classmethod
    def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        raise AssertionError(f"the stream of {kwargs} was opened")

    def run(self) -> AsyncIterator[TriggerEvent]:
        raise AssertionError("the trigger was run")

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Any]
    ) -> AsyncIterator[TriggerEvent]:
        async for raw in shared_stream:
            if raw == "bad":
                reject_shared_stream_event("it is bad")
            elif raw == "flaky" and self.failures:
                raise self.failures.pop()
            else:
                yield TriggerEvent({"filtered": raw})


@pytest.mark.parametrize(
    ("is_shared", "expected"), [(True, [{"filtered": "x"}]), (False, ["x"])], ids=["stream", "run"]
)
def test_trigger_of_author_is_not_opened_and_gets_what_is_put(
    *, is_shared: bool, expected: list[Any]
) -> None:
    """A stream's events go through the filter; without one, they are the payloads."""
    with LocalDeployment(watching(own=Own(is_shared=is_shared)), at=NOON) as lamp:
        lamp.advance(days=1)
        lamp.source("own/it").put("x")
        lamp.advance(days=1)
        assert payloads(lamp, "own") == expected


def test_event_that_is_rejected_is_a_dead_letter() -> None:
    """A test sees what its watcher refused, and why."""
    with LocalDeployment(watching(own=Own(is_shared=True)), at=NOON) as lamp:
        lamp.source("own/it").put("bad")
        lamp.advance(hours=1)
        (letter,) = lamp.dead_letters()
        assert letter.reason == "rejected by watcher 'it' of asset 'own': it is bad"


def test_event_that_a_watcher_fails_at_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a real broker, it is delivered until it is taken."""
    failures = [ConnectionError("not yet"), ConnectionError("not yet")]
    monkeypatch.setattr(Own, "failures", failures)
    with LocalDeployment(watching(own=Own(is_shared=True)), at=NOON) as lamp:
        lamp.source("own/it").put("flaky")
        lamp.advance(hours=1)
        assert payloads(lamp, "own") == [{"filtered": "flaky"}]
    assert failures == []


# What cannot be put.


def test_source_that_is_not_there_or_not_polled_is_refused(page: Page) -> None:
    """The error names what there is, or what to do instead."""
    dags = watching(
        rates=HttpPollTrigger(page.url),
        orders=SqsTrigger("shop"),
        files=S3PrefixTrigger("landing"),
    )
    with LocalDeployment(dags, at=NOON) as lamp:
        with pytest.raises(RefusedError, match=r"no watcher 'rates' \(there are: files/it, orde"):
            lamp.source("rates")
        with pytest.raises(RefusedError, match=r"orders/it reads a queue: use send\('shop', …\)"):
            lamp.source("orders/it")
        with pytest.raises(RefusedError, match="files/it lists bucket 'landing': put an object"):
            lamp.source("files/it")
        with pytest.raises(RefusedError, match=r"rates/it: put a SourceItem .*, not 'v1'"):
            lamp.source("rates/it").put("v1")


def test_nothing_is_put_at_real_sources(page: Page) -> None:
    """A source is either real or a test's."""
    dags = watching(rates=HttpPollTrigger(page.url))
    with (
        LocalDeployment(dags, at=NOON, poll_real_sources=True) as lamp,
        pytest.raises(RefusedError, match="poll_real_sources=True"),
    ):
        lamp.source("rates/it")
