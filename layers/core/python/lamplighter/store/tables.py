"""Table definitions derived from the models, for CDK, emulators and tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pynamodb.attributes import TTLAttribute

from lamplighter.store.models import TABLES
from lamplighter.store.rows import Row


@dataclass(frozen=True)
class TableDefinition:
    """The arguments of `CreateTable`, and the settings to enable afterwards.

    Every table is billed per request and protected against deletion; expired rows are deleted.
    """

    name: str
    create: dict[str, Any]
    ttl_attribute: str | None
    has_point_in_time_recovery: bool = True


def table_definitions(prefix: str) -> list[TableDefinition]:
    """Return the definitions of all tables."""
    return [_definition(model, prefix + model.__name__) for model in TABLES]


def _definition(model: type[Row], name: str) -> TableDefinition:
    schema = model._get_schema()  # noqa: SLF001 - what PynamoDB itself creates tables from
    create: dict[str, Any] = {
        "TableName": name,
        "KeySchema": _by_role(schema["key_schema"]),
        "AttributeDefinitions": schema["attribute_definitions"],
        "BillingMode": "PAY_PER_REQUEST",
        "DeletionProtectionEnabled": True,
    }
    indexes = [
        {
            "IndexName": index["index_name"],
            "KeySchema": _by_role(index["key_schema"]),
            "Projection": index["projection"],
        }
        for index in schema["global_secondary_indexes"]
    ]
    if indexes:
        create["GlobalSecondaryIndexes"] = indexes
    attributes = model.get_attributes().values()
    ttl = next((item.attr_name for item in attributes if isinstance(item, TTLAttribute)), None)
    return TableDefinition(name, create, ttl)


def _by_role(keys: Sequence[Any]) -> list[Any]:
    return sorted(keys, key=lambda key: key["KeyType"])  # HASH before RANGE, as DynamoDB requires
