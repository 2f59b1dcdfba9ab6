"""Watchers: the declaration that an outside source updates an asset."""

from lamplighter.errors import DefinitionError
from lamplighter.triggers.base import BaseEventTrigger

_MAX_NAME = 200


class AssetWatcher:
    """A named trigger on an asset: each of its events becomes an event of the asset."""

    def __init__(self, name: str, trigger: BaseEventTrigger) -> None:
        if not isinstance(name, str) or not name.strip():
            raise DefinitionError(f"watcher: the name must be a non-empty text, not {name!r}")
        if len(name) > _MAX_NAME:
            raise DefinitionError(f"watcher: a name has at most {_MAX_NAME} characters")
        if not isinstance(trigger, BaseEventTrigger):
            raise DefinitionError(
                f"watcher {name!r}: trigger {type(trigger).__name__} must be a BaseEventTrigger;"
                " others report a state that stays true, and would start runs without end"
            )
        self.name = name
        self.trigger = trigger

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AssetWatcher):
            return NotImplemented
        return (self.name, self.trigger) == (other.name, other.trigger)

    def __hash__(self) -> int:
        return hash((self.name, self.trigger))

    def __repr__(self) -> str:
        return f"AssetWatcher({self.name!r}, {self.trigger!r})"
