"""The normal form of an asset's URI, so that two spellings of one place are one asset."""

import warnings
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from lamplighter.errors import DefinitionError


def normalize_uri(uri: str) -> str:
    """Return `uri` with scheme, path, query and credentials in their normal form."""
    try:
        parts = urlsplit(uri)
        has_password = parts.password is not None
    except ValueError as error:
        raise DefinitionError(f"asset URI {uri!r} cannot be read: {error}") from error
    scheme = parts.scheme.lower()
    if not scheme or scheme.startswith("x-"):
        return uri
    if scheme == "airflow":
        raise DefinitionError(f"asset URI {uri!r}: the scheme 'airflow' is reserved")
    netloc = parts.netloc
    if has_password:
        # Definitions are stored, logged and shown: a password in one of them has already leaked.
        netloc = netloc.rpartition("@")[2]
        warnings.warn(
            f"asset URI {scheme}://{netloc}…: user and password were dropped; keep credentials out"
            " of DAG files",
            UserWarning,
            stacklevel=3,
        )
    path = parts.path.rstrip("/") or "/"
    query = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    return urlunsplit((scheme, netloc, path, query, ""))
