"""Params of DAGs: default, description and JSON Schema, and which values they allow.

Owns: the only use of the library `jsonschema`. It is on the machines of authors and operators, and
not in the functions: `check` and `push` have looked at a definition before a function reads it, and
whoever triggers a run has its values looked at.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, TypeAlias

from lamplighter.errors import in_short
from lamplighter.loading import json_mapping

Values: TypeAlias = Mapping[str, Any]
Schemas: TypeAlias = Mapping[str, Mapping[str, Any]]

_NOT_GIVEN: Any = object()


class Param:
    """A parameter of a DAG: `Param(5, description="days to load", type="integer", minimum=1)`.

    The other arguments are keywords of JSON Schema, or `schema=` holds all of them. Without a
    default, whoever triggers a run must give the value.
    """

    def __init__(
        self,
        default: Any = _NOT_GIVEN,  # The value of runs that give none.
        description: str | None = None,  # What it is for.
        **schema: Any,  # Keywords of JSON Schema.
    ) -> None:
        self.default = default
        self._schema = schema.get("schema", schema)
        self._described = {} if description is None else {"description": description}

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema; the description is a keyword of it."""
        return json_mapping(json_mapping(self._schema) | self._described)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Param):
            return NotImplemented
        return (self.default, self.schema) == (other.default, other.schema)

    __hash__ = object.__hash__


def defaults_of(params: Values) -> dict[str, Any]:
    """Return the defaults of params as an author wrote them; not every `Param` has one."""
    defaults = {
        name: given.default if isinstance(given, Param) else given for name, given in params.items()
    }
    return {name: value for name, value in defaults.items() if value is not _NOT_GIVEN}


def schemas_of(params: Values) -> dict[str, dict[str, Any]]:
    """Return the schemas of params as an author wrote them; a plain value has none."""
    schemas = {}
    for name, given in params.items():
        if isinstance(given, Param):
            try:
                schemas[name] = given.schema
            except TypeError as error:
                raise TypeError(f"{name!r}: its schema {error}") from error
    return json_mapping(schemas)


def join(defaults: Values, schemas: Schemas) -> dict[str, Any]:
    """Return params as an author writes them."""
    described = {
        name: Param(defaults.get(name, _NOT_GIVEN), schema=schema)
        for name, schema in schemas.items()
    }
    return {**defaults, **described}


def check_definition(defaults: Values, schemas: Schemas) -> None:
    """Raise a `ValueError` if a schema is not JSON Schema, or refuses its own default."""
    # A bundle may bring an old `jsonschema` of its own, which had no `referencing` yet.
    if not schemas or not all(map(find_spec, ("jsonschema", "referencing"))):
        return
    for name, schema in schemas.items():
        default = [defaults[name]] if name in defaults else []
        problem = _problem(schema, default, "its default: ")
        if problem is not None:
            raise ValueError(f"{name!r}: {problem}")


def check_values(values: Values, schemas: Schemas) -> None:
    """Raise a `ValueError` if a param is missing among the values of a run, or is not allowed."""
    for name, schema in schemas.items():
        if name not in values:
            raise ValueError(f"{name!r} has no default: give it a value in conf")
        problem = _problem(schema, [values[name]])
        if problem is not None:
            raise ValueError(f"{name!r}: {problem}")


def _problem(schema: Mapping[str, Any], values: Sequence[Any], what: str = "") -> str | None:
    """Return what is wrong with a schema or with values, in one line."""
    # Only here: most params need no schema, and functions do not have the library.
    import jsonschema  # type: ignore[import-untyped] # noqa: PLC0415 - it ships no types
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    # An empty registry: a schema is never fetched from the network.
    validator = kind(schema, registry=Registry(), format_checker=jsonschema.FormatChecker())
    try:
        kind.check_schema(schema)
        found = (error for value in values for error in validator.iter_errors(value))
        error = jsonschema.exceptions.best_match(found)
    except jsonschema.SchemaError as wrong:
        return _in_one_line(wrong, "its schema is not JSON Schema: ")
    except (Unresolvable, RecursionError) as wrong:
        return f"its schema refers to what is not there, or to itself: {wrong}"
    return None if error is None else _in_one_line(error, what)


def _in_one_line(error: Any, what: str) -> str:
    where = f"{error.json_path[2:]}: " if error.path else ""
    return in_short(" ".join(f"{what}{where}{error.message}".split()))
