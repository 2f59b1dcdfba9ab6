"""The table of settings in docs/deploy.md: complete, with the defaults and limits that count."""

import re
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, get_args

from lamplighter.checked_fields import OneOf, Range
from lamplighter.settings import ChosenSettings

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")


def row_of(each: Field[Any]) -> tuple[str, str, str]:
    """Return what the table must say of a setting: name, default and limits."""
    default = getattr(ChosenSettings(), each.name)
    shown = f"{default:,}" if isinstance(default, int) else str(default)
    if isinstance(default, dict):
        return each.name, shown, "JSON object of texts"
    (limit,) = get_args(each.type)[1:]
    match limit:
        case Range(minimum, maximum):
            return each.name, shown, f"{minimum:,} to {maximum:,}"
        case OneOf():
            return each.name, shown, ", ".join(map(str, limit))
    raise AssertionError(f"{each.name} has no limits")


def test_page_shows_every_setting_with_its_default_and_limits() -> None:
    """A setting without limits, or that the page leaves out or tells wrong, is found here."""
    section = PAGE.partition("\n## Settings\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*\w.*) \|$", section, re.MULTILINE)
    shown = [(name, default, limits) for name, default, limits, _ in rows]
    assert shown == [row_of(each) for each in fields(ChosenSettings)]


def test_page_shows_no_default_twice() -> None:
    """Flags that bring resources are in the table of flags, settings in their own."""
    flags = PAGE.partition("\n## Stages and flags\n")[2].partition("\n## Settings\n")[0]
    named = {
        name
        for line in re.findall(r"^\| (`.*?) \|", flags, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", line)
    }
    assert not named & {each.name for each in fields(ChosenSettings)}
    assert {"watch_queues", "watch_mount_path"} <= named
