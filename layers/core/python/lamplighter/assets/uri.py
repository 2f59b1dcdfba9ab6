"""The normal form of an asset's URI, so that two spellings of one place are one asset."""

import re
import warnings
from urllib.parse import parse_qsl, urlencode, urlsplit

from lamplighter.errors import DefinitionError

_VERBATIM_SCHEME = re.compile(r"x-", re.IGNORECASE)


def normalize_uri(uri: str) -> str:
    """Return `uri` with scheme, path, query and credentials in their normal form."""
    parts = urlsplit(uri)
    scheme = parts.scheme.lower()
    if (not scheme and not parts.netloc) or _VERBATIM_SCHEME.match(scheme):
        return uri
    if scheme == "airflow":
        raise DefinitionError(f"asset URI {uri!r}: the scheme 'airflow' is reserved")
    if not parts.netloc and not uri[len(scheme) + 1 :].startswith("//"):
        return uri
    netloc = parts.netloc
    if parts.password is not None:
        # Definitions are stored, logged and shown: a password in one of them has already leaked.
        warnings.warn(
            f"asset URI {scheme}://{netloc.rpartition('@')[2]}…: user and password were dropped;"
            " keep credentials out of DAG files",
            UserWarning,
            stacklevel=4,
        )
        netloc = netloc.rpartition("@")[2]
    path = parts.path.rstrip("/") or "/"
    query = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    authority = f"//{netloc}" if netloc else ""
    return f"{scheme}:{authority}{path}" + (f"?{query}" if query else "")
