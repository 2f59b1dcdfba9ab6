"""The example of a trigger on a page of the web, with a server on this machine."""

import asyncio
import socket
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from lamplighter.triggers.sources import SourceItem
from tests.tools.page import Page, serving_page
from tests.unit.triggers.made_up import play
from triggers import http_poll
from triggers.http_poll import HttpPollTrigger

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

NOON = "Mon, 05 Jan 2026 12:00:00 GMT"


@pytest.fixture(autouse=True)
def _may_ask_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers of this machine be asked, and have all the time that they need."""
    monkeypatch.setattr(http_poll, "HOSTS", {"127.0.0.1"})
    monkeypatch.setattr(http_poll, "TIMEOUT_SECONDS", 60.0)


@pytest.fixture
def page() -> Iterator[Page]:
    """Yield a page on this machine."""
    with serving_page() as page:
        yield page


def poll(url: str) -> list[SourceItem]:
    """Return what a trigger sees at an address."""
    _, kwargs = HttpPollTrigger(url).serialize()
    return list(asyncio.run(HttpPollTrigger.poll(kwargs)))


def test_page_with_etag_is_known_by_it(page: Page) -> None:
    """The ETag decides alone; the payload tells what the server says."""
    page.headers = {"ETag": '"v1"', "Last-Modified": NOON}
    (seen,) = poll(page.url)
    assert (seen.name, seen.version) == (page.url, '"v1"')
    assert seen.payload == {"url": page.url, "etag": '"v1"', "last_modified": NOON}


def test_page_without_etag_is_known_by_its_date(page: Page) -> None:
    """Without an ETag the date of the last change decides."""
    page.headers = {"Last-Modified": NOON}
    assert poll(page.url)[0].version == NOON


def test_page_without_headers_is_known_by_its_content(page: Page) -> None:
    """Without both, other content is a change, and the same content is none."""
    first, again = poll(page.url), poll(page.url)
    page.body = b"other rates"
    assert first == again
    assert first[0].version != poll(page.url)[0].version


def test_page_that_is_too_long_is_refused_without_etag(page: Page) -> None:
    """Part of a page says nothing about the rest; with an ETag nobody needs to read it."""
    page.body = b"x" * (http_poll.MAX_BYTES + 1)
    with pytest.raises(ConnectionError, match="neither ETag nor Last-Modified"):
        poll(page.url)
    page.headers = {"ETag": "v1"}
    assert poll(page.url)[0].version == "v1"


@pytest.mark.parametrize("status", [404, 410])
def test_page_that_is_missing_shows_nothing(page: Page, status: int) -> None:
    """What is not there yet is no error."""
    page.status = status
    assert poll(page.url) == []


@pytest.mark.parametrize("status", [302, 403, 503])
def test_page_with_error_is_looked_at_later(page: Page, status: int) -> None:
    """An error is no change, a redirect is not followed; the message names page and answer."""
    page.status, page.headers = status, {"Location": page.url}
    with pytest.raises(ConnectionError, match=rf"{page.url} answers {status}"):
        poll(page.url)
    assert page.requests == 1


def test_server_that_is_away_is_looked_at_later() -> None:
    """A server that cannot be reached is a matter of time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        with pytest.raises(ConnectionError, match=f"{url} cannot be read: .*refused"):
            poll(url)


def test_page_that_trickles_is_given_up(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout is for the whole page, however steadily parts of it come."""
    monkeypatch.setattr(http_poll, "monotonic", partial(next, count(0, 120)))
    with pytest.raises(ConnectionError, match="takes longer than 60 s"):
        poll(page.url)


def test_siblings_on_one_page_share_its_look(page: Page) -> None:
    """However many watch a page, it is requested once."""
    page.headers = {"ETag": "v1"}
    played = play(HttpPollTrigger(page.url), HttpPollTrigger(page.url))
    assert [len(payloads) for payloads in played.payloads] == [1, 1]
    assert page.requests == 1


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/hosts", "ftp://127.0.0.1/", "https://", "127.0.0.1"),
        *("http://169.254.169.254/latest/meta-data", "https://me:hunter2@127.0.0.1/"),
    ],
)
def test_url_beyond_the_named_hosts_is_refused(url: str) -> None:
    """Only pages of servers that the author has named; the error shows no password."""
    with pytest.raises(ValueError, match="url must be a page of") as refused:
        HttpPollTrigger(url)
    assert "hunter2" not in str(refused.value)
