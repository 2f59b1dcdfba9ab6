"""Assets as authors write them: wrong arguments, aliases, and copies that do not share."""

from typing import Any

import pytest

from lamplighter import Asset, AssetAlias, AssetAll, AssetAny, Dataset
from lamplighter.assets.asset import encode_condition
from lamplighter.assets.condition import AssetCondition
from lamplighter.errors import DefinitionError, SerializationError


@pytest.mark.parametrize("extra", ["text", [1], 5, {"k": {1, 2}}, {"k": object()}], ids=type)
def test_asset_with_wrong_extra_is_named(extra: Any) -> None:
    """An extra is a JSON object; the error names the asset."""
    with pytest.raises(DefinitionError, match=r"asset 'orders'.*extra"):
        Asset("orders", extra=extra)


@pytest.mark.parametrize("extra", [None, {}])
def test_asset_without_extra_has_empty_one(extra: dict[str, Any] | None) -> None:
    """No extra is an empty one."""
    assert Asset("orders", extra=extra).extra == {}


def test_asset_keeps_its_own_extra() -> None:
    """Changing the mapping that was passed changes nothing about the asset."""
    extra = {"team": "orders"}
    asset = Asset("orders", extra=extra)
    extra["team"] = "other"
    assert asset.extra == {"team": "orders"}


def test_dataset_is_an_asset_too() -> None:
    """The older name makes the same thing, in a group of its own."""
    dataset = Dataset("orders", "s3://lake/orders")
    assert isinstance(dataset, Asset)
    assert dataset == Asset("orders", "s3://lake/orders", group="dataset")


def test_leaves_of_one_name_differ() -> None:
    """An asset, an alias and a reference of one name are three things."""
    assert len({Asset("a"), AssetAlias("a"), Asset.ref(name="a"), Asset.ref(uri="a")}) == 4


def test_conditions_of_other_order_differ() -> None:
    """The order in which a condition was written is part of it."""
    one, other = Asset("a"), Asset("b")
    assert AssetAll(one, other) != AssetAll(other, one)
    assert AssetAll(one, other) != AssetAny(one, other)
    assert AssetAll(one) != one


def test_condition_nobody_knows_is_not_written() -> None:
    """A condition of another kind is refused when it is written."""

    class MoodCondition(AssetCondition):
        def __repr__(self) -> str:
            return "MoodCondition"

    with pytest.raises(SerializationError, match="MoodCondition"):
        encode_condition(MoodCondition())


def test_condition_never_shows_a_password() -> None:
    """A password in a URI is neither in the asset's name nor in what is stored of it."""
    with pytest.warns(UserWarning, match="dropped"):
        asset = Asset("postgres://user:secret@host/db")
    assert "secret" not in str(encode_condition(asset))
