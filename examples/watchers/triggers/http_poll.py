"""A trigger on a page of the web, to copy into a bundle of your own.

    AssetWatcher("page", HttpPollTrigger("https://example.com/rates.csv"))

Know its dangers before you deploy it:

- Server-side request forgery: whoever chooses the URL sends requests from where `watch` runs, also
  to servers that nobody reaches from outside. So `HOSTS` names the servers that may be asked, and
  redirects are not followed.
- Slow servers: a poll that waits holds up the session of all polled sources. Python's timeout is
  one for each read, so a page that trickles is given up here by a deadline.
- Leaks: a definition is stored, logged and shown, and so is a secret in its URL. A page that needs
  one needs a trigger that fetches it when it polls.
"""

import asyncio
import hashlib
from collections.abc import Hashable, Sequence
from functools import cache
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import Any
from urllib import request
from urllib.error import HTTPError
from urllib.parse import urlsplit

from lamplighter.triggers.sources import PollingTrigger, SourceItem

# The servers that may be asked; write yours here.
HOSTS = {"example.com"}
TIMEOUT_SECONDS = 10.0
MAX_BYTES = 1_048_576
_PIECE = 65_536
_NOTHING_THERE = {404, 410}


class HttpPollTrigger(PollingTrigger):
    """Fires when the content at `url` has changed, within a minute or two.

    It has changed when its `ETag` has; without one when its `Last-Modified` has; without both when
    its content has. The payload has `url`, and `etag` and `last_modified` where the server sends
    them.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or parts.hostname not in HOSTS or "@" in url:
            raise ValueError(f"url must be a page of {', '.join(sorted(HOSTS))}, without a user")
        self.url = url

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "triggers.http_poll.HttpPollTrigger", {"url": self.url}

    def shared_stream_key(self) -> Hashable | None:
        return ("http", self.url)

    @classmethod
    async def poll(cls, kwargs: dict[str, Any]) -> Sequence[SourceItem]:
        # In a thread, because other sources are polled meanwhile.
        return await asyncio.to_thread(_items_at, kwargs["url"])


class _NoRedirects(request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@cache  # it reads all certificates of the machine
def _opener() -> request.OpenerDirector:
    return request.build_opener(_NoRedirects)


def _items_at(url: str) -> list[SourceItem]:
    deadline = monotonic() + TIMEOUT_SECONDS
    try:
        with _opener().open(url, timeout=TIMEOUT_SECONDS) as response:
            return [_item(url, response, deadline)]
    except HTTPError as error:
        with error:
            if error.code in _NOTHING_THERE:
                return []
            raise ConnectionError(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise ConnectionError(f"{url} cannot be read: {error}") from error


def _item(url: str, response: HTTPResponse, deadline: float) -> SourceItem:
    etag, last_modified = response.headers["ETag"], response.headers["Last-Modified"]
    version = etag or last_modified or _digest(response, deadline)
    known = {"url": url, "etag": etag, "last_modified": last_modified}
    payload = {name: value for name, value in known.items() if value is not None}
    return SourceItem(url, version, payload)


def _digest(response: HTTPResponse, deadline: float) -> str:
    digest, length = hashlib.sha256(), 0
    while piece := response.read1(_PIECE):
        digest.update(piece)
        length += len(piece)
        if length > MAX_BYTES:
            raise OSError(f"it has neither ETag nor Last-Modified, and over {MAX_BYTES:,} bytes")
        if monotonic() > deadline:
            raise OSError(f"it takes longer than {TIMEOUT_SECONDS:.0f} s")
    return digest.hexdigest()
