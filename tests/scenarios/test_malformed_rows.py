"""One row that someone has damaged stops nobody else, is marked, and is named by `doctor`."""

from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, aws
from lamplighter.registry.import_problems import all_problems
from lamplighter_cli.doctor_checks import check_activity
from lamplighter_local.handlers import LambdaContext, handler_of
from tests.tools.checked_deployment import LocalDeployment

NOW = datetime(2026, 1, 5, 12, 59, 50)
START = datetime(2026, 1, 5, 12)
DAMAGE: dict[str, dict[str, Any]] = {
    "number is a text": {"max_active_runs": {"S": "many"}},
    "instant is no instant": {"next_run_after": {"S": "soon"}},
    "due time is no instant": {"next_run_create_after": {"S": "2026-01-05 noon"}},
    "set is a list": {"active": {"L": []}},
    "waiting entry is nonsense": {"waiting": {"SS": ["nonsense"]}},
    "revision is missing": {"rev": {}},
    "condition is no condition": {"asset_condition": {"S": '{"most": ["orders"]}'}},
    "condition is no JSON": {"asset_condition": {"S": "{"}},
    "timetable is no timetable": {"timetable": {"S": "[]"}},
}


def hourly(dag_id: str) -> DAG:
    """Return a DAG whose first run is due at one o'clock."""
    return DAG(dag_id, schedule="0 * * * *", start_date=START)


def damage(lamp: LocalDeployment, table: str, key: dict[str, str], values: dict[str, Any]) -> None:
    """Write attributes as someone in the console might; an empty value removes one."""
    client = aws.client("dynamodb")
    name, full_key = lamp.table_name(table), {k: {"S": v} for k, v in key.items()}
    for attribute, value in values.items():
        change = (
            {
                "UpdateExpression": "SET #a = :v",
                "ExpressionAttributeValues": {":v": value},
            }
            if value
            else {"UpdateExpression": "REMOVE #a"}
        )
        client.update_item(
            TableName=name, Key=full_key, ExpressionAttributeNames={"#a": attribute}, **change
        )


def marked(lamp: LocalDeployment, dag_id: str) -> str:
    """Return what a DAG's row says about claims that got nowhere, or about its schedule."""
    answer = aws.client("dynamodb").get_item(
        TableName=lamp.table_name("Dags"), Key={"dag_id": {"S": dag_id}}, ConsistentRead=True
    )
    item = answer["Item"]
    found: str = (item.get("claim_error") or item.get("schedule_error") or {"S": ""})["S"]
    return found


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_dag_does_not_keep_others_from_their_runs(what: str) -> None:
    """Every healthy DAG gets its run on time; the damaged one is marked."""
    healthy = [hourly(f"healthy{number}") for number in range(5)]
    with LocalDeployment([*healthy, hourly("damaged")], at=NOW) as lamp:
        damage(lamp, "Dags", {"dag_id": "damaged"}, DAMAGE[what])
        lamp.advance(minutes=5)

        assert [len(lamp.runs(dag.dag_id)) for dag in healthy] == [1] * 5
        assert marked(lamp, "damaged")


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_consumer_does_not_keep_others_from_their_events(what: str) -> None:
    """Every healthy consumer of the same asset gets its run; the damaged one is marked."""
    orders = Asset("orders")
    ids = ["damaged", *(f"healthy{number}" for number in range(5))]
    with LocalDeployment([DAG(dag_id, schedule=orders) for dag_id in ids], at=NOW) as lamp:
        damage(lamp, "Dags", {"dag_id": "damaged"}, DAMAGE[what])
        lamp.emit("orders")
        lamp.advance(minutes=5)

        assert [len(lamp.runs(dag_id)) for dag_id in ids[1:]] == [1] * 5


def test_damaged_consumer_gets_its_event_when_it_is_repaired() -> None:
    """The asset stays open for a consumer that could not be read, so that nothing is lost."""
    orders = Asset("orders")
    with LocalDeployment([DAG("dag", schedule=orders), DAG("b", schedule=orders)], at=NOW) as lamp:
        damage(lamp, "Dags", {"dag_id": "dag"}, {"max_active_runs": {"S": "many"}})
        lamp.emit("orders")
        lamp.advance(hours=2)
        damage(lamp, "Dags", {"dag_id": "dag"}, {"max_active_runs": {"N": "16"}})
        lamp.advance(minutes=30)

        assert (len(lamp.runs("dag")), len(lamp.runs("b"))) == (1, 1)
        assert marked(lamp, "dag") == ""


@pytest.mark.parametrize("values", [{"consumed_seq": {"S": "x"}}, {"since_seq": {}}])
def test_damaged_place_in_a_queue_stops_only_its_own_dag(values: dict[str, Any]) -> None:
    """A row of AssetQueue that cannot be read holds up its own consumer and nobody else."""
    orders = Asset("orders")
    with LocalDeployment([DAG("a", schedule=orders), DAG("b", schedule=orders)], at=NOW) as lamp:
        damage(lamp, "AssetQueue", {"dag_id": "a", "asset_id": "orders"}, values)
        lamp.emit("orders")
        lamp.advance(minutes=5)

        assert (len(lamp.runs("a")), len(lamp.runs("b"))) == (0, 1)
        assert marked(lamp, "a")


def test_damaged_asset_stops_only_its_own_events() -> None:
    """Events of other assets in the same batch are recorded; those of the damaged one wait."""
    dags = [DAG(name, schedule=Asset(name)) for name in ("orders", "rates")]
    with LocalDeployment(dags, at=NOW) as lamp:
        damage(lamp, "Assets", {"asset_id": "orders", "ref": "#"}, {"seq": {"S": "x"}})
        lamp.emit("orders")
        lamp.emit("rates")
        lamp.advance(minutes=5)
        assert (len(lamp.runs("orders")), len(lamp.runs("rates"))) == (0, 1)

        damage(lamp, "Assets", {"asset_id": "orders", "ref": "#"}, {"seq": {"N": "0"}})
        lamp.advance(hours=1)
        assert len(lamp.runs("orders")) == 1
        assert lamp.dead_letters() == []


def test_malformed_rows_are_counted_and_named_by_doctor() -> None:
    """The tick counts a row that cannot be read, and `doctor` names it and what is wrong."""
    with LocalDeployment([hourly("damaged"), hourly("healthy")], at=NOW) as lamp:
        damage(lamp, "Dags", {"dag_id": "damaged"}, {"max_active_runs": {"S": "many"}})
        lamp.advance(minutes=5)

        texts = [each.text for each in check_activity() if each.level == "error"]
        assert any("'damaged'" in text and "max_active_runs" in text for text in texts)


def test_push_of_a_bundle_with_a_damaged_dag_registers_the_others() -> None:
    """The damaged DAG is an import error of its file, which says what is wrong with its row."""
    with LocalDeployment([hourly("damaged"), hourly("healthy")], at=NOW) as lamp:
        damage(lamp, "Dags", {"dag_id": "damaged"}, {"max_active_runs": {"S": "many"}})
        lamp.push([hourly("damaged"), hourly("healthy"), hourly("new")])

        assert lamp.dag("new").version == "000001"
        problems = [each for each in all_problems() if each["severity"] == "error"]
        assert ["max_active_runs" in each["message"] for each in problems] == [True]


def test_runs_precomputed_for_a_timetable_are_replaced_when_they_are_damaged(
    write_bundle: Any,
) -> None:
    """Damaged rows of precomputed runs are asked for again; other DAGs do not notice."""
    text = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, Timetable

class Every(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(hours=1))

DAG("own", schedule=Every(), start_date=pendulum.datetime(2026, 1, 5, 12))
DAG("other", schedule=Every(), start_date=pendulum.datetime(2026, 1, 5, 12))
"""
    for broken in ({"runs": {"S": "{"}}, {"runs": {"S": '[{"run_after": "soon"}]'}}):
        with LocalDeployment(write_bundle({"dags/own.py": text}), at=NOW) as lamp:
            damage(lamp, "Catalog", {"kind": "runs", "id": "own"}, broken)
            lamp.advance(hours=2, minutes=10)

            assert (len(lamp.runs("own")), len(lamp.runs("other"))) == (3, 3)
            lamp.check_invariants()


def test_claim_message_is_acknowledged_only_when_its_dags_were_dealt_with() -> None:
    """A message that names a DAG which cannot be claimed is delivered again."""

    def record(name: str, body: str) -> dict[str, Any]:
        first = str(NOW.int_timestamp * 1_000)
        attributes = {"ApproximateReceiveCount": "1", "ApproximateFirstReceiveTimestamp": first}
        return {
            "messageId": name,
            "receiptHandle": name,
            "body": body,
            "attributes": attributes,
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:claims",
        }

    with LocalDeployment([hourly("damaged"), hourly("healthy")], at=NOW) as lamp:
        damage(lamp, "Dags", {"dag_id": "damaged"}, {"max_active_runs": {"S": "many"}})
        records = [
            record("one", '{"dag_ids": ["healthy"]}'),
            record("two", '{"dag_ids": ["healthy", "damaged"]}'),
            record("three", '{"dag_ids": ["gone"]}'),
        ]
        answer = handler_of("claim")({"Records": records}, LambdaContext())

        assert answer == {"batchItemFailures": [{"itemIdentifier": "two"}]}
