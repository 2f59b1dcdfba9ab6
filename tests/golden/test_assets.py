"""Assets: the normal form of URIs, identities, and how conditions are built and evaluated."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from lamplighter import Asset, AssetAlias, AssetAll, AssetAny, Dataset
from lamplighter.assets.asset import normalize_uri
from lamplighter.assets.condition import AssetCondition
from lamplighter.errors import DefinitionError

URIS = """
| in                           | out                          |
| S3://B/Key//                 | s3://B/Key                   |
| s3://b                       | s3://b/                      |
| s3://b/                      | s3://b/                      |
| s3://b//                     | s3://b/                      |
| http://h/p?b=2&a=1#f         | http://h/p?a=1&b=2           |
| http://h/p#f                 | http://h/p                   |
| http://h/p?a=2&a=1           | http://h/p?a=1&a=2           |
| HTTP://Host/Path             | http://Host/Path             |
| http://h:8080/p/             | http://h:8080/p              |
| foo://                       | foo:/                        |
| file:///lake/x/              | file:///lake/x               |
| file:/lake/x/                | file:///lake/x               |
| plain name                   | plain name                   |
| plain/path/                  | plain/path/                  |
| name#with?signs              | name#with?signs              |
| scheme:opaque                | scheme:opaque                |
| SCHEME:opaque                | scheme:opaque                |
| scheme:opaque?b=2&a=1#f      | scheme:opaque?a=1&b=2        |
| //host/path/                 | //host/path/                 |
| x-team://A//b/?z&a#f         | x-team://A//b/?z&a#f         |
| X-Team://u:p@H/              | X-Team://u:p@H/              |
| x-team:opaque/               | x-team:opaque/               |
| postgres://u@h/db            | postgres://u@h/db            |
"""

CREDENTIALS = """
| in                           | out                          |
| postgres://u:p@h/db          | postgres://h/db              |
| postgres://:p@h/db           | postgres://h/db              |
| postgres://u:p%40w@h:1/db/   | postgres://h:1/db            |
| postgres://u:p@ss@h/db       | postgres://h/db              |
"""


def rows(table: str) -> list[list[str]]:
    """Return the cells of each row below the heading."""
    lines = table.strip().splitlines()[1:]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


@pytest.mark.parametrize(("given", "normal"), rows(URIS))
def test_uri_in_any_spelling_is_normalized(given: str, normal: str) -> None:
    """A URI has one spelling, and reaching it takes no warning."""
    assert normalize_uri(given) == normal


@pytest.mark.parametrize(("given", "normal"), rows(CREDENTIALS))
def test_uri_with_password_loses_user(given: str, normal: str) -> None:
    """User and password are dropped, and the warning does not repeat them."""
    with pytest.warns(UserWarning, match="dropped") as caught:
        assert normalize_uri(given) == normal
    assert not any("u:p" in str(warning.message) for warning in caught)


@pytest.mark.parametrize(("given", "normal"), [*rows(URIS), *rows(CREDENTIALS)])
def test_uri_in_normal_form_stays(given: str, normal: str) -> None:
    """Normalizing a second time changes nothing: stored URIs are read back as they are."""
    assert normalize_uri(normal) == normal


@pytest.mark.parametrize("uri", ["airflow://x", "AIRFLOW://x", "airflow:x"])
def test_uri_of_reserved_scheme_is_refused(uri: str) -> None:
    """The scheme `airflow` is reserved in any case; the error quotes the URI."""
    with pytest.raises(DefinitionError, match=f"'{uri}'.*reserved"):
        Asset("orders", uri)


@pytest.mark.parametrize("uri", ["http://[half", "s3://[b]x/"])
def test_uri_nobody_can_read_is_quoted(uri: str) -> None:
    """A URI that cannot be parsed is an error that quotes it."""
    with pytest.raises(DefinitionError) as error:
        Asset("orders", uri)
    assert uri in str(error.value)


def test_warning_about_password_points_at_author() -> None:
    """The warning stands at the line that made the asset."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Asset("orders", "postgres://u:p@h/db")
    assert [warning.filename for warning in caught] == [__file__]


class TestNames:
    def test_asset_of_name_has_uri(self) -> None:
        """A missing URI is the name, in normal form."""
        assert Asset("S3://b/k/").uri == "s3://b/k"

    def test_asset_of_uri_has_name(self) -> None:
        """A missing name is the URI as it was written."""
        asset = Asset(uri="S3://b/k/")
        assert (asset.name, asset.uri) == ("S3://b/k/", "s3://b/k")

    def test_asset_of_both_keeps_both(self) -> None:
        """Name and URI are independent of one another."""
        asset = Asset("orders", "s3://lake/orders/")
        assert (asset.name, asset.uri) == ("orders", "s3://lake/orders")

    def test_asset_of_nothing_is_refused(self) -> None:
        """One of both is needed; the error is a TypeError as in Airflow."""
        with pytest.raises(TypeError, match="give a name, a uri, or both"):
            Asset()

    @pytest.mark.parametrize(
        "name",
        ["", " ", "\t\n", "x" * 1501, 5, b"x"],
        ids=["empty", "blank", "blanks", "long", "number", "bytes"],
    )
    @pytest.mark.parametrize(
        "build",
        [
            Asset,
            lambda name: Asset(uri=name),
            lambda name: Asset("orders", name),
            Dataset,
            AssetAlias,
            lambda name: Asset.ref(name=name),
            lambda name: Asset.ref(uri=name),
        ],
        ids=["name", "uri", "both", "dataset", "alias", "ref_name", "ref_uri"],
    )
    def test_identifier_out_of_bounds_is_refused(
        self, build: Callable[[Any], AssetCondition], name: object
    ) -> None:
        """An identifier is a text of 1 to 1,500 characters that are not all blank."""
        with pytest.raises(DefinitionError, match="asset "):
            build(name)

    @pytest.mark.parametrize("name", ["x", "x" * 1500, "größe", "a b"], ids=len)
    def test_identifier_within_bounds_is_kept(self, name: str) -> None:
        """Any other text is kept as it is."""
        assert Asset(name).name == AssetAlias(name).name == name

    @pytest.mark.parametrize("name", ["self", "context"])
    def test_reserved_name_of_asset_is_refused(self, name: str) -> None:
        """Two names would hide variables of a run."""
        with pytest.raises(DefinitionError, match=f"'{name}'"):
            Asset(name)

    @pytest.mark.parametrize("group", ["  ", "x" * 1501, 5], ids=["blank", "long", "number"])
    @pytest.mark.parametrize("kind", [Asset, AssetAlias])
    def test_group_out_of_bounds_is_refused(self, kind: Any, group: object) -> None:
        """A group is an identifier, too."""
        with pytest.raises(DefinitionError, match="group"):
            kind("orders", group=group)

    def test_group_may_be_left_empty(self) -> None:
        """A group, unlike a name, may be empty."""
        assert Asset("orders", group="").group == ""

    def test_group_says_kind_of_asset(self) -> None:
        """The group of an asset is its kind, unless it is given."""
        groups = [made.group for made in (Asset("a"), Dataset("a"), AssetAlias("a"))]
        assert groups == ["asset", "dataset", "asset"]

    def test_equality_of_assets_needs_everything(self) -> None:
        """Two assets are equal when all their fields are; equal identities share a hash."""
        asset = Asset("orders", "s3://lake/orders")
        assert asset == Asset("orders", "S3://lake/orders/")
        assert asset != Asset("orders", "s3://lake/other")
        assert asset != Asset("orders", "s3://lake/orders", extra={"team": "a"})
        assert asset != Asset("orders", "s3://lake/orders", group="lake")
        assert hash(asset) == hash(Asset("orders", "s3://lake/orders", group="lake"))

    @pytest.mark.parametrize("arguments", [{}, {"name": "a", "uri": "s3://a"}], ids=repr)
    def test_reference_by_not_one_is_refused(self, arguments: dict[str, str]) -> None:
        """A reference is by name or by URI; the error is a TypeError as in Airflow."""
        with pytest.raises(TypeError, match="exactly one"):
            Asset.ref(**arguments)

    def test_reference_by_uri_is_normalized(self) -> None:
        """A reference finds an asset whose URI was spelt otherwise."""
        assert Asset.ref(uri="S3://lake/orders//") == Asset.ref(uri="s3://lake/orders")

    def test_reference_by_name_is_verbatim(self) -> None:
        """A name is no URI and is not changed."""
        assert Asset.ref(name="S3://lake/").name == "S3://lake/"


A, B, C = Asset("a"), Asset("b"), Asset("c")


class TestOperators:
    @pytest.mark.parametrize(
        ("condition", "built"),
        [
            (A | B, AssetAny(A, B)),
            (A & B, AssetAll(A, B)),
            (A | B | C, AssetAny(A, B, C)),
            (A & B & C, AssetAll(A, B, C)),
            (A | (B | C), AssetAny(A, AssetAny(B, C))),
            (A & (B & C), AssetAll(A, AssetAll(B, C))),
            (A | B & C, AssetAny(A, AssetAll(B, C))),
            (A & B | C, AssetAny(AssetAll(A, B), C)),
            ((A | B) & C, AssetAll(AssetAny(A, B), C)),
            (AssetAlias("x") & Asset.ref(name="r"), AssetAll(AssetAlias("x"), Asset.ref(name="r"))),
        ],
        ids=repr,
    )
    def test_operators_on_assets_flatten_left(
        self, condition: AssetCondition, built: AssetCondition
    ) -> None:
        """Operators open up their left operand only, and `&` binds tighter than `|`."""
        assert condition == built

    @pytest.mark.parametrize("other", [1, "b", None, [B], {"b"}], ids=repr)
    def test_operand_of_other_kind_is_refused(self, other: Any) -> None:
        """Only assets can be combined; the error is a TypeError as in Airflow."""
        with pytest.raises(TypeError, match="is not an asset"):
            A & other
        with pytest.raises(TypeError, match="is not an asset"):
            A | other

    def test_operand_before_asset_is_refused(self) -> None:
        """The same holds when the asset stands on the right."""
        with pytest.raises(TypeError):
            1 & A  # type: ignore[operator]

    @pytest.mark.parametrize("kind", [AssetAll, AssetAny])
    def test_combination_of_other_things_is_refused(self, kind: Any) -> None:
        """A combination takes assets only."""
        with pytest.raises(TypeError, match="'b' is not an asset"):
            kind(A, "b")


class TestEvaluation:
    @pytest.mark.parametrize(
        ("condition", "satisfying"),
        [
            (A, ["a", "ab", "ac", "abc"]),
            (A & B, ["ab", "abc"]),
            (A | B, ["a", "b", "ab", "ac", "bc", "abc"]),
            (A & (B | C), ["ab", "ac", "abc"]),
            (A | B & C, ["a", "ab", "ac", "bc", "abc"]),
            (AssetAll(), ["", "a", "b", "c", "ab", "ac", "bc", "abc"]),
            (AssetAny(), []),
        ],
        ids=repr,
    )
    def test_condition_on_events_is_boolean(
        self, condition: AssetCondition, satisfying: list[str]
    ) -> None:
        """A condition holds for exactly the listed sets of updated assets."""
        everything = ["", "a", "b", "c", "ab", "ac", "bc", "abc"]
        updated = {names: {Asset(name) for name in names} for names in everything}
        true = [names for names in everything if condition.holds(updated[names].__contains__)]
        assert true == satisfying

    def test_condition_lists_leaves_in_order(self) -> None:
        """Leaves come in the order in which they stand, as often as they stand there."""
        assert list((A & (B | A) & C).leaves()) == [A, B, A, C]

    def test_condition_evaluates_references_by_themselves(self) -> None:
        """An alias or a reference is asked about as such; whoever evaluates resolves it."""
        alias, reference = AssetAlias("x"), Asset.ref(name="a")
        asked: list[AssetCondition] = []

        def has_events(leaf: AssetCondition) -> bool:
            asked.append(leaf)
            return True

        assert (alias & reference).holds(has_events)
        assert asked == [alias, reference]
