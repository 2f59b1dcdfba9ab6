"""Calls that go to moto directly: the same answers, the same errors and the same items as by HTTP.

Both ways get the same calls in the same order, one in moto as it is installed.
"""

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from lamplighter_local.emulator.moto_guard import guarded_moto

REGION = "us-east-1"
Call = tuple[str, str, dict[str, Any]]
# Made anew in each emulator.
CHANCE = {"MessageId", "ReceiptHandle", "SequenceNumber", "SentTimestamp"}
CHANCE |= {"ApproximateFirstReceiveTimestamp", "ResponseMetadata", "SenderId"}


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)


def outcomes(emulator: Callable[[], AbstractContextManager[Any]], calls: list[Call]) -> list[Any]:
    """Return what becomes of calls, and at the end all that is stored."""
    with emulator():
        clients = {name: boto3.client(name) for name in ("dynamodb", "sqs")}
        create(clients)
        told = [outcome(clients[service], name, request) for service, name, request in calls]
        tables = [{"TableName": table} for table in ("plain", "ranged")]
        return [*told, *(outcome(clients["dynamodb"], "scan", table) for table in tables)]


def create(clients: dict[str, Any]) -> None:
    """Make two tables, one with a range key and an index, and two queues."""
    for table, keys in (("plain", ["id"]), ("ranged", ["id", "part"])):
        kinds = list(zip(keys, ["HASH", "RANGE"], strict=False))
        index = {
            "IndexName": "by_shard",
            "KeySchema": [
                {"AttributeName": "shard", "KeyType": "HASH"},
                {"AttributeName": "at", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
        types = {"id": "S", "part": "S", "shard": "N", "at": "S"}
        used = [*keys, "shard", "at"]
        clients["dynamodb"].create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": types[name]} for name in used
            ],
            KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in kinds],
            GlobalSecondaryIndexes=[index],
        )
    clients["sqs"].create_queue(QueueName="queue")
    clients["sqs"].create_queue(QueueName="lanes.fifo", Attributes={"FifoQueue": "true"})


def outcome(client: Any, operation: str, request: dict[str, Any]) -> Any:
    """Return an answer without what is different each time, or what there is of an error."""
    before = copy.deepcopy(request)
    try:
        answer = getattr(client, operation)(**request)
    except ClientError as error:
        details = {k: v for k, v in error.response.items() if k != "ResponseMetadata"}
        return type(error).__name__, str(error), details
    except Exception as error:  # noqa: BLE001 - moto raises whatever it likes where AWS would refuse
        return type(error).__name__, str(error)
    finally:
        assert request == before
    return settled(answer)


def settled(value: Any) -> Any:
    """Return a value without what is different each time, and sets without their order."""
    if isinstance(value, dict):
        kept = {k: settled(v) for k, v in value.items() if k not in CHANCE}
        for kind in ("SS", "NS", "BS"):
            if isinstance(kept.get(kind), list):
                kept[kind] = sorted(kept[kind])
        return kept
    return [settled(item) for item in value] if isinstance(value, list) else value


def require_alike(calls: list[Call]) -> list[Any]:
    """Check that calls have the same outcomes both ways, and return them."""
    direct = outcomes(guarded_moto, calls)
    for call, one, other in zip(
        [*calls, "scan of plain", "scan of ranged"],
        outcomes(mock_aws, calls),
        direct,
        strict=True,
    ):
        assert other == one, call
    return direct


def item(**values: Any) -> dict[str, Any]:
    """Return an item of plain texts, or of values that have their type already."""
    return {k: v if isinstance(v, dict) else {"S": v} for k, v in values.items()}


def put(table: str = "plain", **values: Any) -> Call:
    """Return a call that puts an item."""
    return "dynamodb", "put_item", {"TableName": table, "Item": item(**values)}


def update(expression: str, key: str = "a", **more: Any) -> Call:
    """Return a call that updates an item of `plain`, with names and values that it may use."""
    request: dict[str, Any] = {"TableName": "plain", "Key": item(id=key), **more}
    if expression:
        request["UpdateExpression"] = expression
    return "dynamodb", "update_item", request


def sets(values: dict[str, Any], removes: tuple[str, ...] = (), **more: Any) -> Call:
    """Return a plain update, as PynamoDB writes it."""
    names = {f"#{number}": name for number, name in enumerate([*values, *removes])}
    pairs = [f"#{number} = :{number}" for number in range(len(values))]
    gone = [f"#{number + len(values)}" for number in range(len(removes))]
    expression = f"SET {', '.join(pairs)}" if pairs else ""
    expression += f" REMOVE {', '.join(gone)}" if gone else ""
    more.setdefault("ExpressionAttributeNames", names)
    if values:
        typed = item(**values)
        numbered = {f":{number}": value for number, value in enumerate(typed.values())}
        more.setdefault("ExpressionAttributeValues", numbered)
    return update(expression, **more)


ALL_KINDS: dict[str, Any] = {
    "binary": {"B": b"\x00\xff"},
    "number": {"N": "12.50"},
    "yes": {"BOOL": True},
    "nothing": {"NULL": True},
    "texts": {"SS": ["b", "a"]},
    "numbers": {"NS": ["2", "1"]},
    "bytes": {"BS": [b"2", b"1"]},
    "list": {"L": [{"S": "x"}, {"M": {"y": {"B": b"z"}}}]},
    "map": {"M": {"deep": {"M": {"er": {"N": "1"}}}}},
    "empty": {"S": ""},
}


def test_items_of_all_kinds_are_stored_and_read_alike() -> None:
    """Binary values, sets and nested values survive, in every operation that reads."""
    require_alike(
        [
            put(id="a", **ALL_KINDS),
            ("dynamodb", "get_item", {"TableName": "plain", "Key": item(id="a")}),
            ("dynamodb", "get_item", {"TableName": "plain", "Key": item(id="none")}),
            ("dynamodb", "get_item", {"TableName": "gone", "Key": item(id="a")}),
            ("dynamodb", "get_item", {"TableName": "ranged", "Key": item(id="a")}),
            (
                "dynamodb",
                "get_item",
                {
                    "TableName": "plain",
                    "Key": item(id="a"),
                    "ProjectionExpression": "#m.deep, texts",
                    "ExpressionAttributeNames": {"#m": "map"},
                },
            ),
            (
                "dynamodb",
                "batch_get_item",
                {"RequestItems": {"plain": {"Keys": [item(id="a"), item(id="b")]}}},
            ),
            (
                "dynamodb",
                "batch_get_item",
                {"RequestItems": {"plain": {"Keys": [item(id="a"), item(id="a")]}}},
            ),
            put(id={"N": "1"}),
            put(id=""),
            put(other="a"),
            put(id="a", shard="no number"),
            put(id="big", text="x" * 410_000),
            ("dynamodb", "put_item", {"TableName": "plain"}),
            ("dynamodb", "put_item", {"TableName": "plain", "Item": {"id": "bare"}}),
        ]
    )


def test_conditions_fail_alike_and_tell_the_old_item() -> None:
    """A condition that does not hold changes nothing; the item comes back where it was asked."""
    old: dict[str, Any] = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    condition = {
        "ConditionExpression": "attribute_not_exists(id) OR rev = :rev",
        "ExpressionAttributeValues": {":rev": {"N": "7"}},
    }
    new = item(id="a", rev={"N": "2"}, **ALL_KINDS)
    require_alike(
        [
            put(id="a", rev={"N": "1"}, data={"B": b"\x01"}),
            ("dynamodb", "put_item", {"TableName": "plain", "Item": new, **condition}),
            ("dynamodb", "put_item", {"TableName": "plain", "Item": new, **condition, **old}),
            sets({"x": "1"}, ConditionExpression="attribute_not_exists(id)", **old),
            sets({"x": "1"}, ConditionExpression="size(id) > nonsense(", **old),
            sets({"x": "1"}, key="new", ConditionExpression="attribute_exists(id)", **old),
            sets({"x": "1"}, key="new", ConditionExpression="attribute_not_exists(id)"),
        ]
    )


def test_transactions_are_cancelled_alike_with_reasons_and_old_items() -> None:
    """Each action has its reason, those that failed the item, and nothing is left of the rest."""
    old: dict[str, Any] = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    fresh = {"ConditionExpression": "attribute_not_exists(id)"}

    def transact(*actions: dict[str, Any], **more: Any) -> Call:
        return "dynamodb", "transact_write_items", {"TransactItems": list(actions), **more}

    def putting(key: str, **more: Any) -> dict[str, Any]:
        return {"Put": {"TableName": "plain", "Item": item(id=key, n=key), **more}}

    plain = {
        "TableName": "plain",
        "Key": item(id="a"),
        "UpdateExpression": "SET #x = :x REMOVE #y",
        "ExpressionAttributeNames": {"#x": "x", "#y": "y"},
        "ExpressionAttributeValues": {":x": {"B": b"1"}},
    }
    checked = {"TableName": "plain", "Key": item(id="a"), **fresh}
    require_alike(
        [
            put(id="a", y={"SS": ["1"]}),
            transact(putting("b"), putting("a", **fresh, **old), putting("c", **fresh, **old)),
            transact({"Update": plain}, putting("d", **fresh)),
            transact({"Update": {**plain, **fresh, **old}}, putting("e")),
            transact({"ConditionCheck": {**checked, **old}}, putting("f")),
            transact({"Delete": {**checked, **old}}, putting("g")),
            transact({"Delete": {"TableName": "plain", "Key": item(id="d")}}),
            transact(putting("h"), putting("h")),
            transact({"Update": plain}, {"ConditionCheck": checked}),
            transact({"Put": {"TableName": "gone", "Item": item(id="a")}}),
            transact(*[putting(f"many{number}") for number in range(101)]),
            transact(putting("i"), ClientRequestToken="token"),
            transact({}),
        ]
    )


def test_updates_do_the_same_and_return_the_same() -> None:
    """Plain ones, which take the short way, those that only look plain, and all others."""
    values: dict[str, Any] = {"ExpressionAttributeValues": {":v": {"S": "v"}}}
    names: dict[str, Any] = {"ExpressionAttributeNames": {"#n": "n"}}
    calls = [
        sets({"x": "1", **ALL_KINDS}),
        *(
            sets({"x": str(number), "n": {"N": str(number)}}, ("yes",), ReturnValues=kind)
            for number, kind in enumerate(
                ("NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW", "SOME")
            )
        ),
        sets({}, ("x", "never_there"), ReturnValues="ALL_NEW"),
        sets({}, ("never_there",), key="made_of_nothing"),
        sets({"id": "b"}),
        sets({"shard": {"N": "1"}, "at": "2026"}),
        sets({"shard": "1"}),
        sets({"at": ""}),
        sets({"at": {"N": "1"}}),
        sets({}, ("shard", "at")),
        sets({"n": {"N": "abc"}}),
        sets({"n": {"SS": []}}),
        sets({"n": {"SS": ["1", "1"]}}),
        sets({"n": {"N": "0012.500"}}, ReturnValues="ALL_NEW"),
        sets({"n": "x" * 410_000}),
        update("SET #n = :v", **names, **values),
        update("set #n = :v remove other", **names, **values),
        update("SET #n=:v", **names, **values),
        update("SET #n = :v", **values),
        update("SET #n = :v", **names),
        update("SET #n = :v, #n = :v", **names, **values),
        update("SET #n = :v REMOVE #n", **names, **values),
        update("REMOVE #n SET x = :v", **names, **values),
        update("SET n = :v, #n = :v", **names, **values),
        update("SET list = :v", **values),
        update("SET #n.deep = :v", **names, **values),
        update("SET #m.deep.er = :v", **values, ExpressionAttributeNames={"#m": "map"}),
        update("SET #n = if_not_exists(missing, :v)", **names, **values),
        update("SET #n = list_append(#l, :l)", ExpressionAttributeNames={"#n": "n", "#l": "list"},
               ExpressionAttributeValues={":l": {"L": [{"S": "y"}]}}),
        update("SET c = c + :v", ExpressionAttributeValues={":v": {"N": "1"}}),
        update("ADD c :v", ExpressionAttributeValues={":v": {"N": "1"}}, ReturnValues="ALL_NEW"),
        update("ADD texts :v", ExpressionAttributeValues={":v": {"SS": ["c"]}}),
        update("DELETE texts :v", ExpressionAttributeValues={":v": {"SS": ["a", "b", "c"]}}),
        update("SET #n = :v", ExpressionAttributeNames={"#n": "n", "#o": "o"}, **values),
        update("SET #n = :v", **names, ExpressionAttributeValues=item(**{":v": "", ":w": ""})),
        update("SETT #n = :v", **names, **values),
        update("SET ", **names),
        update("", key="only_a_key"),
        update("SET #n = :v", key="fresh", ReturnValues="ALL_NEW", **names, **values),
        ("dynamodb", "update_item", {"TableName": "ranged", "Key": item(id="a")}),
    ]  # fmt: skip
    require_alike(calls)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 20))]
)
def test_random_updates_leave_the_same_items(seed: int) -> None:
    """Sequences of sets, removals and conditions on few items and names end in the same tables."""
    chance = random.Random(seed)
    attributes = ["n", "x", "shard", "at", "map"]

    def value() -> Any:
        return chance.choice(
            [{"S": "t"}, {"S": ""}, {"N": "1"}, {"N": "2.0"}, {"B": b"b"}, {"NULL": True}]
        )

    def call() -> Call:
        chosen = chance.sample(attributes, chance.randint(0, 3))
        removed = tuple(chance.sample(attributes, chance.randint(0 if chosen else 1, 2)))
        more: dict[str, Any] = {"key": chance.choice("abc")}
        more["ReturnValues"] = chance.choice(["NONE", "ALL_OLD", "ALL_NEW", "UPDATED_NEW"])
        if chance.random() < 0.3:
            more["ConditionExpression"] = chance.choice(
                ["attribute_exists(x)", "attribute_not_exists(shard)"]
            )
        return sets({name: value() for name in chosen}, removed, **more)

    require_alike([call() for _ in range(60)])


def test_pages_of_queries_and_scans_are_cut_alike() -> None:
    """Limits, the key to go on from, filters, order, counts and indexes."""
    calls: list[Call] = [
        put("ranged", id="a" if number % 3 else "b", part=f"{number:02}",
            shard={"N": str(number % 2)}, at=f"2026-{number:02}")
        for number in range(12)
    ]  # fmt: skip
    key = {"KeyConditionExpression": "id = :id", "ExpressionAttributeValues": {":id": {"S": "a"}}}
    by_shard: dict[str, Any] = {
        "IndexName": "by_shard",
        "KeyConditionExpression": "shard = :s AND #at <= :at",
        "ExpressionAttributeNames": {"#at": "at"},
        "ExpressionAttributeValues": {":s": {"N": "1"}, ":at": {"S": "2026-09"}},
    }
    last = {"ExclusiveStartKey": item(id="a", part="04")}
    queries: tuple[dict[str, Any], ...] = (
        key,
        {**key, "Limit": 3},
        {**key, "Limit": 3, **last},
        {**key, "Limit": 100, "ScanIndexForward": False},
        {**key, "Select": "COUNT"},
        {**key, "FilterExpression": "part > :id", "Limit": 2},
        {**key, "ConsistentRead": True, "ProjectionExpression": "part"},
        {
            "KeyConditionExpression": "id = :id AND begins_with(part, :p)",
            "ExpressionAttributeValues": {":id": {"S": "a"}, ":p": {"S": "1"}},
        },
        by_shard,
        {**by_shard, "Limit": 2},
        {
            **by_shard,
            "Limit": 2,
            "ExclusiveStartKey": item(id="b", part="03", shard={"N": "1"}, at="2026-03"),
        },
        {**by_shard, "ConsistentRead": True},
        {**by_shard, "IndexName": "no_such"},
        {**key, "Limit": 0},
        {"KeyConditionExpression": "part = :id", "ExpressionAttributeValues": {":id": {"S": "a"}}},
    )
    scans: tuple[dict[str, Any], ...] = (
        {"Limit": 5},
        {"Limit": 5, **last},
        {"FilterExpression": "shard = :s", "ExpressionAttributeValues": {":s": {"N": "1"}}},
        {"TotalSegments": 2, "Segment": 1},
        {"IndexName": "by_shard", "Limit": 4},
    )
    for operation, questions in (("query", queries), ("scan", scans)):
        calls += [("dynamodb", operation, {"TableName": "ranged", **asked}) for asked in questions]
    require_alike(calls)


QUEUE = f"https://sqs.{REGION}.amazonaws.com/123456789012/queue"
LANES = f"https://sqs.{REGION}.amazonaws.com/123456789012/lanes.fifo"


def test_messages_are_sent_and_received_alike() -> None:
    """Attributes, delays, lanes, duplicates, and everything that the service refuses."""
    attribute = {"kind": {"DataType": "String", "StringValue": "x"}}
    binary = {"raw": {"DataType": "Binary", "BinaryValue": b"\x00\x01"}}
    receive = {
        "MaxNumberOfMessages": 10, "AttributeNames": ["All"], "MessageAttributeNames": ["All"],
    }  # fmt: skip

    def send(**more: Any) -> Call:
        return "sqs", "send_message", {"QueueUrl": QUEUE, "MessageBody": "body", **more}

    def lane(**more: Any) -> Call:
        return "sqs", "send_message", {"QueueUrl": LANES, "MessageBody": "body", **more}

    def batch(*entries: dict[str, Any], url: str = QUEUE) -> Call:
        return "sqs", "send_message_batch", {"QueueUrl": url, "Entries": list(entries)}

    require_alike(
        [
            send(),
            send(MessageAttributes=attribute),
            send(MessageAttributes=binary),
            send(DelaySeconds=900),
            send(DelaySeconds=901),
            send(DelaySeconds=-1),
            send(MessageBody=""),
            send(MessageBody="x" * 1_100_000),
            send(MessageBody="\x01"),
            send(QueueUrl=f"{QUEUE}-gone"),
            send(MessageGroupId="lane"),
            ("sqs", "receive_message", {"QueueUrl": QUEUE, **receive}),
            ("sqs", "receive_message", {"QueueUrl": QUEUE, **receive}),
            ("sqs", "receive_message", {"QueueUrl": QUEUE, "MaxNumberOfMessages": 11}),
            ("sqs", "receive_message", {"QueueUrl": f"{QUEUE}-gone"}),
            ("sqs", "delete_message", {"QueueUrl": QUEUE, "ReceiptHandle": "nonsense"}),
            batch({"Id": "1", "MessageBody": "a"}, {"Id": "2", "MessageBody": "b"}),
            batch({"Id": "1", "MessageBody": "a", "DelaySeconds": 30, "MessageAttributes": binary}),
            batch({"Id": "1", "MessageBody": "a"}, {"Id": "1", "MessageBody": "b"}),
            batch(*({"Id": str(number), "MessageBody": "a"} for number in range(11))),
            batch({"Id": "1", "MessageBody": ""}, {"Id": "2", "MessageBody": "b"}),
            batch({"Id": "with space", "MessageBody": "a"}),
            batch(),
            batch({"Id": "1", "MessageBody": "a"}, url=LANES),
            lane(),
            lane(MessageGroupId="one"),
            lane(MessageGroupId="one", MessageDeduplicationId="1"),
            lane(MessageGroupId="one", MessageDeduplicationId="1"),
            lane(MessageGroupId="one", MessageDeduplicationId="2"),
            lane(MessageGroupId="two", MessageDeduplicationId="3"),
            lane(MessageGroupId="two", MessageDeduplicationId="4", DelaySeconds=5),
            ("sqs", "receive_message", {"QueueUrl": LANES, "MaxNumberOfMessages": 1}),
            ("sqs", "receive_message", {"QueueUrl": LANES, **receive}),
            ("sqs", "receive_message", {"QueueUrl": QUEUE, **receive}),
        ]
    )


@pytest.fixture(name="clients")
def make_clients() -> Iterator[dict[str, Any]]:
    """Return clients of an emulator that is called directly."""
    with guarded_moto():
        clients = {name: boto3.client(name) for name in ("dynamodb", "sqs")}
        create(clients)
        yield clients


def test_arguments_and_answers_belong_to_the_caller(clients: dict[str, Any]) -> None:
    """Whatever is changed in them after the call, what is stored stays as it is."""
    dynamodb, key = clients["dynamodb"], {"id": {"S": "a"}}
    given = item(id="a", **copy.deepcopy(ALL_KINDS))
    dynamodb.put_item(TableName="plain", Item=given)
    given["map"]["M"]["deep"]["M"]["er"]["N"] = "2"
    given["texts"]["SS"].append("c")
    values = {":v": {"L": [{"S": "set"}]}}
    dynamodb.update_item(
        TableName="plain",
        Key=key,
        UpdateExpression="SET #s = :v",
        ExpressionAttributeNames={"#s": "later"},
        ExpressionAttributeValues=values,
    )
    values[":v"]["L"].append({"S": "added"})
    batch = {"plain": {"Keys": [key]}}
    nothing = {"UpdateExpression": "REMOVE never_there", "ReturnValues": "ALL_NEW"}
    reads: tuple[Callable[[], Any], ...] = (
        lambda: dynamodb.get_item(TableName="plain", Key=key)["Item"],
        lambda: dynamodb.scan(TableName="plain")["Items"][0],
        lambda: dynamodb.update_item(TableName="plain", Key=key, **nothing)["Attributes"],
        lambda: dynamodb.batch_get_item(RequestItems=batch)["Responses"]["plain"][0],
    )
    for read in (*reads, *reads):
        found = read()
        assert found["map"] == {"M": {"deep": {"M": {"er": {"N": "1"}}}}}
        assert sorted(found["texts"]["SS"]) == ["a", "b"]
        assert found["later"] == {"L": [{"S": "set"}]}
        found["map"]["M"]["deep"]["M"].clear()
        found["later"]["L"].clear()
        found["texts"]["SS"].clear()


def test_received_messages_are_deleted_by_their_handles(clients: dict[str, Any]) -> None:
    """A handle is good for its own message, and what was deleted does not come again."""
    sqs = clients["sqs"]
    sqs.send_message(QueueUrl=QUEUE, MessageBody="one")
    sqs.send_message(QueueUrl=QUEUE, MessageBody="two")
    first = sqs.receive_message(QueueUrl=QUEUE, MaxNumberOfMessages=1, VisibilityTimeout=0)
    (message,) = first["Messages"]
    sqs.delete_message(QueueUrl=QUEUE, ReceiptHandle=message["ReceiptHandle"])
    left = sqs.receive_message(QueueUrl=QUEUE, MaxNumberOfMessages=10).get("Messages", [])
    assert sorted([message["Body"], *(each["Body"] for each in left)]) == ["one", "two"]


def test_objects_are_put_and_got_alike() -> None:
    """An object has the same content and tag both ways; one that is missing is refused alike."""

    def told(emulate: Callable[[], AbstractContextManager[Any]]) -> list[Any]:
        with emulate():
            s3 = boto3.client("s3", region_name=REGION)
            s3.create_bucket(Bucket="bucket")
            tag = s3.put_object(Bucket="bucket", Key="a/b", Body=b"text")["ETag"]
            got = s3.get_object(Bucket="bucket", Key="a/b")
            found = [tag, got["ETag"], got["ContentLength"]]
            found += [got["Body"].read(2), got["Body"].read()]
            for bucket, key in (("bucket", "none"), ("none", "a/b")):
                with pytest.raises(ClientError) as refused:
                    s3.get_object(Bucket=bucket, Key=key)
                error = refused.value
                found += [type(error).__name__, str(error), error.response["Error"]["Code"]]
            return found

    assert told(guarded_moto) == told(mock_aws)
