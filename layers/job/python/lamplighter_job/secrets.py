"""Secrets: what references lead to, read in the driver with the rights of the job's role.

Owns: the form of references, and that what was read is in no log line and no report of this
package. Refuses: storing it anywhere; what a program prints itself is its own.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from lamplighter_job.errors import SecretError

# On a machine without AWS: what references lead to, as JSON. Nothing else is asked then.
GIVEN = "LAMPLIGHTER_SECRETS"
MASK = "***"

_REFERENCE = re.compile(r"(secretsmanager):([\w/+=.@-]+)(?:#(.+))?|(ssm):([\w/.-]+)", re.ASCII)
# Shorter texts would also be masked where they mean something else.
_SHORTEST_MASKED = 4
# By reference; and every text that must not be shown.
_known: dict[str, str] = {}
_hidden: set[str] = set()


def resolve(reference: str) -> str:
    """Return the secret that a reference leads to; it is read once in a process."""
    if reference not in _known:
        found = _REFERENCE.fullmatch(reference)
        if found is None:
            # Not repeated: it may be the secret itself.
            raise SecretError(
                "neither a variable of the deployment nor a reference to a secret: write"
                " secretsmanager:NAME, secretsmanager:NAME#KEY or ssm:PARAMETER"
            )
        _known[reference] = _read(reference, *found.groups())
        _hide(_known[reference])
    return _known[reference]


def _read(reference: str, *parts: str | None) -> str:
    if GIVEN in os.environ:
        given: dict[str, str] = json.loads(os.environ[GIVEN])
        if reference not in given:
            raise SecretError(f"{reference}: no such secret was given to this deployment")
        return given[reference]
    service, name, key, _, parameter = parts
    if service is None:
        answer = _ask("ssm", "get_parameter", Name=parameter, WithDecryption=True)
        return str(answer["Parameter"]["Value"])
    text = _ask(service, "get_secret_value", SecretId=name).get("SecretString")
    if text is None:
        raise SecretError(f"{reference}: the secret is binary, and not a text")
    return str(text) if key is None else _field(reference, text, key)


def _ask(service: str, operation: str, **request: Any) -> dict[str, Any]:
    try:
        import boto3  # noqa: PLC0415 - only for jobs that have secrets
    except ImportError:
        raise SecretError("secrets need boto3, which this image does not have") from None
    try:
        answer: dict[str, Any] = getattr(boto3.client(service), operation)(**request)
    except Exception as error:  # noqa: BLE001 - boto3's errors are imported with it
        raise SecretError(f"{service}: {error}") from None
    return answer


def _field(reference: str, text: str, key: str) -> str:
    try:
        value = json.loads(text)[key]
    except (KeyError, TypeError, ValueError):
        # Without the cause, which has the text in it.
        raise SecretError(f"{reference}: the secret is no JSON object with this key") from None
    return value if isinstance(value, str) else json.dumps(value)


# What was read is not shown.


def _hide(secret: str) -> None:
    texts = {secret, *secret.splitlines()}
    with suppress(ValueError, RecursionError):
        texts |= set(_texts_in(json.loads(secret)))
    written = {form for text in texts for form in _forms(text)}
    _hidden.update(text for text in written if len(text) >= _SHORTEST_MASKED)


def _forms(text: str) -> tuple[str, ...]:
    """Return a text as errors show it: also in Python's quotes, in those of JSON, and in a URL."""
    return text, repr(text)[1:-1], json.dumps(text)[1:-1], quote(text, safe="", errors="replace")


def _texts_in(value: Any) -> list[str]:
    """Return the texts in a secret that is JSON: a program will use them one by one."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _texts_in(each)]


def without_secrets(value: Any) -> Any:
    """Return a value of JSON without the secrets that this process has read."""
    if isinstance(value, str):
        # The longest first: one may be a part of another.
        for secret in sorted(_hidden, key=len, reverse=True):
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, dict):
        return {without_secrets(name): without_secrets(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets(each) for each in value]
    return value
