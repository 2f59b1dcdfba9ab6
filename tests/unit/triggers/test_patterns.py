"""Event patterns: which events fit, and which patterns are refused."""

import json
from typing import Any

import pytest

from lamplighter.errors import DefinitionError
from lamplighter.triggers.patterns import EventPattern

ORDER = {
    "source": "shop.orders",
    "resources": ["shop/7", "till/3"],
    "detail": {
        "state": "Paid",
        "amount": 120.5,
        "items": 3,
        "express": True,
        "coupon": None,
        "note": "",
        "path": "in/2026/orders*.csv",
        "from": "10.0.3.77",
        "tags": [],
        "lines": [{"sku": "lamp", "pieces": 2}, {"sku": "wick", "pieces": 1}],
        "grid": [[1, 2], [[3]]],
    },
}


def detail(**fields: Any) -> dict[str, Any]:
    """Return a pattern on fields of the detail."""
    return {"detail": fields}


FITS = [
    {"source": ["shop.orders"]},
    {"source": ["shop.returns", "shop.orders"]},
    {"source": ["shop.orders"], "detail": {"items": [3], "state": ["Paid"]}},
    {"resources": ["till/3"]},
    detail(amount=[120.5]),
    detail(items=[3.0]),
    detail(express=[True]),
    detail(coupon=[None]),
    detail(note=[""]),
    detail(grid=[3]),
    detail(state=[{"prefix": "Pa"}]),
    detail(state=[{"prefix": ""}]),
    detail(state=[{"prefix": {"equals-ignore-case": "PA"}}]),
    detail(state=[{"suffix": "id"}]),
    detail(state=[{"suffix": {"equals-ignore-case": "ID"}}]),
    detail(state=[{"equals-ignore-case": "pAID"}]),
    detail(state=[{"anything-but": "Open"}]),
    detail(state=[{"anything-but": ["Open", 7]}]),
    detail(state=[{"anything-but": {"prefix": "Op"}}]),
    detail(state=[{"anything-but": {"suffix": ["en", "ed"]}}]),
    detail(state=[{"anything-but": {"equals-ignore-case": "open"}}]),
    detail(path=[{"anything-but": {"wildcard": "out/*"}}]),
    detail(items=[{"anything-but": 4}]),
    detail(items=[{"anything-but": "3"}]),
    detail(coupon=[{"anything-but": "SPRING"}]),
    {"resources": [{"anything-but": "shop/7"}]},
    detail(items=[{"numeric": ["=", 3]}]),
    detail(items=[{"numeric": ["<", 4]}]),
    detail(items=[{"numeric": ["<=", 3]}]),
    detail(amount=[{"numeric": [">", 120, "<=", 120.5]}]),
    detail(amount=[{"numeric": [">=", 120.5, "<", 1e9]}]),
    detail(state=[{"exists": True}]),
    detail(coupon=[{"exists": True}]),
    detail(refund=[{"exists": False}]),
    detail(lines=[{"exists": False}]),
    detail(tags=[{"exists": False}]),
    {"refund": {"reason": [{"exists": False}]}},
    detail(path=[{"wildcard": "in/*.csv"}]),
    detail(path=[{"wildcard": "*"}]),
    detail(path=[{"wildcard": "*/2026/*"}]),
    detail(path=[{"wildcard": r"in/2026/orders\*.csv"}]),
    detail(path=[{"wildcard": r"*\**"}]),
    {"detail": {"from": [{"cidr": "10.0.0.0/16"}]}},
    {"detail": {"from": [{"cidr": "10.0.3.77"}]}},
    {"detail": {"from": [{"cidr": "10.0.3.1/24"}]}},
    {"detail": {"from": [{"cidr": "::/0"}, "10.0.3.77"]}},
    detail(lines={"sku": ["wick"], "pieces": [1]}),
    {"$or": [{"source": ["other"]}, {"detail": {"items": [3]}}]},
    {"detail": {"$or": [{"items": [9]}, {"state": ["Paid"], "express": [True]}]}},
    {
        "source": ["shop.orders"],
        "$or": [{"x": [1]}, {"$or": [{"y": [1]}, {"detail": {"items": [3]}}]}],
    },
]

DIFFERS = [
    {"source": ["shop"]},
    {"source": ["shop.orders"], "detail": {"items": [4]}},
    {"resources": ["shop/8"]},
    {"resource": ["shop/7"]},
    detail(items=["3"]),
    detail(items=[True]),
    detail(express=[1]),
    detail(express=["true"]),
    detail(coupon=[""]),
    detail(coupon=[False]),
    detail(note=[None]),
    detail(refund=[None]),
    detail(tags=[None]),
    detail(lines=["lamp"]),
    detail(state={"text": ["Paid"]}),
    detail(state=[{"prefix": "pa"}]),
    detail(items=[{"prefix": "3"}]),
    detail(state=[{"suffix": "ID"}]),
    detail(state=[{"equals-ignore-case": "pai"}]),
    detail(state=[{"anything-but": "Paid"}]),
    detail(state=[{"anything-but": ["Open", "Paid"]}]),
    detail(state=[{"anything-but": {"prefix": "Pa"}}]),
    detail(state=[{"anything-but": {"suffix": ["x", "id"]}}]),
    detail(state=[{"anything-but": {"equals-ignore-case": "PAID"}}]),
    detail(path=[{"anything-but": {"wildcard": "in/*"}}]),
    detail(items=[{"anything-but": 3.0}]),
    detail(refund=[{"anything-but": "x"}]),
    detail(items=[{"numeric": ["<", 3]}]),
    detail(items=[{"numeric": [">", 3, "<", 9]}]),
    detail(express=[{"numeric": ["=", 1]}]),
    detail(state=[{"numeric": [">", 0]}]),
    detail(state=[{"exists": False}]),
    detail(coupon=[{"exists": False}]),
    detail(refund=[{"exists": True}]),
    detail(lines=[{"exists": True}]),
    {"detail": [{"exists": True}]},
    {"refund": {"reason": [{"exists": True}]}},
    detail(path=[{"wildcard": "in/*.json"}]),
    detail(path=[{"wildcard": "in/2026"}]),
    detail(path=[{"wildcard": r"in/2026/orders\*csv"}]),
    detail(state=[{"wildcard": "Pai*aid"}]),
    detail(items=[{"wildcard": "*"}]),
    {"detail": {"from": [{"cidr": "10.1.0.0/16"}]}},
    {"detail": {"from": [{"cidr": "::/0"}]}},
    detail(state=[{"cidr": "0.0.0.0/0"}]),
    detail(items=[{"cidr": "0.0.0.0/0"}]),
    detail(lines={"sku": ["wick"], "pieces": [2]}),
    {"$or": [{"source": ["other"]}, {"detail": {"items": [4]}}]},
    {"source": ["other"], "$or": [{"detail": {"items": [3]}}, {"source": ["x"]}]},
]


@pytest.mark.parametrize("pattern", FITS, ids=json.dumps)
def test_event_that_is_as_wanted_fits(pattern: dict[str, Any]) -> None:
    """All fields of the pattern are there, each with one of the values."""
    assert EventPattern(pattern).matches(ORDER)


@pytest.mark.parametrize("pattern", DIFFERS, ids=json.dumps)
def test_event_that_is_not_as_wanted_differs(pattern: dict[str, Any]) -> None:
    """One field of the pattern is missing, or has none of the values."""
    assert not EventPattern(pattern).matches(ORDER)


@pytest.mark.parametrize("event", [None, 5, "text", [ORDER]], ids=repr)
def test_event_that_is_no_object_never_fits(event: object) -> None:
    """Not even a pattern that asks for the absence of a field takes what has no fields."""
    assert not EventPattern({"x": [{"exists": False}]}).matches(event)


def test_event_nested_beyond_the_stack_is_judged() -> None:
    """Lists may lie in each other more deeply than functions can call each other."""
    deep: list[Any] = ["here"]
    for _ in range(50_000):
        deep = [deep]
    assert EventPattern({"x": ["here"]}).matches({"x": deep})


WRONG = [
    ("text", "pattern: must be a mapping, not 'text'"),
    ({"x": [float("nan")]}, "pattern: must hold JSON values only: .*"),
    ({"x": ("a",)}, "pattern: must hold JSON values only: .*"),
    ({}, "pattern: must be a list of values, or an object with at least one field"),
    ({"x": "a"}, "pattern: x: must be a list of values, or an object with at least one field"),
    ({"x": {"y": {}}}, r"pattern: x\.y: must be a list of values, .*"),
    ({"x": []}, "pattern: x: must list at least one value"),
    ({"x": [["a"]]}, "pattern: x: must not have a list within the list"),
    (
        {"detail": {"size": [{"numerc": [">", 1]}]}},
        r"pattern: detail\.size: unknown operator 'numerc'; one of .*, exists, numeric, .*",
    ),
    ({"x": [{}]}, "pattern: x: must have one operator in an object, not 0"),
    (
        {"x": [{"prefix": "a", "suffix": "b"}]},
        "pattern: x: must have one operator in an object, not 2",
    ),
    ({"x": [{"prefix": 5}]}, r"pattern: x\.prefix: must be a string, not 5"),
    ({"x": [{"suffix": ["a"]}]}, r"pattern: x\.suffix: must be a string, not \['a'\]"),
    (
        {"x": [{"prefix": {"wildcard": "a"}}]},
        r"pattern: x\.prefix: unknown operator 'wildcard'; one of equals-ignore-case",
    ),
    (
        {"x": [{"suffix": {"equals-ignore-case": None}}]},
        r"pattern: x\.suffix\.equals-ignore-case: must be a string, not None",
    ),
    ({"x": [{"exists": "yes"}]}, r"pattern: x\.exists: must be true or false"),
    ({"x": [{"cidr": "10.0.0.0/64"}]}, r"pattern: x\.cidr: must be a block of addresses, .*"),
    ({"x": [{"wildcard": "a**b"}]}, r"pattern: x\.wildcard: must not have two \* in a row"),
    ({"x": [{"wildcard": r"a\b"}]}, r"pattern: x\.wildcard: must have a backslash only .*"),
    ({"x": [{"wildcard": "a\\"}]}, r"pattern: x\.wildcard: must have a backslash only .*"),
    ({"x": [{"anything-but": None}]}, r"pattern: x\.anything-but: must be a string, a number, .*"),
    ({"x": [{"anything-but": ["a", True]}]}, r"pattern: x\.anything-but: must be a string, .*"),
    ({"x": [{"anything-but": []}]}, r"pattern: x\.anything-but: must list at least one value"),
    (
        {"x": [{"anything-but": {"numeric": ["=", 1]}}]},
        r"pattern: x\.anything-but: unknown operator 'numeric'; one of equals-ignore-case, .*",
    ),
    ({"$or": {"x": [1]}}, r"pattern: \$or: must be a list of two objects or more"),
    ({"x": {"$or": [{"y": [1]}]}}, r"pattern: x\.\$or: must be a list of two objects or more"),
    ({"$or": [{"x": [1]}, {"y": 1}]}, r"pattern: \$or\.y: must be a list of values, .*"),
]


@pytest.mark.parametrize(("pattern", "message"), WRONG, ids=lambda value: repr(value)[:60])
def test_pattern_with_mistake_is_refused_by_its_path(pattern: object, message: str) -> None:
    """Whoever wrote the pattern reads where the mistake is, and what may stand there."""
    with pytest.raises(DefinitionError, match=f"^{message}$"):
        EventPattern(pattern)


@pytest.mark.parametrize(
    "operand",
    [
        *(5, [], ["="], ["=", "5"], ["~", 5], [5, "="], ["=", True], ["<", 1, ">", 0]),
        *([">", 5, "<", 5], [">", 1, "<"], [">", 1, ">", 2], ["=", 1, "=", 1]),
        [">", 0, "<", 9, "<", 8],
    ],
    ids=repr,
)
def test_numeric_without_clear_range_is_refused(operand: object) -> None:
    """A comparison, or a lower and a higher bound in that order: nothing else is a range."""
    with pytest.raises(DefinitionError, match=r"x\.numeric: must be like \['=', 5\]"):
        EventPattern({"x": [{"numeric": operand}]})


def test_pattern_is_kept_as_it_was_given() -> None:
    """What the author changes afterwards in the object that was given changes nothing."""
    given: dict[str, Any] = {"x": [1]}
    pattern = EventPattern(given, "match")
    given["x"].append(2)
    assert pattern.content == {"x": [1]}
    assert not pattern.matches({"x": 2})
