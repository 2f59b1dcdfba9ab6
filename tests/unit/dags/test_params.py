"""Params: defaults, schemas, and what they refuse at the definition and in a run."""

import sys
from typing import Any

import pytest

from lamplighter import DAG, Asset, Param, SparkTask
from lamplighter.dags import params
from lamplighter.dags.params import check_values
from lamplighter.errors import DefinitionError
from lamplighter.serialization import decode_dag, encode_dag


def defined(**options: Any) -> DAG:
    """Return a DAG that has been written down and read back."""
    return decode_dag(encode_dag(DAG("d", **options)))


def test_params_of_a_dag_are_the_plain_defaults() -> None:
    """Templates and jobs see values; the schemas are beside them, and survive the document."""
    dag = defined(
        params={
            "days": Param(5, description="to load", type="integer", minimum=1),
            "plain": [1],
            "day": Param(type="string", format="date"),
            "nothing": Param(None, type=["null", "string"]),
            "free": Param(1.5),
        }
    )
    assert dag.params == {"days": 5, "plain": [1], "nothing": None, "free": 1.5}
    assert dag.param_schemas == {
        "days": {"type": "integer", "minimum": 1, "description": "to load"},
        "day": {"type": "string", "format": "date"},
        "nothing": {"type": ["null", "string"]},
        "free": {},
    }


@pytest.mark.parametrize("given", [Param(), Param(1), 1])
def test_name_of_a_param_is_a_text(given: object) -> None:
    """As of everything that is JSON."""
    names: Any = {1: given}
    with pytest.raises(DefinitionError, match="DAG 'd': params: must hold JSON values only"):
        DAG("d", params=names)


def test_schema_may_be_given_as_one() -> None:
    """As in Airflow: the keywords, or all of them in `schema`."""
    assert Param(1, schema={"type": "integer"}) == Param(1, type="integer")
    assert Param(1, "why", schema={"type": "integer"}) == Param(
        1, type="integer", description="why"
    )
    assert Param(1) != Param(2)
    assert Param(1) != 1


def test_param_of_default_args_is_one_of_the_dag() -> None:
    """The DAG's own wins, with or without a schema."""
    defaults = {"params": {"a": Param(1, type="integer"), "b": Param(2, type="integer")}}
    dag = defined(default_args=defaults, params={"b": "text"})
    assert (dag.params, dag.param_schemas) == ({"a": 1, "b": "text"}, {"a": {"type": "integer"}})


def test_equality_of_dags_sees_schemas() -> None:
    """A changed schema is a changed DAG."""
    made = [DAG("d", params={"a": given}) for given in (Param(1), Param(1, minimum=0))]
    assert made[0] != made[1]
    assert encode_dag(made[0]) != encode_dag(made[1])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Param("many", type="integer"), "'a': its default: 'many' is not of type 'integer'"),
        (Param(0, type="integer", minimum=1), "its default: 0 is less than the minimum of 1"),
        (Param("x", enum=["a", "b"]), "'x' is not one of"),
        (Param("2026-02-30", format="date"), "'2026-02-30' is not a 'date'"),
        (Param({"b": [1, "x"]}, properties={"b": {"items": {"type": "integer"}}}), r"b\[1\]: 'x'"),
        (Param(1, type="int"), "its schema is not JSON Schema: type: 'int'"),
        (Param("x", pattern="["), "its schema is not JSON Schema: pattern: "),
        (Param(1, description=5), "its schema is not JSON Schema: description: 5"),  # type: ignore[arg-type] # is the point
        (Param(1, type={1}), "'a': its schema must hold JSON values only"),
        (Param(1, schema=5), "'a': its schema must be a mapping, not 5"),
        (Param({1}), "must hold JSON values only"),
        (Param(1, **{"$ref": "#"}), "refers to what is not there, or to itself"),
        (Param(1, **{"$ref": "#/$defs/b"}), "refers to what is not there"),
        (Param({"a\nb": 1}, properties={"a\nb": {"type": "string"}}), "is not of type 'string'"),
        (Param(1, **{"$ref": "https://example.com/schema"}), "refers to what is not there"),
    ],
)
def test_definition_that_is_wrong_names_dag_and_param(given: Param, words: str) -> None:
    """One line; and nothing is fetched from anywhere, which this test could not do."""
    with pytest.raises(DefinitionError, match=words) as caught:
        encode_dag(DAG("d", params={"a": given}))
    assert str(caught.value).startswith("DAG 'd': params: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("schedule", ["@once", "@continuous", "0 * * * *", Asset("a")])
def test_param_without_default_needs_someone_who_gives_it(schedule: Any) -> None:
    """A schedule that creates runs by itself has nobody."""
    dag = DAG(
        "d",
        schedule=schedule,
        catchup=False,
        max_active_runs=1,
        params={"day": Param(type="string")},
    )
    with pytest.raises(DefinitionError, match=r"'day' has no default, and schedule '.+' creates"):
        encode_dag(dag)


def test_definition_is_left_to_others_where_the_library_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a function, which ships without it, what `check` has looked at is taken as it is."""
    with monkeypatch.context() as patched:
        for name in [name for name in sys.modules if name.partition(".")[0] == "jsonschema"]:
            patched.delitem(sys.modules, name)
        patched.setattr(sys, "path", [])
        assert defined(params={"a": Param("x", type="integer")}).params == {"a": "x"}


def test_library_is_not_imported_without_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it who does not use it."""
    monkeypatch.setattr(params, "_problem", pytest.fail)
    check_values({"a": 1}, {})
    assert defined(params={"a": 1}).params == {"a": 1}


SCHEMAS: dict[str, dict[str, Any]] = {
    "days": {"type": "integer", "minimum": 1},
    "day": {"type": "string"},
}


def test_values_that_match_are_let_through() -> None:
    """Others beside them too: a conf may say more than there are params."""
    check_values({"days": 3, "day": "2026-01-01", "more": object()}, SCHEMAS)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"days": 1}, "'day' has no default: give it a value in conf"),
        ({"days": 0, "day": ""}, "'days': 0 is less than the minimum of 1"),
        ({"days": None, "day": ""}, "'days': None is not of type 'integer'"),
        ({"days": "x" * 5_000, "day": ""}, "'days': 'xxxx"),
    ],
)
def test_values_that_do_not_match_are_named(values: dict[str, Any], words: str) -> None:
    """With the param and the reason, in short."""
    with pytest.raises(ValueError, match=words) as caught:
        check_values(values, SCHEMAS)
    assert len(str(caught.value)) < 1_100


@pytest.mark.parametrize("schema", [{"type": "int"}, {"$ref": "#"}, {"pattern": "["}])
def test_stored_schema_that_is_none_is_named_when_a_run_is_triggered(schema: Any) -> None:
    """It may have been pushed from where nobody looked at it."""
    with pytest.raises(ValueError, match="'days': its schema "):
        check_values({"days": "x"}, {"days": schema})


def test_template_of_a_param_without_default_is_not_tried() -> None:
    """Only a run has its value; a name that does not exist is still an error."""
    with DAG("d", params={"day": Param(type="string")}) as dag:
        SparkTask("a", job="jobs.a:run", arguments=["{{ params.day }}"])
    assert dag.try_templates() == []
    dag.check_limits()
