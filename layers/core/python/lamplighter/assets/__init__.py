"""What authors say about data: assets, aliases, references, conditions and watchers."""

from lamplighter.assets.asset import Asset, AssetAlias, AssetRef, AssetWatcher, Dataset
from lamplighter.assets.condition import AssetAll, AssetAny, AssetCondition

__all__ = [
    "Asset",
    "AssetAlias",
    "AssetAll",
    "AssetAny",
    "AssetCondition",
    "AssetRef",
    "AssetWatcher",
    "Dataset",
]
