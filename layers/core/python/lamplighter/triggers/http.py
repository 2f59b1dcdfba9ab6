"""A trigger on a page or file of the web.

Takes no headers: definitions are stored, logged and shown, and a secret in one of them has leaked.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Hashable, Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import Any
from urllib import request
from urllib.error import HTTPError
from urllib.parse import urlsplit

from pendulum import DateTime

from lamplighter.errors import DefinitionError, PermanentError, TransientError
from lamplighter.loading import class_path
from lamplighter.triggers.sources import PollingTrigger, SourceItem
from lamplighter.zones import as_utc

log = logging.getLogger(__name__)

MAX_TIMEOUT = 60
MAX_BODY = 1_048_576
_PIECE = 65_536
_NOT_IN_URLS = re.compile(r"[^!-~]")
_NOTHING_THERE = {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}


class HttpPollTrigger(PollingTrigger):
    """Fires when the content at `url` is new or has changed, within a minute or two.

    It has changed when its `ETag` has; without one when its `Last-Modified` has; without both when
    its content has, which may then be no longer than 1 MiB. The payload has `url` and `status`, and
    `etag` and `last_modified` where the server says them.
    """

    def __init__(self, url: str, timeout: float = 10) -> None:
        super().__init__()
        self.url = _address(url)
        is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not is_number or not 0 < timeout <= MAX_TIMEOUT:
            raise DefinitionError(
                f"HttpPollTrigger: timeout {timeout!r} must be a number of seconds, at most"
                f" {MAX_TIMEOUT}"
            )
        self.timeout = timeout

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return class_path(type(self)), {"url": self.url, "timeout": self.timeout}

    @classmethod
    async def poll(cls, kwargs: dict[str, Any]) -> Sequence[SourceItem]:
        return await asyncio.to_thread(_poll, kwargs["url"], kwargs["timeout"])

    def shared_stream_key(self) -> Hashable | None:
        # Without the timeout: another one must not make it a new source, which begins anew.
        return ("http", self.url)


def _address(url: object) -> str:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        is_complete = parts.scheme in {"http", "https"} and bool(parts.hostname)
        has_secret = parts.username is not None or parts.password is not None
        parts.port  # noqa: B018 - a broken one shows only when it is looked at
    except ValueError:
        is_complete = has_secret = False
    if has_secret:
        raise DefinitionError("HttpPollTrigger: url must have neither user nor password")
    if not isinstance(url, str) or not is_complete or _NOT_IN_URLS.search(url):
        raise DefinitionError(
            f"HttpPollTrigger: url {url!r} must be like 'https://example.com/rates.csv', with"
            " anything but plain characters as %XX"
        )
    return url


def _poll(url: str, timeout: float) -> list[SourceItem]:
    latest = monotonic() + timeout
    try:
        with _opener().open(url, timeout=timeout) as response:
            return [_item(url, response, latest=latest)]
    except HTTPError as error:
        with error:
            if error.code in _NOTHING_THERE:
                log.warning("nothing is there", extra={"url": url, "status": error.code})
                return []
            raise TransientError(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, HTTPException, UnicodeError) as error:  # the last one is of odd hosts
        raise TransientError(f"{url} cannot be read: {error}") from error


def _opener() -> request.OpenerDirector:
    """Return what opens addresses of the web, and no others: not even if one of them says so."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPRedirectHandler(),
        request.HTTPErrorProcessor(),
        request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _item(url: str, response: HTTPResponse, *, latest: float) -> SourceItem:
    etag, last_modified = response.headers["ETag"], response.headers["Last-Modified"]
    known = {"url": url, "status": response.status, "etag": etag, "last_modified": last_modified}
    return SourceItem(
        name=url,
        version=etag or last_modified or _digest(url, response, latest=latest),
        payload={name: value for name, value in known.items() if value is not None},
        modified_at=_instant(last_modified),
    )


def _digest(url: str, response: HTTPResponse, *, latest: float) -> str:
    """Return a hash of the content, all of which must be here in time."""
    digest, length = hashlib.sha256(), 0
    while piece := response.read1(_PIECE):
        digest.update(piece)
        length += len(piece)
        if length > MAX_BODY:
            raise PermanentError(
                f"{url} has neither ETag nor Last-Modified, and more than {MAX_BODY:,} bytes:"
                " changes cannot be detected"
            )
        if monotonic() > latest:
            raise TransientError(f"{url} cannot be read: it takes longer than its timeout")
    return f"sha256:{digest.hexdigest()}"


def _instant(last_modified: str | None) -> DateTime | None:
    try:
        return None if last_modified is None else as_utc(parsedate_to_datetime(last_modified))
    except (ValueError, OverflowError):
        return None  # the server's own idea of a date
