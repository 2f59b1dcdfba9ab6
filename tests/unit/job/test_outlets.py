"""What a program may state about its outlets, and what is refused."""

import datetime
import math
from typing import Any

import pytest

from lamplighter_job.errors import ContextError, ReportError
from lamplighter_job.json_values import MAX_JSON
from lamplighter_job.outlets import Outlet


def asset(extra: Any = None) -> Outlet:
    """Return the outlet `orders` with an extra."""
    outlet = Outlet("asset", "orders", "s3://lake/orders")
    if extra is not None:
        outlet.extra = extra
    return outlet


def alias() -> Outlet:
    """Return the outlet `any_table`."""
    return Outlet("alias", "any_table")


def test_extra_filled_or_replaced_is_reported() -> None:
    """Facts are added one by one or as a whole."""
    outlet = asset({"rows": 3})
    outlet.extra["days"] = ("2026-01-05",)
    assert outlet.facts() == {"rows": 3, "days": ["2026-01-05"]}


def test_facts_reported_are_a_copy() -> None:
    """What the program does later does not change the report."""
    outlet = asset({"rows": []})
    facts = outlet.facts()
    outlet.extra["rows"].append(1)
    assert facts == {"rows": []}


@pytest.mark.parametrize(
    "extra", [{"day": datetime.date(2026, 1, 5)}, {"mean": math.nan}, {"rows": {1, 2}}, {(1,): 2}]
)
def test_extra_that_json_cannot_hold_is_refused(extra: dict[Any, Any]) -> None:
    """A date, a set or a number that is none is refused with the name of the outlet."""
    with pytest.raises(ReportError, match=r"outlet 'orders': extra must hold JSON values only"):
        asset(extra).facts()


def test_extra_that_contains_itself_is_refused() -> None:
    """A circle has no end as JSON."""
    extra: dict[str, Any] = {}
    extra["self"] = extra
    with pytest.raises(ReportError, match="JSON values only"):
        asset(extra).facts()


@pytest.mark.parametrize("extra", [5, "rows=5", [1]])
def test_extra_that_is_no_mapping_is_refused(extra: Any) -> None:
    """An extra is a dict and nothing else."""
    with pytest.raises(ReportError, match="must be a dict"):
        asset(extra).facts()


def test_extra_is_refused_just_above_the_limit() -> None:
    """The limit counts characters of JSON, the brackets included."""
    longest = MAX_JSON - len('{"x": ""}')
    assert asset({"x": "a" * longest}).facts()
    with pytest.raises(ReportError, match=r"32,001 characters.*at most 32,000"):
        asset({"x": "a" * (longest + 1)}).facts()


def test_alias_reports_each_asset_added() -> None:
    """An asset is added by name, by URI or by both, with facts or without."""
    outlet = alias()
    outlet.add(name="orders", extra={"rows": 3})
    outlet.add(uri="s3://lake/fx")
    assert outlet.additions() == [
        {"name": "orders", "uri": None, "extra": {"rows": 3}},
        {"name": None, "uri": "s3://lake/fx", "extra": {}},
    ]


def test_alias_with_a_large_extra_names_the_asset() -> None:
    """The error says which of the added assets has too much to tell."""
    outlet = alias()
    outlet.add(uri="s3://lake/fx", extra={"x": "a" * MAX_JSON})
    with pytest.raises(ReportError, match="alias 'any_table', asset 's3://lake/fx'"):
        outlet.additions()


def test_alias_without_an_asset_is_an_error() -> None:
    """Adding nothing is refused at once, where the mistake is."""
    with pytest.raises(ContextError, match="give the name of an asset"):
        alias().add(extra={"rows": 3})


def test_alias_has_no_extra_of_its_own() -> None:
    """Facts about an alias belong to the assets behind it."""
    with pytest.raises(ContextError, match=r"use \.add"):
        alias().extra["rows"] = 3
    with pytest.raises(ContextError, match=r"use \.add"):
        alias().extra = {}


def test_asset_cannot_be_added_to() -> None:
    """Only an alias stands for others."""
    with pytest.raises(ContextError, match=r"fill its \.extra"):
        asset().add(name="fx")
