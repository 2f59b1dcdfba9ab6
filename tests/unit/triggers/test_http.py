"""Triggers on addresses of the web, with a server on this machine."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

import pytest
from pendulum import datetime

from lamplighter.errors import DefinitionError, PermanentError, TransientError
from lamplighter.triggers import HttpPollTrigger, http
from lamplighter.triggers.sources import SourceItem
from tests.unit.triggers.made_up import play

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

NOON = "Mon, 05 Jan 2026 12:00:00 GMT"
# In seconds; what a trigger may have at most, so that no machine is too slow for it.
_LONGEST = 60


@dataclass
class Site:
    """A server whose one page can be changed."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"rates"
    requests: int = 0

    def poll(self) -> list[SourceItem]:
        """Return what a trigger sees there."""
        _, kwargs = HttpPollTrigger(self.url, timeout=_LONGEST).serialize()
        return list(asyncio.run(HttpPollTrigger.poll(kwargs)))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Yield a site on this machine, which is never reached through a proxy."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    page = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page.requests += 1
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            # Whoever has read enough hangs up.
            try:
                self.wfile.write(page.body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is there
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        page.url = f"http://127.0.0.1:{server.server_port}/rates.csv"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield page
        server.shutdown()
        thread.join()


def test_page_with_etag_is_known_by_it(site: Site) -> None:
    """The ETag decides alone; the payload tells what the server says."""
    site.headers = {"ETag": '"v1"', "Last-Modified": NOON}
    (seen,) = site.poll()
    assert (seen.name, seen.version) == (site.url, '"v1"')
    assert seen.payload == {
        "url": site.url,
        "status": 200,
        "etag": '"v1"',
        "last_modified": NOON,
    }
    assert seen.modified_at == datetime(2026, 1, 5, 12)


def test_page_without_etag_is_known_by_its_date(site: Site) -> None:
    """Without an ETag the date of the last change decides."""
    site.headers = {"Last-Modified": NOON}
    assert site.poll()[0].version == NOON


def test_page_without_headers_is_known_by_its_content(site: Site) -> None:
    """Without both, other content is a change, and the same content is none."""
    first, again = site.poll(), site.poll()
    site.body = b"other rates"
    assert first == again
    assert first[0].payload == {"url": site.url, "status": 200}
    assert first[0].version != site.poll()[0].version


def test_page_with_broken_date_has_none(site: Site) -> None:
    """A date that nobody can read still tells changes apart."""
    site.headers = {"Last-Modified": "yesterday"}
    (seen,) = site.poll()
    assert (seen.version, seen.modified_at) == ("yesterday", None)


def test_page_that_is_too_long_is_refused_without_etag(site: Site) -> None:
    """Part of a page says nothing about the rest, so that a change could be missed."""
    site.body = b"x" * (http.MAX_BODY + 1)
    with pytest.raises(PermanentError, match="neither ETag nor Last-Modified"):
        site.poll()


def test_page_that_is_long_needs_no_reading_with_etag(site: Site) -> None:
    """A page of any length can be watched if the server tells its version."""
    site.body, site.headers = b"x" * (http.MAX_BODY + 1), {"ETag": "v1"}
    assert site.poll()[0].version == "v1"


def test_page_of_greatest_length_is_known_by_its_content(site: Site) -> None:
    """The limit itself is still within it."""
    site.body = b"x" * http.MAX_BODY
    assert site.poll()[0].version.startswith("sha256:")


@pytest.mark.parametrize("status", [404, 410])
def test_page_that_is_missing_shows_nothing(
    site: Site, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What is not there yet is no error, and one line says so."""
    site.status = status
    caplog.set_level(logging.WARNING, logger="lamplighter")
    assert site.poll() == []
    (record,) = caplog.records
    assert record.getMessage() == "nothing is there"
    assert (vars(record)["url"], vars(record)["status"]) == (site.url, status)


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_page_with_error_is_looked_at_later(site: Site, status: int) -> None:
    """An error is no change; the message names address and answer."""
    site.status = status
    with pytest.raises(TransientError, match=rf"{site.url} answers {status}"):
        site.poll()


def test_server_that_is_away_is_looked_at_later() -> None:
    """A server that cannot be reached is a matter of time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        with pytest.raises(TransientError, match=f"{url} cannot be read: .*refused"):
            Site(url).poll()


def test_page_that_trickles_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout is for the whole page, however steadily parts of it come."""
    monkeypatch.setattr(http, "monotonic", partial(next, count(0, 2 * _LONGEST)))
    with pytest.raises(TransientError, match="takes longer than its timeout"):
        site.poll()


@pytest.mark.parametrize("elsewhere", ["file:///etc/hosts", "ftp://127.0.0.1/x"])
def test_page_that_leads_off_the_web_is_not_followed(site: Site, elsewhere: str) -> None:
    """A server cannot make the trigger read anything but pages."""
    site.status, site.headers = 302, {"Location": elsewhere}
    with pytest.raises(TransientError, match=site.url):
        site.poll()
    assert site.requests == 1


def test_siblings_on_one_page_share_its_look(site: Site) -> None:
    """However many watch a page, and however patient they are, it is asked once."""
    site.headers = {"ETag": "v1"}
    played = play(
        HttpPollTrigger(site.url, timeout=_LONGEST), HttpPollTrigger(site.url, timeout=_LONGEST - 1)
    )
    assert [len(payloads) for payloads in played.payloads] == [1, 1]
    assert site.requests == 1


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/hosts", "ftp://x/y", "example.com", "https://", "http://x:port/"),
        *("http://[x/", "https://x/a b", "https://x/ä", "https://x/\n", "", None),
    ],
    ids=repr,
)
def test_url_that_is_no_page_is_refused(url: Any) -> None:
    """Only addresses of the web, complete and plain, can be watched."""
    with pytest.raises(DefinitionError, match=r"HttpPollTrigger: url .* must be like 'https://"):
        HttpPollTrigger(url)


def test_url_with_password_is_refused_without_showing_it() -> None:
    """A definition is no place for secrets, and neither is the error."""
    with pytest.raises(DefinitionError, match="neither user nor password") as refused:
        HttpPollTrigger("https://me:hunter2@example.com/")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("timeout", [0, -1, 61, "10", None, True, float("nan")], ids=repr)
def test_timeout_out_of_bounds_is_refused(timeout: Any) -> None:
    """A look must be over before the next one."""
    with pytest.raises(DefinitionError, match=r"timeout .* must be a number of seconds"):
        HttpPollTrigger("https://example.com/", timeout=timeout)
