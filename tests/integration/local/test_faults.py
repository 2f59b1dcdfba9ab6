"""Faults on purpose: what each kind does to a call, and which calls are struck."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from pynamodb.attributes import UnicodeAttribute
from pynamodb.connection import Connection
from pynamodb.exceptions import PutError, TransactWriteError
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from lamplighter.errors import RefusedError
from lamplighter_local.emulator.moto_guard import guarded_moto
from tests.tools.faults import Crash, Faults, Kind

REGION = "eu-west-1"
TABLE = "dags"


class Row(Model):
    """The same table, seen through PynamoDB."""

    class Meta:
        table_name = TABLE
        region = REGION

    id = UnicodeAttribute(hash_key=True)


@pytest.fixture(name="client")
def make_client() -> Iterator[Any]:
    """Return a client of an emulator with one table and its index `due`."""
    with guarded_moto():
        client = boto3.client("dynamodb", region_name=REGION)
        client.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"} for name in ("id", "shard", "at")
            ],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "due",
                    "KeySchema": [
                        {"AttributeName": "shard", "KeyType": "HASH"},
                        {"AttributeName": "at", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
        )
        yield client
        client.close()


def put(client: Any, name: str, at: str = "08:00") -> None:
    """Write one item that is in the index."""
    item = {"id": {"S": name}, "shard": {"S": "0"}, "at": {"S": at}}
    client.put_item(TableName=TABLE, Item=item)


def put_each(client: Any, *names: str) -> None:
    """Write several items, each with a call of its own."""
    for name in names:
        put(client, name)


def transact(client: Any, *names: str) -> None:
    """Write several items in one transaction."""
    puts = [{"Put": {"TableName": TABLE, "Item": {"id": {"S": name}}}} for name in names]
    client.transact_write_items(TransactItems=puts)


def save(connection: Connection, *names: str) -> None:
    """Write several items in one transaction of PynamoDB."""
    with TransactWrite(connection=connection) as writes:
        for name in names:
            writes.save(Row(name))


def stored(client: Any) -> set[str]:
    """Return the items that are really there."""
    items = client.scan(TableName=TABLE, ConsistentRead=True)["Items"]
    return {item["id"]["S"] for item in items}


def due(client: Any, by: str, condition: str = "shard = :shard AND #at <= :by") -> list[str]:
    """Ask the index what is due."""
    page = client.query(
        TableName=TABLE,
        IndexName="due",
        KeyConditionExpression=condition,
        ExpressionAttributeNames={"#at": "at"},
        ExpressionAttributeValues={":shard": {"S": "0"}, ":by": {"S": by}},
    )
    return [item["id"]["S"] for item in page["Items"]]


def test_crash_before_leaves_nothing_written(client: Any) -> None:
    """A process that dies before its second call has written only with the first."""
    faults = Faults()
    faults.at(2, "crash-before")
    with faults.on(client), pytest.raises(Crash):
        put_each(client, "a", "b", "c")
    assert stored(client) == {"a"}
    assert faults.calls == ["PutItem", "PutItem"]
    assert faults.injected == ["2 PutItem crash-before"]


def test_crash_after_leaves_its_call_written(client: Any) -> None:
    """A process that dies after its second call has written with both."""
    faults = Faults()
    faults.at(2, "crash-after")
    with faults.on(client), pytest.raises(Crash):
        put_each(client, "a", "b", "c")
    assert stored(client) == {"a", "b"}


def test_crash_after_a_refused_call_is_a_crash(client: Any) -> None:
    """A process that dies after its call does not learn that the call was refused."""
    faults = Faults()
    faults.at(1, "crash-after")
    with faults.on(client), pytest.raises(Crash):
        client.put_item(
            TableName=TABLE, Item={"id": {"S": "a"}}, ConditionExpression="attribute_exists(id)"
        )
    assert stored(client) == set()


def test_crash_passes_code_that_handles_every_error(client: Any) -> None:
    """Code that catches `Exception` does not survive its own death."""
    faults = Faults()
    faults.at(1, "crash-before")

    def careful() -> None:
        try:
            put(client, "a")
        except Exception as error:  # noqa: BLE001 - the subject of the test
            pytest.fail(f"handled {error!r} after death")

    with faults.on(client), pytest.raises(Crash):
        careful()


def test_lost_answer_is_a_timeout_after_the_write(client: Any) -> None:
    """A lost answer looks like a timeout, is not retried, and its write has happened."""
    faults = Faults()
    faults.at(1, "lost-answer")
    with faults.on(client), pytest.raises(ReadTimeoutError):
        put(client, "a")
    assert stored(client) == {"a"}
    assert faults.calls == ["PutItem"]


@pytest.mark.parametrize(
    ("code", "raised"),
    [(None, "ProvisionedThroughputExceededException"), ("ThrottlingException",) * 2],
)
def test_throttle_is_an_error_after_one_call(client: Any, code: str | None, raised: str) -> None:
    """A throttled call is not repeated behind the code's back, and writes nothing."""
    faults = Faults()
    faults.at(1, "throttle", code=code)
    with faults.on(client), pytest.raises(ClientError) as caught:
        put(client, "a")
    assert caught.value.response["Error"]["Code"] == raised
    assert stored(client) == set()
    assert faults.calls == ["PutItem"]


def test_throttle_of_another_service_has_its_code() -> None:
    """A service other than DynamoDB throttles with the general error code."""
    faults = Faults()
    faults.at(1, "throttle")
    with guarded_moto():
        queues = boto3.client("sqs", region_name=REGION)
        with faults.on(queues), pytest.raises(ClientError, match="ThrottlingException"):
            queues.list_queues()
        queues.close()


def test_conflict_names_the_chosen_members(client: Any) -> None:
    """A conflict cancels the transaction, and only the chosen members are to blame."""
    faults = Faults()
    faults.at(1, "conflict", members=[1])
    with (
        faults.on(client),
        pytest.raises(client.exceptions.TransactionCanceledException) as caught,
    ):
        transact(client, "a", "b", "c")
    reasons = [reason["Code"] for reason in caught.value.response["CancellationReasons"]]
    assert reasons == ["None", "TransactionConflict", "None"]
    assert stored(client) == set()


def test_conflict_of_a_single_write_has_its_own_error(client: Any) -> None:
    """A single write that meets a transaction is refused as a conflict, not as cancelled."""
    faults = Faults()
    faults.at(1, "conflict")
    with faults.on(client), pytest.raises(client.exceptions.TransactionConflictException):
        put(client, "a")


def test_conflict_planned_for_a_read_does_not_happen(client: Any) -> None:
    """A read cannot meet a conflict, and the plan stays visible as pending."""
    faults = Faults()
    faults.at(1, "conflict")
    with faults.on(client):
        assert stored(client) == set()
    assert faults.injected == []
    assert faults.pending == ["1 conflict"]


def test_stale_page_is_an_earlier_answer(client: Any) -> None:
    """An index that lags still lists what is gone, and the next look is up to date."""
    faults = Faults()
    faults.at(2, "stale", "Query")
    with faults.on(client):
        put(client, "a")
        answers = [due(client, by="09:00")]
        client.delete_item(TableName=TABLE, Key={"id": {"S": "a"}})
        answers += [due(client, by="09:00"), due(client, by="09:00")]
    assert answers == [["a"], ["a"], []]
    assert faults.pending == []


@pytest.mark.parametrize(
    ("condition", "first", "second", "is_stale"),
    [
        ("shard = :shard AND #at <= :by", "09:00", "10:00", True),
        ("shard = :shard AND #at <= :by", "09:00", "08:30", False),
        ("shard = :shard AND #at BETWEEN :shard AND :by", "09:00", "10:00", True),
        ("shard = :shard AND #at >= :by", "07:00", "07:30", False),
    ],
)
def test_stale_page_fits_the_present_question(
    client: Any, condition: str, first: str, second: str, is_stale: bool
) -> None:
    """A later upper bound is the same question; any other change of the range is a new one."""
    faults = Faults()
    faults.at(2, "stale", "Query")
    with faults.on(client):
        put(client, "a")
        due(client, first, condition)
        put(client, "b")
        answer = due(client, second, condition)
    assert answer == (["a"] if is_stale else ["a", "b"])


def test_stale_page_belongs_to_its_caller(client: Any) -> None:
    """A caller that changes the page it was given does not change what others are given."""
    faults = Faults()
    faults.probability(stale=1)
    with faults.on(client):
        put(client, "a")
        question = {
            "TableName": TABLE,
            "IndexName": "due",
            "KeyConditionExpression": "shard = :shard",
            "ExpressionAttributeValues": {":shard": {"S": "0"}},
        }
        for _look in range(3):
            page = client.query(**question)
            assert page["Items"]
            page["Items"].clear()


def test_plan_for_an_operation_counts_only_that(client: Any) -> None:
    """The first transaction is struck, whatever was called before it."""
    faults = Faults()
    faults.at(1, "crash-before", "TransactWriteItems")
    with faults.on(client):
        put(client, "a")
        with pytest.raises(Crash):
            transact(client, "b")
    assert faults.injected == ["2 TransactWriteItems crash-before"]


def test_every_call_can_be_the_one_that_crashes(client: Any) -> None:
    """A first run tells how many calls there are, and each of them can be struck in turn."""

    def work() -> None:
        put(client, "a")
        transact(client, "b", "c")
        due(client, "09:00")

    healthy = Faults()
    with healthy.on(client):
        work()
    for call in range(1, len(healthy.calls) + 1):
        faults = Faults()
        faults.at(call, "crash-after")
        with faults.on(client), pytest.raises(Crash):
            work()
        assert faults.calls == healthy.calls[:call]


@pytest.mark.parametrize("kind", ["crash-before", "crash-after"])
def test_pynamodb_meets_the_same_crash(client: Any, kind: Kind) -> None:
    """Faults on the client of a PynamoDB connection strike its models and transactions."""
    connection = Connection(region=REGION)
    faults = Faults()
    faults.at(1, kind)
    with faults.on(connection.client), pytest.raises(Crash):
        save(connection, "a")
    assert stored(client) == ({"a"} if kind == "crash-after" else set())


def test_pynamodb_reads_the_reasons_of_a_conflict(client: Any) -> None:
    """PynamoDB finds the injected reasons where it finds the service's own."""
    connection = Connection(region=REGION)
    faults = Faults()
    faults.at(1, "conflict", members=[0])
    with faults.on(connection.client), pytest.raises(TransactWriteError) as caught:
        save(connection, "a", "b")
    codes = [reason and reason.code for reason in caught.value.cancellation_reasons]
    assert codes == ["TransactionConflict", None]


def test_pynamodb_model_is_throttled_without_retry(client: Any) -> None:
    """A model's own connection takes faults too, and its retries do not hide them."""
    faults = Faults()
    faults.at(1, "throttle")
    with faults.on(Row._get_connection().connection.client), pytest.raises(PutError) as caught:
        Row("a").save()
    assert caught.value.cause_response_code == "ProvisionedThroughputExceededException"
    assert faults.calls == ["PutItem"]


def test_probability_with_a_seed_repeats_itself(client: Any) -> None:
    """The same seed strikes the same calls, about as many as the chances say."""

    def injected(seed: int) -> list[str]:
        faults = Faults(seed)
        faults.probability(crash_before=0.1, throttle=0.1)
        with faults.on(client):
            for _call in range(100):
                with suppress(ClientError, Crash):
                    stored(client)
        return faults.injected

    first = injected(seed=1)
    assert injected(seed=1) == first != injected(seed=2)
    assert 8 < len(first) < 32


def test_faults_of_many_threads_count_each_call(client: Any) -> None:
    """Calls of several threads and clients are counted together."""
    other = boto3.client("dynamodb", region_name=REGION)
    faults = Faults()
    faults.at(40, "crash-before")
    crashes = []

    def work(number: int) -> None:
        try:
            put([client, other][number % 2], str(number))
        except Crash:
            crashes.append(number)

    with faults.on(client, other), ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(80)))
    other.close()
    assert len(crashes) == 1
    assert len(faults.calls) == 80


def test_faults_end_with_their_block(client: Any) -> None:
    """After the block a client is as it was."""
    faults = Faults()
    faults.probability(crash_before=1)
    with faults.on(client), pytest.raises(Crash):
        put(client, "a")
    put(client, "b")
    assert stored(client) == {"b"}


def test_second_set_of_faults_is_refused(client: Any) -> None:
    """Two sets on one client would count each other's calls."""
    with Faults().on(client), pytest.raises(RefusedError), Faults().on(client):
        pass


def test_plan_for_call_zero_is_refused() -> None:
    """Calls are counted from 1, so a plan for call 0 would never strike."""
    with pytest.raises(RefusedError, match="counted from 1"):
        Faults().at(0, "crash-before")
