"""Values of fields: given as text or as they are, read as their types, refused in one line."""

from typing import Annotated, Any

import pytest

from lamplighter.checked_fields import OneOf, Range, read_value, require_known
from lamplighter.errors import SettingsError

_Few = Annotated[int, Range(0, 10)]
_Share = Annotated[float, Range(0, 1)]
_Color = Annotated[str, OneOf(["red", "blue"])]
_Names = tuple[str, ...]
_Texts = dict[str, str]


@pytest.mark.parametrize(
    ("declared", "value", "found"),
    [
        (str, "x", "x"),
        (str, 5, "5"),
        (bool, "True", True),
        (bool, False, False),
        (_Few, "7", 7),
        (_Few, "7.0", 7),
        (_Few, 0, 0),
        (_Few, 10.0, 10),
        (_Share, "0.5", 0.5),
        (_Share, 1, 1),
        (_Color, "red", "red"),
        (_Names, "", ()),
        (_Names, "a", ("a",)),
        (_Names, '["a", "b"]', ("a", "b")),
        (_Names, ["a"], ("a",)),
        (_Texts, '{"a": "b"}', {"a": "b"}),
        (_Texts, {"a": "b"}, {"a": "b"}),
    ],
)
def test_value_is_read_as_its_type(declared: Any, value: object, found: object) -> None:
    """What variables and flags give as text becomes what JSON gives as it is."""
    read = read_value(declared, "it", value)

    assert (read, type(read)) == (found, type(found))


@pytest.mark.parametrize(
    ("declared", "value", "says"),
    [
        (bool, "maybe", "it='maybe' must be true or false"),
        *(
            (_Few, wrong, f"it={wrong!r} must be a whole number between 0 and 10")
            for wrong in (11, -1, 1.5, True, None, "", "many", "nan", "inf", "1e999", [3])
        ),
        *(
            (_Share, wrong, f"it={wrong!r} must be a number between 0 and 1")
            for wrong in (1.5, "nan", "-0.1", "inf", False, None)
        ),
        (_Color, "green", "it='green' must be one of red, blue"),
        (_Names, "[1]", "it='[1]' must be a name, or a JSON list of names such as [\"orders\"]"),
        (_Names, "[", "it='[' must be a name, or a JSON list of names such as [\"orders\"]"),
        (_Names, 5, 'it=5 must be a name, or a JSON list of names such as ["orders"]'),
        (
            _Texts,
            {"a": 1},
            'it={\'a\': 1} must be a JSON object of texts, such as {"orders": "arn:…"}',
        ),
        (_Texts, "x" * 99, 'it must be a JSON object of texts, such as {"orders": "arn:…"}'),
    ],
)
def test_value_that_cannot_be_is_refused(declared: Any, value: object, says: str) -> None:
    """The line says what was given, unless that is long, and what may be."""
    with pytest.raises(SettingsError) as refused:
        read_value(declared, "it", value)

    assert str(refused.value) == says


def test_unknown_name_is_refused_with_the_nearest() -> None:
    """A slip of the pen is told from a name that nothing is like."""
    require_known("flag", "stage", ["stage"])

    with pytest.raises(SettingsError, match=r"^there is no flag 'stagge'; did you mean stage\?$"):
        require_known("flag", "stagge", ["stage"])
    with pytest.raises(SettingsError, match=r"^here: there is no flag 'moon'$"):
        require_known("flag", "moon", ["stage"], where="here")
