"""Laws of event patterns: they are Python's `and`, `or` and `not`, and what an emulator thinks."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.events.models import EventPattern as EmulatedPattern

from lamplighter.triggers.patterns import EventPattern

calmly = settings(deadline=None, derandomize=True, database=None, max_examples=100)

texts = st.text("aAb*\\", max_size=3)
# No truth values: the emulator takes them for numbers.
scalars = texts | st.integers(-1, 1) | st.just(0.5) | st.none()
truths = st.booleans()
names = st.sampled_from(["a", "b"])
stars = st.lists(
    texts.map(lambda text: text.translate({92: None, 42: None})), min_size=1, max_size=4
)
wildcards = stars.map(lambda pieces: "*".join([pieces[0], *filter(None, pieces[1:-1]), pieces[-1]]))
wildcards = wildcards.filter(lambda text: "**" not in text)


@st.composite
def ranges(draw: st.DrawFn) -> list[Any]:
    """Return what `numeric` takes."""
    low, high = draw(st.integers(-1, 0)), draw(st.integers(1, 2))
    one = [draw(st.sampled_from(["=", "<", "<=", ">", ">="])), low]
    two = [draw(st.sampled_from([">", ">="])), low, draw(st.sampled_from(["<", "<="])), high]
    return draw(st.sampled_from([one, two]))


def operator(name: str, operand: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return the operator with each of its operands."""
    return operand.map(lambda one: {name: one})


folded = texts | operator("equals-ignore-case", texts)
text_operators = (
    operator("prefix", folded)
    | operator("suffix", folded)
    | operator("equals-ignore-case", texts)
    | operator("wildcard", wildcards)
)
unwanted = texts | st.integers(-3, 3)
value_operators = (
    text_operators
    | operator("anything-but", unwanted | st.lists(unwanted, min_size=1, max_size=3))
    | operator("anything-but", text_operators)
    | operator("numeric", ranges())
)
leaves = st.lists(
    scalars | value_operators | operator("exists", st.booleans()), min_size=1, max_size=3
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return patterns on objects, with what may stand for a field."""
    plain = st.dictionaries(names, inner, min_size=1, max_size=2)
    either = st.lists(plain, min_size=2, max_size=2)
    return plain | st.builds(lambda fields, choice: {**fields, "$or": choice}, plain, either)


patterns = objects(leaves | objects(leaves))
flat_values = scalars | st.lists(scalars, min_size=2, max_size=4)
flat_fields = flat_values | flat_values | st.dictionaries(names, flat_values, min_size=1)
flat_events = st.fixed_dictionaries({"a": flat_fields, "b": flat_fields})
values = st.recursive(
    scalars | truths,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
events = st.dictionaries(names, values, max_size=3)


def answer_of_emulator(pattern: dict[str, Any], event: Any) -> bool:
    """Return whether moto takes the event for one that the pattern wants."""
    return EmulatedPattern.load(json.dumps(pattern)).matches_event(event)


@given(pattern=patterns, event=flat_events)
@settings(calmly, max_examples=300)
def test_pattern_on_plain_events_answers_like_emulator(
    pattern: dict[str, Any], event: dict[str, Any]
) -> None:
    """Where no known difference plays a part, moto gives the same answer."""
    emulated = answer_of_emulator(pattern, event)
    assert EventPattern(pattern).matches(event) == emulated


# What EventBridge documents or does, and moto does not.
@pytest.mark.parametrize(
    ("pattern", "event", "fits"),
    [
        ({"x": [1]}, {"x": True}, False),  # true is no number
        ({"x": [{"numeric": ["=", 1]}]}, {"x": True}, False),
        ({"x": {"y": [1]}}, {"x": [{"y": 2}, {"y": 1}]}, True),  # objects in a list are looked at
        ({"x": [1]}, {"x": [[1]]}, True),  # and lists in it
        ({"x": [{"exists": False}]}, {"x": []}, True),  # a list without elements has no value
        ({"x": [{"exists": False}]}, {"x": {}}, True),
        ({"x": [{"anything-but": 1}]}, {"x": [{"y": 1}]}, False),  # an object is no value
        ({"x": [{"wildcard": "a*b"}]}, {"x": "a\nb"}, True),  # a line break is a character
        ({"x": [{"cidr": "10.0.0.7/8"}]}, {"x": "10.1.2.3"}, True),  # an address within the block
    ],
    ids=repr,
)
def test_pattern_in_known_difference_answers_unlike_emulator(
    pattern: dict[str, Any], event: dict[str, Any], fits: bool
) -> None:
    """These are all differences there are; the list is wrong as soon as moto agrees."""
    emulated = answer_of_emulator(pattern, event)
    assert (EventPattern(pattern).matches(event), emulated) == (fits, not fits)


@given(fields=st.dictionaries(names, leaves, min_size=2, max_size=3), event=events)
@calmly
def test_fields_of_pattern_are_all_wanted(fields: dict[str, Any], event: dict[str, Any]) -> None:
    """A pattern with several fields is each of them, and nothing more."""
    alone = [EventPattern({name: wanted}).matches(event) for name, wanted in fields.items()]
    assert EventPattern(fields).matches(event) == all(alone)


@given(choice=st.lists(patterns, min_size=2, max_size=3), event=events)
@calmly
def test_choice_of_patterns_is_any_of_them(
    choice: list[dict[str, Any]], event: dict[str, Any]
) -> None:
    """`$or` fits exactly if one of its patterns does."""
    alone = [EventPattern(pattern).matches(event) for pattern in choice]
    assert EventPattern({"$or": choice}).matches(event) == any(alone)


@given(wanted=leaves, event=events)
@calmly
def test_values_of_field_are_alternatives(wanted: list[Any], event: dict[str, Any]) -> None:
    """A list of values fits exactly if one of them alone does."""
    alone = [EventPattern({"a": [one]}).matches(event) for one in wanted]
    assert EventPattern({"a": wanted}).matches(event) == any(alone)


@given(operand=text_operators | unwanted, value=scalars | truths)
@calmly
def test_anything_but_is_the_contrary_of_its_operand(operand: object, value: object) -> None:
    """Of one value, either the operand or anything but it is true."""
    event = {"a": value}
    is_it = EventPattern({"a": [operand]}).matches(event)
    assert EventPattern({"a": [{"anything-but": operand}]}).matches(event) is not is_it


@given(event=events)
@calmly
def test_field_either_exists_or_does_not(event: dict[str, Any]) -> None:
    """Whatever the field holds, exactly one of the two is true."""
    there, away = (EventPattern({"a": [{"exists": one}]}).matches(event) for one in (True, False))
    assert there is not away


@given(elements=st.lists(values, min_size=1, max_size=3), wanted=scalars | value_operators)
@calmly
def test_list_in_event_is_as_good_as_its_best_element(elements: list[Any], wanted: object) -> None:
    """A list fits if an element alone would."""
    pattern = EventPattern({"a": [wanted]})
    assert pattern.matches({"a": elements}) == any(pattern.matches({"a": one}) for one in elements)


def naive_wildcard(pattern: str, text: str) -> bool:
    """Try every length for the first star."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(naive_wildcard(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and text[0] == pattern[0] and naive_wildcard(pattern[1:], text[1:])


@given(pattern=wildcards, text=st.text("aAbB", max_size=8))
@calmly
def test_wildcard_answers_like_trying_everything(pattern: str, text: str) -> None:
    """Looking for the pieces one after the other finds what trying every length finds."""
    wanted = EventPattern({"a": [{"wildcard": pattern}]})
    assert wanted.matches({"a": text}) == naive_wildcard(pattern, text)
