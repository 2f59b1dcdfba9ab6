"""The normal form of an asset's URI, so that two spellings of one place are one asset."""

import warnings
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from lamplighter.errors import DefinitionError


def without_credentials(uri: str) -> str:
    """Return `uri` without user and password, with a warning if there was a password.

    Definitions are stored, logged and shown: a password in one of them has already leaked.
    """
    parts = _split(uri)
    if not _has_normal_form(parts) or parts.password is None:
        return uri
    host = parts.netloc.rpartition("@")[2]
    warnings.warn(
        f"asset URI {parts.scheme}://{host}…: user and password were dropped; keep credentials out"
        " of DAG files",
        UserWarning,
        stacklevel=3,
    )
    return urlunsplit(parts._replace(netloc=host))


def normalize_uri(uri: str) -> str:
    """Return `uri` with scheme, path and query in their normal form, fragment and password gone."""
    parts = _split(without_credentials(uri))
    if not _has_normal_form(parts):
        return uri
    scheme = parts.scheme.lower()
    if scheme == "airflow":
        raise DefinitionError(f"asset URI {uri!r}: the scheme 'airflow' is reserved")
    path = parts.path.rstrip("/") or "/"
    if not parts.netloc and path.startswith("//"):
        path = "/" + path.lstrip("/")  # else it would be taken for a host when it is read again
    query = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    return urlunsplit((scheme, parts.netloc, path, query, ""))


def _has_normal_form(parts: SplitResult) -> bool:
    """Return False for plain names and for schemes that say they are someone's own."""
    return bool(parts.scheme) and not parts.scheme.lower().startswith("x-")


def _split(uri: str) -> SplitResult:
    try:
        parts = urlsplit(uri)
        parts.password  # noqa: B018 - a broken host shows only when it is looked at
    except ValueError as error:
        raise DefinitionError(f"asset URI {uri!r} cannot be read: {error}") from error
    return parts
