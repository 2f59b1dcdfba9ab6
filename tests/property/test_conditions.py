"""Laws of asset conditions: they are Python's own `and` and `or`, and survive being written."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lamplighter import Asset, AssetAlias, AssetAll, AssetAny, AssetWatcher, Dataset
from lamplighter.assets.asset import decode_condition, encode_condition
from lamplighter.assets.condition import (
    NO_ASSETS,
    AssetCondition,
    AssetId,
    AssetLeaf,
    decode_on_ids,
    encode_on_ids,
)
from lamplighter.errors import DefinitionError, SerializationError
from lamplighter.loading import author_code_allowed
from lamplighter.scheduler.pending import ids_of
from lamplighter.store.assets import leaf_id
from lamplighter.triggers.base import BaseEventTrigger

calmly = settings(deadline=None, derandomize=True, database=None, max_examples=200)

LEAVES: list[AssetLeaf] = [
    Asset("a"),
    Asset("b", "s3://lake/b"),
    Dataset("c"),
    AssetAlias("a"),
    Asset.ref(name="a"),
    Asset.ref(uri="s3://lake/b"),
]
leaves = st.sampled_from(LEAVES)
trees = st.recursive(
    leaves.map(lambda leaf: (leaf, f"(L[{LEAVES.index(leaf)}] in true)")),
    lambda inner: st.builds(
        lambda kind, items: (
            {"and": AssetAll, "or": AssetAny}[kind](*(item for item, _ in items)),
            "(" + f" {kind} ".join([*(text for _, text in items), str(kind == "and")]) + ")",
        ),
        st.sampled_from(["and", "or"]),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)
grown = st.recursive(
    leaves.map(lambda leaf: (leaf, f"(L[{LEAVES.index(leaf)}] in true)")),
    lambda inner: st.builds(
        lambda left, right, both: (
            (left[0] & right[0], f"({left[1]} and {right[1]})")
            if both
            else (left[0] | right[0], f"({left[1]} or {right[1]})")
        ),
        inner,
        inner,
        st.booleans(),
    ),
    max_leaves=12,
)


@calmly
@given(trees | grown, st.sets(leaves))
def test_condition_of_any_shape_is_boolean(
    tree: tuple[AssetCondition, str], true: set[AssetLeaf]
) -> None:
    """A tree holds exactly when Python's own `and` and `or` say so, empty trees included."""
    condition, expression = tree
    expected = eval(expression, {"L": LEAVES, "true": true})  # noqa: S307 - the test wrote it
    assert condition.holds(true.__contains__) == expected


@calmly
@given(trees, st.sets(leaves), leaves)
def test_condition_with_more_events_stays_true(
    tree: tuple[AssetCondition, str], true: set[AssetLeaf], more: AssetLeaf
) -> None:
    """A further event never makes a condition false."""
    condition, _ = tree
    if condition.holds(true.__contains__):
        assert condition.holds((true | {more}).__contains__)


@calmly
@given(trees)
def test_condition_read_back_is_equal(tree: tuple[AssetCondition, str]) -> None:
    """A tree equals its copy after a journey through JSON text, kinds of leaves included."""
    condition, _ = tree
    copy = decode_condition(json.loads(json.dumps(encode_condition(condition))))
    assert copy == condition
    assert hash(copy) == hash(condition)
    assert [type(leaf) for leaf in copy.leaves()] == [type(leaf) for leaf in condition.leaves()]


@calmly
@given(trees, st.sets(leaves))
def test_condition_on_a_row_holds_as_its_author_meant(
    tree: tuple[AssetCondition, str], true: set[AssetLeaf]
) -> None:
    """The condition on ids, as claims read it, holds exactly when the author's own does."""
    condition, _ = tree
    column = json.loads(json.dumps(encode_on_ids(condition, leaf_id)))
    ids = {AssetId(leaf_id(leaf)) for leaf in true}
    by_id = {leaf: AssetId(leaf_id(leaf)) in ids for leaf in LEAVES}
    assert decode_on_ids(column).holds(ids.__contains__) == condition.holds(by_id.__getitem__)
    assert ids_of(column) == {leaf_id(leaf) for leaf in condition.leaves()}


def test_column_of_a_schedule_without_assets_is_empty() -> None:
    """A DAG that waits for no asset has no condition on its row, and none is read from it."""
    assert encode_on_ids(NO_ASSETS, leaf_id) is None
    assert decode_on_ids(None) is NO_ASSETS


@pytest.mark.parametrize(
    "column",
    [{"most": ["a"]}, {"all": "a"}, {"any": [5]}, {"all": [], "any": []}, {"all": [{"one": []}]}],
    ids=repr,
)
def test_column_of_an_unknown_operator_is_refused(column: dict[str, Any]) -> None:
    """What no version of this library writes is an error, and never read as another operator."""
    with pytest.raises(SerializationError, match="asset condition"):
        decode_on_ids(column)


def test_condition_described_names_assets_and_operators() -> None:
    """People read a condition with the names of its assets."""
    condition = (Asset("a") | AssetAlias("b")) & Asset.ref(uri="s3://lake/c")
    assert condition.describe() == "((a or b) and s3://lake/c)"


def test_empty_condition_of_all_is_true() -> None:
    """All of nothing is true."""
    assert AssetAll().holds(lambda _: False)


def test_empty_condition_of_any_is_false() -> None:
    """Any of nothing is false."""
    assert not AssetAny().holds(lambda _: True)


def test_condition_of_time_schedule_never_holds() -> None:
    """A schedule without assets is never woken by one."""
    assert not NO_ASSETS.holds(lambda _: True)
    assert list(NO_ASSETS.leaves()) == []


uris = st.text(alphabet="sSx3-:/?#@&=%.aB~", min_size=1, max_size=14).filter(str.strip)


@calmly
@given(uris)
@example("s3:////b")
@example("file:///b/")
@example("//b/k/")
def test_asset_of_any_uri_reads_back(uri: str) -> None:
    """Whatever URI an asset was given, its copy has the same one."""
    try:
        asset = Asset("a", uri)
    except (ValueError, UserWarning):
        return
    assert decode_condition(encode_condition(asset)) == asset


@pytest.mark.parametrize(
    "extra", [{"k": (1, 2)}, {1: "one"}, {"k": {2: 3}}, {"k": float("nan")}], ids=repr
)
def test_asset_with_extra_beyond_json_is_refused(extra: dict[Any, Any]) -> None:
    """An extra that JSON would change is refused, or else the copy would be another asset."""
    with pytest.raises(DefinitionError, match="asset 'a'"):
        Asset("a", extra=extra)


class BoxTrigger(BaseEventTrigger):
    """A trigger of an author's."""

    def __init__(self, *, box: str) -> None:
        super().__init__()
        self.box = box

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.BoxTrigger", {"box": self.box}


def test_watched_asset_reads_back_with_trigger() -> None:
    """The watchers of an asset survive, their triggers with all arguments."""
    asset = Asset("a", watchers=[AssetWatcher("inbox", BoxTrigger(box="in"))])
    with author_code_allowed():
        copy = decode_condition(json.loads(json.dumps(encode_condition(asset))))
    assert copy == asset
    assert copy != Asset("a", watchers=[AssetWatcher("inbox", BoxTrigger(box="out"))])


def test_watched_asset_is_refused_elsewhere() -> None:
    """Where author code may not run, an author's trigger is not imported."""
    document = encode_condition(Asset("a", watchers=[AssetWatcher("inbox", BoxTrigger(box="in"))]))
    with pytest.raises(SerializationError, match="BoxTrigger"):
        decode_condition(document)


@pytest.mark.parametrize(
    "document", [{}, {"all": [], "any": []}, {"none": []}, {"asset_or": {}}], ids=repr
)
def test_document_of_no_condition_is_refused(document: dict[str, Any]) -> None:
    """A document that is no condition is refused by name."""
    with pytest.raises(SerializationError, match="asset condition"):
        decode_condition(document)
