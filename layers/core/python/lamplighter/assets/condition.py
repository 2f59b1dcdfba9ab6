"""Conditions on assets: the trees that `&` and `|` build.

Owns: what every operator means, once for authors' files, documents and DAG rows alike. Each class
has its own evaluation (`holds`), written form (`encode`, `decode`) and explanation (`describe`).
A new operator is a class here, listed in `OPERATORS`; one that is not listed is refused.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self, TypeAlias

from lamplighter.errors import DefinitionError, SerializationError

HasEvents: TypeAlias = "Callable[[AssetLeaf], bool]"
EncodeLeaf: TypeAlias = "Callable[[AssetLeaf], Any]"
Decode: TypeAlias = "Callable[[Any], AssetCondition]"


class AssetCondition:
    """Anything a schedule can wait for: an asset, an alias, a reference, or a tree of them."""

    def __and__(self, other: object) -> "AssetAll":
        return AssetAll(*_flat(self, AssetAll), other)

    def __or__(self, other: object) -> "AssetAny":
        return AssetAny(*_flat(self, AssetAny), other)

    def holds(self, has_events: HasEvents) -> bool:
        """Return whether the condition is true, given which leaves have unconsumed events."""
        raise NotImplementedError

    def leaves(self) -> "Iterator[AssetLeaf]":
        """Yield each asset, alias or reference, in order, as often as it stands in the tree."""
        raise NotImplementedError

    def encode(self, encode_leaf: EncodeLeaf) -> Any:  # noqa: ARG002 - this class has no form
        """Return the JSON value that `decode` reads back, its leaves written by `encode_leaf`."""
        raise SerializationError(f"{self!r} has no written form")

    def describe(self) -> str:
        """Return the condition as people read it, such as `(orders and fx)`."""
        return repr(self)


class AssetLeaf(AssetCondition):
    """A condition that is not made of others."""

    def _fields(self) -> tuple[object, ...]:
        """Return what tells it from others: its kind first."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AssetLeaf):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def holds(self, has_events: HasEvents) -> bool:
        return has_events(self)

    def leaves(self) -> "Iterator[AssetLeaf]":
        yield self

    def encode(self, encode_leaf: EncodeLeaf) -> Any:
        return encode_leaf(self)


class AssetOperator(AssetCondition):
    """Several conditions joined by one rule."""

    name: ClassVar[str]  # in the written form
    conjunction: ClassVar[str]  # between the members, as people read them

    def __init__(self, *objects: object) -> None:
        conditions = []
        for item in objects:
            if not isinstance(item, AssetCondition):
                operators = ", ".join(kind.__name__ for kind in OPERATORS.values())
                raise _NotAnAssetError(
                    f"{item!r} is not an asset: combine Asset, AssetAlias, Asset.ref(…),"
                    f" {operators} only"
                )
            conditions.append(item)
        self.objects = tuple(conditions)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, AssetOperator):
            return NotImplemented
        return self.objects == other.objects

    def __hash__(self) -> int:
        return hash((type(self), self.objects))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.objects))})"

    def leaves(self) -> Iterator[AssetLeaf]:
        for item in self.objects:
            yield from item.leaves()

    def encode(self, encode_leaf: EncodeLeaf) -> Any:
        return {self.name: [item.encode(encode_leaf) for item in self.objects]}

    @classmethod
    def decode(cls, written: Any, decode_member: Decode) -> Self:
        """Return the operator whose written form, without its name, is given."""
        if not isinstance(written, list):
            raise SerializationError(
                f"the members of asset condition {cls.name!r} must be a list, not {written!r}"
            )
        return cls(*map(decode_member, written))

    def describe(self) -> str:
        return f"({f' {self.conjunction} '.join(item.describe() for item in self.objects)})"


class AssetAll(AssetOperator):
    """True when every member is: `AssetAll(a, b)` is `a & b`."""

    name = "all"
    conjunction = "and"

    def holds(self, has_events: HasEvents) -> bool:
        return all(item.holds(has_events) for item in self.objects)


class AssetAny(AssetOperator):
    """True when at least one member is: `AssetAny(a, b)` is `a | b`."""

    name = "any"
    conjunction = "or"

    def holds(self, has_events: HasEvents) -> bool:
        return any(item.holds(has_events) for item in self.objects)


OPERATORS: dict[str, type[AssetOperator]] = {kind.name: kind for kind in (AssetAll, AssetAny)}


class _NoAssets(AssetCondition):
    """The condition of a schedule that waits for no asset: false, and without leaves."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "NO_ASSETS"

    def holds(self, has_events: HasEvents) -> bool:  # noqa: ARG002 - never
        return False

    def leaves(self) -> Iterator[AssetLeaf]:
        return iter(())


NO_ASSETS = _NoAssets()


def decode(written: Any, decode_leaf: Decode) -> AssetCondition:
    """Return the condition that was written; whatever is no operator is given to `decode_leaf`."""
    if isinstance(written, dict) and len(written) == 1:
        ((name, members),) = written.items()
        if name in OPERATORS:
            return OPERATORS[name].decode(members, lambda member: decode(member, decode_leaf))
    return decode_leaf(written)


# Conditions on the ids of assets, as the row of a DAG has them.


class AssetId(AssetLeaf):
    """An asset, alias or URI by its id."""

    def __init__(self, asset_id: str) -> None:
        self.asset_id = asset_id

    def _fields(self) -> tuple[object, ...]:
        return (AssetId, self.asset_id)

    def __repr__(self) -> str:
        return f"AssetId({self.asset_id!r})"

    def describe(self) -> str:
        return self.asset_id


def encode_on_ids(condition: AssetCondition, id_of: Callable[[AssetLeaf], str]) -> Any:
    """Return the column of a condition: an id, or an operator such as `{"all": ["orders"]}`."""
    return None if condition is NO_ASSETS else condition.encode(id_of)


def decode_on_ids(written: Any) -> AssetCondition:
    """Return the condition that a column has, with `AssetId`s as its leaves."""
    return decode(written, _decode_id) if written else NO_ASSETS


def _decode_id(written: Any) -> AssetId:
    if not isinstance(written, str):
        raise SerializationError(f"{written!r} is neither an asset id nor a known asset condition")
    return AssetId(written)


class _NotAnAssetError(DefinitionError, TypeError):
    """A combination was given something else; Airflow raises `TypeError` here."""


def _flat(left: AssetCondition, kind: type[AssetOperator]) -> tuple[AssetCondition, ...]:
    # Only the left operand is opened up: `a | b | c` is one list, `a | (b | c)` stays as written.
    return left.objects if isinstance(left, kind) else (left,)
