"""The page about settings and deploy flags.

Types, limits and defaults are those of the code. Meanings are those of the tables in the guide to
deploying, and a comment beside a field that these leave out.
"""

import functools
from dataclasses import Field, fields
from typing import Any, get_args

from lamplighter.checked_fields import OneOf, Range
from lamplighter.settings import ChosenSettings
from lamplighter_infra.config import Config
from tests.reference.markdown import Page, code, sentence
from tests.reference.source import Entry, definition
from tests.reference.tables_of_docs import table_with

SETTINGS_HEADER = "| setting | default | limits | |"
FLAGS_HEADER = "| flag | default | |"

_TYPES = {str: "text", bool: "true or false", int: "number", float: "number"}


def page() -> Page:
    """Return the page."""
    made = Page(
        "Settings and deploy flags",
        "Each is given to `lamplighter deploy` or `cdk deploy` as `-c name=value`; lists and"
        " objects are JSON.",
    )
    made.heading("Settings")
    made.text(
        "What functions, commands and local deployments know of a deployment. In a test:"
        " `LocalDeployment(settings={…})`; for one process on this machine: the variable"
        " `LAMPLIGHTER_` and the name"
        " in capital letters. With the construct: `settings={…}`."
    )
    said = table_with(SETTINGS_HEADER).meanings()
    made.table(
        ("setting", "type", "default", "meaning"),
        (
            (
                code(each.name),
                type_of(each),
                code(_text(getattr(ChosenSettings(), each.name))),
                said[each.name],
            )
            for each in fields(ChosenSettings)
        ),
    )
    made.heading("Flags")
    made.text(
        "What only the stack knows: the sizes and names of what is made, and what it shares with"
        " others."
    )
    made.table(
        ("flag", "type", "default", "meaning"),
        (
            (code(each.name), type_of(each), _defaults(each.name), meaning_of_flag(each.name))
            for each in flags()
        ),
    )
    return made


def flags() -> list[Field[Any]]:
    """Return the fields of a stage that are flags of their own."""
    return [each for each in fields(Config) if each.name != "settings"]


@functools.cache
def meaning_of_flag(name: str) -> str:
    """Return the meaning of a flag."""
    comments = {each.name: each for each in definition("lamplighter_infra.config.Config").fields()}
    said = table_with(FLAGS_HEADER).meanings().get(name, "")
    return said or sentence(comments.get(name, Entry(name)).meaning)


def type_of(each: Field[Any]) -> str:
    """Return the type of a setting or flag with its limits."""
    kind, *limits = get_args(each.type) if hasattr(each.type, "__metadata__") else (each.type,)
    match limits:
        case [Range(minimum=least, maximum=most)]:
            return f"{least:,} to {most:,}"
        case [OneOf() as values]:
            return ", ".join(code(str(value)) for value in values)
    named = {tuple[str, ...]: "names", dict[str, str]: "object of texts"}
    return _TYPES.get(kind) or named[kind]


def _defaults(name: str) -> str:
    found = {stage: _text(getattr(_stage(stage), name)) for stage in ("dev", "prod", "other")}
    if name == "stage":
        return code("dev")
    other = code(found["other"])
    special = [
        f"{code(found[stage]) or 'none'} in {stage}"
        for stage in ("dev", "prod")
        if found[stage] != found["other"]
    ]
    return "; ".join([*special, f"else {other or 'none'}"]) if special else other


@functools.cache
def _stage(name: str) -> Config:
    return Config.of_stage({"stage": name}, {})


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ", ".join(map(str, value))
        case int():
            return f"{value:,}"
    return "{}" if value == {} else str(value)
