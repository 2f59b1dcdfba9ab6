"""Changes valid inputs until they are not: the raw material of fuzzing.

Owns: what is changed, and how. Every choice comes from the generator that is given, so a seed tells
the whole story.
"""

import copy
import json
from random import Random
from typing import Any

# What parsers, databases and terminals stumble over.
NASTY: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**40,
    1e308,
    float("nan"),
    float("-inf"),
    "",
    " ",
    "\x00",
    "\x1b[31mred",
    "\u202egnp.exe",
    "\ud800",
    "é" * 600,
    "x" * 5_000,
    "../../etc/passwd",
    "s3://",
    "s3://user:password@bucket/key",
    "{{ 7 * 7 }}",
    "__class__",
    "9999-99-99T99:99:99Z",
    "2026-01-01T00:00:00",
    [],
    {},
    [[[[[[]]]]]],
    {"": {"": {"": ""}}},
    ["a"] * 200,
)


def mutated(value: Any, random: Random) -> Any:
    """Return a copy of a JSON value with one to three changes somewhere inside."""
    changed = copy.deepcopy(value)
    for _ in range(random.randint(1, 3)):
        changed = _change(changed, random)
    return changed


def _change(value: Any, random: Random) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.8:
        return _changed_object(value, random)
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        value[at] = _change(value[at], random)
        return value
    return copy.deepcopy(random.choice(NASTY))


def _changed_object(value: dict[str, Any], random: Random) -> dict[str, Any]:
    name = random.choice(list(value))
    action = random.choice(["inside", "inside", "drop", "rename", "add", "repeat"])
    if action == "inside":
        value[name] = _change(value[name], random)
    elif action == "drop":
        del value[name]
    elif action == "rename":
        value[random.choice(["", "Type", "Records", "asset", "x" * 300])] = value.pop(name)
    elif action == "add":
        value[random.choice(["Type", "Records", "detail", "uri", "extra"])] = copy.deepcopy(
            random.choice(NASTY)
        )
    else:
        value[f"{name}{name}"] = copy.deepcopy(value[name])
    return value


def broken(text: str, random: Random) -> str:
    """Return a text with a few characters changed, lost or repeated."""
    characters = list(text)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(characters))
        match random.randrange(4):
            case 0:
                change = []
            case 1:
                change = [chr(random.randrange(0x20, 0x250))]
            case 2:
                change = [random.choice('{}[]",:\\')]
            case _:
                change = characters[at : at + 20] * 3
        characters[at : at + 1] = change
        characters = characters or ["x"]
    return "".join(characters)


def damaged(data: bytes, random: Random) -> bytes:
    """Return bytes of which some are changed, cut off or repeated."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(changed))
        match random.randrange(4):
            case 0 | 1:
                changed[at] = random.randrange(256)
            case 2:
                del changed[at : at + random.randint(1, 40)]
            case _:
                changed[at:at] = changed[at : at + random.randint(1, 40)]
        changed = changed or bytearray(b"x")
    return bytes(changed)


def message_of(value: Any, random: Random) -> str:
    """Return a message that is made of a JSON value: changed inside, or as a text."""
    if random.random() < 0.7:
        return json.dumps(mutated(value, random))
    return broken(json.dumps(value), random)
