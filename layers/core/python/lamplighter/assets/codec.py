"""The written form of assets, aliases, references and watchers, and of conditions on them."""

from typing import Any

from lamplighter.assets.asset import Asset, AssetAlias, AssetRef, AssetWatcher, Dataset
from lamplighter.assets.condition import AssetCondition, AssetLeaf, decode
from lamplighter.errors import SerializationError
from lamplighter.loading import is_kept_as_data, load_class
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.feeds import ForeignTrigger, StreamInfo


def encode_condition(condition: AssetCondition) -> dict[str, Any]:
    """Return the JSON value that `decode_condition` reads back."""
    written: dict[str, Any] = condition.encode(_encode_leaf)
    return written


def decode_condition(document: dict[str, Any]) -> AssetCondition:
    """Return the condition that was written."""
    return decode(document, _decode_leaf)


def _encode_leaf(leaf: AssetLeaf) -> dict[str, Any]:
    match leaf:
        case Asset():
            return {"asset" if type(leaf) is Asset else "dataset": _encode_asset(leaf)}
        case AssetAlias():
            return {"alias": {"name": leaf.name, "group": leaf.group}}
        case AssetRef(name=None):
            return {"asset_ref": {"uri": leaf.uri}}
        case AssetRef():
            return {"asset_ref": {"name": leaf.name}}
    raise SerializationError(f"{leaf!r} has no written form")


def _decode_leaf(document: dict[str, Any]) -> AssetLeaf:
    if len(document) != 1:
        raise SerializationError(f"an asset condition has one key, not {sorted(document)}")
    ((kind, data),) = document.items()
    match kind:
        case "asset":
            return _decode_asset(Asset, data)
        case "dataset":
            return _decode_asset(Dataset, data)
        case "alias":
            return AssetAlias(data["name"], group=data["group"])
        case "asset_ref":
            return AssetRef(name=data.get("name"), uri=data.get("uri"))
    raise SerializationError(f"unknown kind of asset condition: {kind!r}")


def _encode_asset(asset: Asset) -> dict[str, Any]:
    return {
        "name": asset.name,
        "uri": asset.uri,
        "group": asset.group,
        "extra": asset.extra,
        "watchers": [encode_watcher(watcher) for watcher in asset.watchers],
    }


def _decode_asset(kind: type[Asset], data: dict[str, Any]) -> Asset:
    return kind(
        data["name"],
        data["uri"],
        group=data["group"],
        extra=data["extra"],
        watchers=[_decode_watcher(watcher) for watcher in data["watchers"]],
    )


def encode_watcher(watcher: AssetWatcher) -> dict[str, Any]:
    """Return the JSON value of a watcher, with what must be wired for it."""
    path, kwargs = watcher.trigger.serialize()
    # Read where it is defined: elsewhere an author's class is only remembered.
    facts = StreamInfo.of(watcher.trigger).to_json()
    return {"name": watcher.name, "trigger": {"type": path, "data": kwargs, **facts}}


def _decode_watcher(data: dict[str, Any]) -> AssetWatcher:
    return AssetWatcher(data["name"], decode_trigger(data["trigger"]))


def decode_trigger(document: dict[str, Any]) -> BaseEventTrigger:
    """Return the trigger that was written; an author's class only where its bundle may run."""
    path, data = document["type"], document["data"]
    if is_kept_as_data(path):
        return ForeignTrigger(path, data, StreamInfo.from_json(document))
    return load_class(path, BaseEventTrigger)(**data)
