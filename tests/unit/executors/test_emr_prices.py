"""Prices of EMR Serverless by region and architecture. Pure."""

import pytest

from lamplighter.executors.emr_workers import Prices, list_prices

US_EAST = (0.052624, 0.0057785, 0.000111)


@pytest.mark.parametrize(
    ("region", "architecture", "prices"),
    [
        ("us-east-1", "x86_64", US_EAST),
        ("ap-southeast-1", "arm64", (0.052585, 0.005746, 0.000133)),
        ("us-east-1", "arm64", US_EAST),
        ("xx-north-9", "x86_64", US_EAST),
    ],
)
def test_unknown_prices_are_those_of_us_east_on_x86(
    region: str, architecture: str, prices: Prices
) -> None:
    """A known price is used as it is; of another region or architecture, the usual one."""
    assert list_prices(region, architecture) == prices
