"""List prices of EMR Serverless, by region and architecture."""

# Dollars per hour for a vCPU, and for a GB of memory and of storage.
Prices = tuple[float, float, float]

# On-demand prices as published on these days; AWS changes them without notice.
_PRICES: dict[tuple[str, str], Prices] = {
    # The pricing page, 13 August 2026.
    ("us-east-1", "x86_64"): (0.052624, 0.0057785, 0.000111),
    # The AWS Price List (APS1-EMR-SERVERLESS-*), 12 August 2026.
    ("ap-southeast-1", "x86_64"): (0.065728, 0.007189, 0.000133),
    ("ap-southeast-1", "arm64"): (0.052585, 0.005746, 0.000133),
    # The AWS Price List (APN1-EMR-SERVERLESS-ARM-*), 10 October 2026; storage as in us-east-1.
    ("ap-northeast-1", "arm64"): (0.052585, 0.005746, 0.000111),
}
_OTHERWISE = ("us-east-1", "x86_64")


def list_prices(region: str, architecture: str) -> Prices:
    """Return the prices of a region and architecture; those of us-east-1 on x86 if unknown."""
    return _PRICES.get((region, architecture), _PRICES[_OTHERWISE])
