"""What people are shown: secrets are masked, and characters that act on a terminal are escapes."""

import json
from typing import Any

import pytest

from lamplighter.safe_text import masked, masked_lines, masked_text, visible, visible_json

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a plain text", "a plain text"),
        ("Zürich 東京\u3000x\u00a0y 🎉", "Zürich 東京\u3000x\u00a0y 🎉"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("back\rto the start\x08\x00\x7f", "back\\rto the start\\x08\\x00\\x7f"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),
        (
            "abc\u202ecba\u2066\u2069\u200e\u200f\u061c",
            "abc\\u202ecba\\u2066\\u2069\\u200e\\u200f\\u061c",
        ),
        ("a\u200bb\ufeffc\u2028d\u2029e\u00ad", "a\\u200bb\\ufeffc\\u2028d\\u2029e\\xad"),
        ("\ud800 and \U000e0041", "\\ud800 and \\U000e0041"),
    ],
)
def test_text_with_invisible_characters_shows_escapes(text: str, shown: str) -> None:
    """Letters of all languages stay as they are; shown twice, a text remains the same."""
    assert (visible(text), visible(shown)) == (shown, shown)


def test_json_with_invisible_characters_means_the_same() -> None:
    """Whoever reads the JSON gets the characters; whoever looks at it sees escapes of JSON."""
    value = {"a\u202e": ["\x1b[2J\x7f\x9b\u2028\U000e0041", "Zürich\n"], "b": "\ud800"}
    text = visible_json(json.dumps(value, indent=2, ensure_ascii=False))
    assert json.loads(text) == value
    assert (visible(text), "Zürich" in text) == (text, True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a plain text with a secretary's tokens", "a plain text with a secretary's tokens"),
        ("key AKIAIOSFODNN7EXAMPLE of", "key *** of"),
        ("ASIAIOSFODNN7EXAMPLE", "***"),
        (f"before {PEM} after", "before *** after"),
        (PEM[:40], "***"),
        ("postgresql://me:pass@word@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("s3://lake/a:b@c and http://host:80/", "s3://lake/a:b@c and http://host:80/"),
        ("sent Bearer abc.def-ghi= to", "sent Bearer *** to"),
        ("Authorization: Basic dXNlcjpwYXNz, next", "Authorization: ***, next"),
        ("password=hunter2 user=me", "password=*** user=me"),
        ("DB_PASSWORD: 'two words' rest", "DB_PASSWORD: *** rest"),
        ('{"api_key": "a\\"b", "rows": 1}', '{"api_key": ***, "rows": 1}'),
        ('{"m": "{\\"client_secret\\": \\"abc\\"}"}', '{"m": "{\\"client_secret\\": ***\\"}"}'),
        ('{"token": "cut of', '{"token": ***'),
        ("https://host/?access_key=abc&x=1", "https://host/?access_key=***&x=1"),
    ],
)
def test_text_with_a_secret_is_masked(text: str, shown: str) -> None:
    """A secret is known by its shape, or by the name that stands before it."""
    assert masked_text(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"rows": 10, "day": "2026-01-01"}, {"rows": 10, "day": "2026-01-01"}),
        ({"dbPassword": "x", "PASSWD": 1}, {"dbPassword": "***", "PASSWD": "***"}),
        ({"api-key": "x", "apiKey": "y"}, {"api-key": "***", "apiKey": "***"}),
        ({"credentials": {"user": "me"}}, {"credentials": "***"}),
        ({"token": None, "has_secret": True}, {"token": None, "has_secret": True}),
        ([{"a": [{"private_key": "x"}]}], [{"a": [{"private_key": "***"}]}]),
        ({"jdbc": "jdbc:postgresql://u:p@h/db"}, {"jdbc": "jdbc:postgresql://u:***@h/db"}),
        (None, None),
    ],
)
def test_value_with_a_secret_is_masked(value: Any, shown: Any) -> None:
    """The name of a field tells, at any depth; flags and empty values stay."""
    assert masked(value) == shown


def test_value_that_is_nested_without_end_is_cut() -> None:
    """A value cannot exhaust whoever looks at it."""
    value: Any = "AKIAIOSFODNN7EXAMPLE"
    for _ in range(5_000):
        value = [value]
    assert "AKIA" not in json.dumps(masked(value))


def test_key_of_several_lines_is_masked_line_by_line() -> None:
    """There are as many lines as before, each with its end; one that never ends hides 200."""
    lines = f"a\n{PEM}\r\nb\n{PEM.replace(chr(10), ' ')} c\nd".splitlines(keepends=True)
    shown = ["a\n", "***\n", "***\n", "***\n", "***\r\n", "b\n", "*** c\n", "d"]
    assert list(masked_lines(lines)) == shown
    endless = [*masked_lines([PEM.splitlines()[0], *["x"] * 300])]
    assert endless == ["***"] * 201 + ["x"] * 100


@pytest.mark.parametrize(
    "part",
    ["token", "://", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "password=", "bearer ", "://a:"],
)
def test_text_that_repeats_a_beginning_takes_linear_time(part: str) -> None:
    """An expression that backtracks would take hours for these, and the test meet its limit."""
    masked_text(part * (1_000_000 // len(part)))
