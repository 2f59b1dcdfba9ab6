"""Conditions on assets: the trees that `&` and `|` build, and their pure evaluation."""

from collections.abc import Callable, Iterator

from lamplighter.errors import DefinitionError


class AssetCondition:
    """Anything a schedule can wait for: an asset, an alias, a reference, or a tree of them."""

    def __and__(self, other: object) -> "AssetAll":
        return AssetAll(*_flat(self, AssetAll), other)

    def __or__(self, other: object) -> "AssetAny":
        return AssetAny(*_flat(self, AssetAny), other)

    def holds(self, has_events: Callable[["AssetLeaf"], bool]) -> bool:
        """Return whether the condition is true, given which leaves have unconsumed events."""
        raise NotImplementedError

    def leaves(self) -> Iterator["AssetLeaf"]:
        """Yield each asset, alias or reference, in order, as often as it stands in the tree."""
        raise NotImplementedError


class AssetLeaf(AssetCondition):
    """A condition that is not made of others."""

    def holds(self, has_events: Callable[["AssetLeaf"], bool]) -> bool:
        return has_events(self)

    def leaves(self) -> Iterator["AssetLeaf"]:
        yield self


class _Combination(AssetCondition):
    """Several conditions joined by one rule."""

    def __init__(self, *objects: object) -> None:
        conditions = []
        for item in objects:
            if not isinstance(item, AssetCondition):
                raise _NotAnAssetError(
                    f"{item!r} is not an asset: combine Asset, AssetAlias, Asset.ref(…),"
                    " AssetAll and AssetAny only"
                )
            conditions.append(item)
        self.objects = tuple(conditions)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, _Combination):
            return NotImplemented
        return self.objects == other.objects

    def __hash__(self) -> int:
        return hash((type(self), self.objects))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.objects))})"

    def leaves(self) -> Iterator[AssetLeaf]:
        for item in self.objects:
            yield from item.leaves()


class AssetAll(_Combination):
    """True when every member is."""

    def holds(self, has_events: Callable[[AssetLeaf], bool]) -> bool:
        return all(item.holds(has_events) for item in self.objects)


class AssetAny(_Combination):
    """True when at least one member is."""

    def holds(self, has_events: Callable[[AssetLeaf], bool]) -> bool:
        return any(item.holds(has_events) for item in self.objects)


class _NoAssets(AssetCondition):
    """The condition of a schedule that waits for no asset: false, and without leaves."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "NO_ASSETS"

    def holds(self, has_events: Callable[[AssetLeaf], bool]) -> bool:  # noqa: ARG002 - never
        return False

    def leaves(self) -> Iterator[AssetLeaf]:
        return iter(())


NO_ASSETS = _NoAssets()


class _NotAnAssetError(DefinitionError, TypeError):
    """A combination was given something else; Airflow raises `TypeError` here."""


def _flat(left: AssetCondition, kind: type[_Combination]) -> tuple[AssetCondition, ...]:
    # Only the left operand is opened up: `a | b | c` is one list, `a | (b | c)` stays as written.
    return left.objects if isinstance(left, kind) else (left,)
