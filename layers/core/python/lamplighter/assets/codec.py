"""The written form of assets and of conditions on them."""

from typing import Any

from lamplighter.assets.asset import Asset, AssetAlias, AssetRef, Dataset
from lamplighter.assets.condition import AssetAll, AssetAny, AssetCondition
from lamplighter.assets.asset import AssetWatcher
from lamplighter.errors import SerializationError
from lamplighter.loading import is_kept_as_data, load_class
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.feeds import StreamInfo
from lamplighter.triggers.feeds import ForeignTrigger


def encode_condition(condition: AssetCondition) -> dict[str, Any]:
    """Return the JSON value that `decode_condition` reads back."""
    match condition:
        case Asset():
            return {"asset" if type(condition) is Asset else "dataset": _encode_asset(condition)}
        case AssetAlias():
            return {"alias": {"name": condition.name, "group": condition.group}}
        case AssetRef(name=None):
            return {"asset_ref": {"uri": condition.uri}}
        case AssetRef():
            return {"asset_ref": {"name": condition.name}}
        case AssetAll():
            return {"all": [encode_condition(item) for item in condition.objects]}
        case AssetAny():
            return {"any": [encode_condition(item) for item in condition.objects]}
    raise SerializationError(f"{condition!r} has no written form")


def decode_condition(document: dict[str, Any]) -> AssetCondition:
    """Return the condition that was written."""
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
        case "all":
            return AssetAll(*map(decode_condition, data))
        case "any":
            return AssetAny(*map(decode_condition, data))
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
