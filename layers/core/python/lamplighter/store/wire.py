"""DynamoDB requests in wire form, for code that runs once per run.

Owns: transactions and queries of sharded indexes. Names, types and keys come from the PynamoDB
models; but PynamoDB's expressions, and botocore's serialization of a hundred nested actions, cost
several times the rest of a claim (docs/adr/0008).
"""

import base64
import json
import uuid
from collections.abc import Iterator
from typing import Any

from pendulum import DateTime

from lamplighter.store.rows import Row, connection, instant_text

Request = dict[str, Any]

_KEPT = "lamplighter.transaction"


def put(row: Row, *, may_replace: bool, unless_has: str | None) -> Request:
    """Return the action that stores a row where there is none, or which lacks `unless_has`."""
    request: Request = {"TableName": _table(row), "Item": _item(row)}
    if not may_replace:
        request |= {
            "ConditionExpression": "attribute_not_exists(#key)",
            "ExpressionAttributeNames": {"#key": unless_has or type(row).key_names()[0]},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
    return {"Put": request}


def change(row: Row, unchanged: tuple[str, ...], always: tuple[str, ...] = ()) -> Request:
    """Return the action that stores what was assigned to a row since it was read.

    It is refused unless the attributes in `unchanged` have the values that were read. Those in
    `always` are stored even if they seem unchanged.
    """
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    sets: list[str] = []
    removes: list[str] = []
    for at, (name, attribute) in enumerate(type(row).get_attributes().items()):
        before, after = row.stored.get(name), row.attribute_values.get(name)
        # Comparing instants is slow, and most are untouched.
        if (before is after or before == after) and name not in always:
            continue
        names[f"#{at}"] = name
        if after is None:
            removes.append(f"#{at}")
        else:
            values[f":{at}"] = {attribute.attr_type: attribute.serialize(after)}
            sets.append(f"#{at}=:{at}")
    conditions = []
    for name in unchanged:
        attribute = type(row).get_attributes()[name]
        names[f"#{name}"] = name
        values[f":{name}"] = {attribute.attr_type: attribute.serialize(row.stored[name])}
        conditions.append(f"#{name}=:{name}")
    expression = f"SET {','.join(sets)}" if sets else ""
    if removes:
        expression += f" REMOVE {','.join(removes)}"
    request = {
        "TableName": _table(row),
        "Key": key_of(row),
        "UpdateExpression": expression,
        "ConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    return {"Update": request}


def delete(row: Row) -> Request:
    """Return the action that deletes a row, if it exists."""
    return {"Delete": {"TableName": _table(row), "Key": key_of(row)}}


def key_of(row: Row) -> Request:
    """Return the key of a row."""
    attributes = type(row).get_attributes()
    return {name: _value(attributes[name], row.attribute_values[name]) for name in row.key_names()}


def _table(row: Row) -> str:
    return type(row).table_name()


def _item(row: Row) -> Request:
    attributes = type(row).get_attributes()
    return {
        name: _value(attributes[name], value)
        for name, value in row.attribute_values.items()
        if value is not None
    }


def _value(attribute: Any, value: Any) -> Request:
    return {attribute.attr_type: attribute.serialize(value)}


# Sending.


def transact(actions: list[Request]) -> None:
    """Send a transaction."""
    client = connection().client
    _skip_the_walk(client)
    # botocore repeats a request after a lost response; the token makes that safe.
    client.transact_write_items(TransactItems=actions, ClientRequestToken=str(uuid.uuid4()))


def _skip_the_walk(client: Any) -> None:
    """Make botocore sign and send the actions as they are: they are already in wire form."""
    events = client.meta.events
    for event, hook in _HOOKS.items():
        # With a unique id, a hook is registered only once.
        events.register(f"{event}.dynamodb.TransactWriteItems", hook, unique_id=hook.__qualname__)


def _keep_actions(params: Request, context: dict[str, Any], **_: object) -> None:
    context[_KEPT] = dict(params)
    params["TransactItems"] = []


def _write_body(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    params["body"] = json.dumps(context[_KEPT], default=_base64).encode()


_HOOKS = {"before-parameter-build": _keep_actions, "before-call": _write_body}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


# Index entries, mostly keys.


def query_shard(
    model: type[Row], index: str, names: tuple[str, str], shard: int, until: DateTime
) -> Iterator[Request]:
    """Yield the entries of one shard of an index up to an instant, oldest first."""
    return query(
        model,
        IndexName=index,
        KeyConditionExpression="#shard = :shard AND #at <= :until",
        ExpressionAttributeNames=dict(zip(("#shard", "#at"), names, strict=True)),
        ExpressionAttributeValues={
            ":shard": {"N": str(shard)},
            ":until": {"S": instant_text(until)},
        },
    )


def query(model: type[Row], **request: Any) -> Iterator[Request]:
    """Yield the items of a query, page by page."""
    client: Any = connection().client
    while True:
        answer = client.query(TableName=model.table_name(), **request)
        yield from answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
