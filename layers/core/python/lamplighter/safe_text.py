"""What people are shown of texts and values that others wrote: no secrets, no control characters.

Owns: what looks like a secret, and which characters a terminal or a reader would take for something
else than they are. What is stored, and what jobs are given, is never changed.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MASK = "***"
# What is nested more deeply is not shown; a value may have been written to exhaust its reader.
_MAX_DEPTH = 50

_NAME = (
    r"pass(?:word|wd|phrase)|secret|token|(?:api|access|private)[-_. ]?key|authorization|credential"
)
_NAMED = re.compile(_NAME, re.IGNORECASE)
_KEY_BEGINS, _KEY_ENDS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "-----END "
# In lines: a log does not end with a key that was cut off.
_LONGEST_KEY = 200
_SHAPES = (
    # The whole key, or what there is of one that was cut off.
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*-----|\Z)", re.DOTALL),
        MASK,
    ),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
    (re.compile(r"(://[^/\s:@]{0,200}:)[^/\s]+@"), rf"\1{MASK}@"),
    (re.compile(r"\b(bearer\s{1,5})[\w.~+/=-]+", re.IGNORECASE), rf"\1{MASK}"),
    # As in `password=…`, `"token": "…"` and `Authorization: Basic …`.
    (
        re.compile(
            rf"((?:{_NAME})[\w.-]{{0,40}}\\{{0,3}}[\"']?\s{{0,5}}[:=]\s{{0,5}})"
            r"(\\{1,3}\"[^\"\\]*|\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|(?:(?:basic|bearer|digest)\s{1,5})?[^\s\"',;&}]+)",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
)


def masked(value: Any, *, depth: int = _MAX_DEPTH) -> Any:
    """Return a value of JSON in which all that looks like a secret is masked."""
    if isinstance(value, str):
        return masked_text(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if not depth:
        return MASK
    if isinstance(value, Mapping):
        return {key: _masked_as(key, each, depth - 1) for key, each in value.items()}
    return [masked(each, depth=depth - 1) for each in value]


def _masked_as(key: object, value: Any, depth: int) -> Any:
    # Flags and what is empty give nothing away.
    is_secret = isinstance(key, str) and _NAMED.search(key) and not isinstance(value, bool)
    return MASK if is_secret and value else masked(value, depth=depth)


def masked_text(text: str) -> str:
    """Return a text in which all that looks like a secret is masked."""
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text


def masked_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield as many lines as there are, in which also a key of several lines is masked."""
    left = 0
    for line in lines:
        text = line.rstrip("\r\n")
        yield (MASK if left else masked_text(text)) + line[len(text) :]
        begins = _KEY_BEGINS.search(text)
        left = _LONGEST_KEY if begins else max(0, left - 1)
        if _KEY_ENDS in text[begins.end() if begins else 0 :]:
            left = 0


def visible(text: str) -> str:
    """Return a text in which characters that are not what one sees are escapes, as in Python.

    They would move the cursor, turn the direction of writing round, or not be seen at all. Lines
    and tabs remain.
    """
    if text.isprintable():
        return text
    return "".join(char if _is_plain(char) else _escaped(char) for char in text)


def visible_json(text: str) -> str:
    """Return JSON in which these characters are written with JSON's own escapes."""
    if text.isprintable():
        return text
    return "".join(char if _is_plain(char) else json.dumps(char)[1:-1] for char in text)


def _is_plain(char: str) -> bool:
    # Among those that are not printable are wide and other blanks (Zs).
    return char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
