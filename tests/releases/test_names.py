"""Names that a release has shown are still there: additions are allowed, removals are not."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lamplighter_infra.config import Config
from tests.tools.releases import fixture, story
from tests.tools.releases.json_keys import json_keys
from tests.tools.releases.surface import surface

KINDS = sorted(surface())


@cache
def today() -> dict[str, Any]:
    """Return the names of this version."""
    return surface()


def broken(before: Any, now: Any, path: str) -> Iterator[str]:
    """Yield what is gone or has changed, by its path."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key, value in before.items():
            if key not in now:
                yield f"{path}/{key} is gone"
            elif key == "parameters" or path.endswith("/members"):
                yield from broken_call(value, now[key], f"{path}/{key}")
            elif key == "default" and path.startswith(("settings", "flags")):
                yield from changed(value, now[key], f"{path}/{key}")
            else:
                yield from broken(value, now[key], f"{path}/{key}")
    elif isinstance(before, list) and isinstance(now, list) and path.startswith("indexes"):
        yield from changed(before, now, path)
    elif isinstance(before, list) and isinstance(now, list):
        yield from (f"{path}: {each!r} is gone" for each in before if each not in now)
    else:
        yield from changed(before, now, path)


def changed(before: Any, now: Any, path: str) -> Iterator[str]:
    """Yield that a value is another one; a file knows no tuples."""
    now = list(now) if isinstance(now, tuple) else now
    if before != now:
        yield f"{path} was {before!r} and is {now!r}"


def broken_call(before: list[str], now: list[str], path: str) -> Iterator[str]:
    """Yield why a call that was right before is wrong now."""
    known = {each.rstrip("="): each for each in now}
    for each in before:
        name = each.rstrip("=")
        if name not in known:
            yield f"{path}: the argument {name!r} is gone"
        elif each.endswith("=") and not known[name].endswith("="):
            yield f"{path}: the argument {name!r} must now be given"
    names = [each.rstrip("=") for each in before]
    if [name for name in known if name in names] != [name for name in names if name in known]:
        yield f"{path}: the arguments are in another order"
    for name, each in known.items():
        if name not in names and not each.endswith("=") and not each.startswith("*"):
            yield f"{path}: the new argument {name!r} must be given"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "versions"])
def test_names_of_a_release_are_still_there(release: Path, kind: str) -> None:
    """Whoever relies on a column, setting, command or argument finds it unchanged."""
    found = list(broken(fixture.read(release, kind), today()[kind], kind))
    assert not found, "\n".join([*found, f"since {release.name}: {fixture.POLICY}"])


def test_versions_of_forms_never_fall(release: Path) -> None:
    """What a release has written has a number that this one knows."""
    before, now = fixture.read(release, "versions"), today()["versions"]
    assert {name for name, number in before.items() if now.get(name, 0) < number} == set()


def test_new_columns_may_be_missing(release: Path) -> None:
    """A row that an older release wrote lacks them, and is read."""
    before = fixture.read(release, "columns")
    needed = [
        f"{table}.{name}"
        for table, columns in today()["columns"].items()
        for name, column in columns.items()
        if name not in before.get(table, columns) and column["is_required"]
    ]
    assert needed == [], f"a new column must be null=True: {fixture.POLICY}"


def test_settings_are_given_as_before(release: Path) -> None:
    """Each flag takes the default that it had."""
    flags = fixture.read(release, "flags")
    given = {name: each["default"] for name, each in flags.items() if "default" in each}
    Config.from_context({"stage": "dev", **{k: v for k, v in given.items() if v not in ("", [])}})


def test_keys_of_json_output_are_still_there(release: Path) -> None:
    """Programs that read what commands print find every key, in the state of then."""
    before = fixture.read(release, "json_keys")
    with story.put_back(release) as lamp:
        now = json_keys(lamp)
    gone = [f"{name}: {path}" for name in before for path in set(before[name]) - set(now[name])]
    assert not gone, "\n".join([*sorted(gone), fixture.POLICY])


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": 1}, {}, ["x/a is gone"]),
        ({"a": ["p"]}, {"a": ["p", "q"]}, []),
        ({"a": ["p"]}, {"a": ["q"]}, ["x/a: 'p' is gone"]),
        ({"type": "N"}, {"type": "S"}, ["x/type was 'N' and is 'S'"]),
        ({"parameters": ["a", "b="]}, {"parameters": ["a", "b=", "c="]}, []),
        (
            {"parameters": ["b="]},
            {"parameters": ["b"]},
            ["x/parameters: the argument 'b' must now"],
        ),
        ({"parameters": ["a"]}, {"parameters": []}, ["x/parameters: the argument 'a' is gone"]),
        ({"parameters": ["a", "b"]}, {"parameters": ["b", "a"]}, ["x/parameters: the arguments"]),
        ({"parameters": []}, {"parameters": ["c"]}, ["x/parameters: the new argument 'c' must"]),
    ],
)
def test_breaking_changes_are_found(before: Any, now: Any, expected: list[str]) -> None:
    """Only what breaks those who rely on a name is told."""
    found = list(broken(before, now, "x"))
    assert len(found) == len(expected)
    assert all(each.startswith(start) for each, start in zip(found, expected, strict=True))
