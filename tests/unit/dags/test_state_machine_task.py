"""Tasks that are executions of state machines: what authors may write."""

from typing import Any

import pytest

from lamplighter import DAG, StepFunctionsTask
from lamplighter.errors import DefinitionError
from lamplighter.serialization import decode_dag, encode_dag

ARN = "arn:aws:states:eu-central-1:111111111111:stateMachine:export"


def task(**options: Any) -> StepFunctionsTask:
    """Return the only task of a DAG."""
    return StepFunctionsTask("export", dag=DAG("orders", schedule=None), **options)


@pytest.mark.parametrize("named", ["export", ARN])
def test_task_comes_back_from_its_document(named: str) -> None:
    """Name or ARN, and whatever the input holds, are written down as they are."""
    given = {"days": [{"day": "{{ ds }}"}, 7, None], "is_full": True}
    made = task(state_machine=named, input=given, retries=2)
    read = decode_dag(encode_dag(made.dag)).tasks["export"]
    assert read == made
    assert read.has_templates


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "state_machine: is needed"),
        ({"state_machine": "a b"}, "neither the name of a state machine nor the ARN"),
        ({"state_machine": f"{ARN}:live"}, "neither the name of a state machine nor the ARN"),
        ({"state_machine": "m", "input": [1]}, "input: must be a mapping"),
        ({"state_machine": "m", "input": {"at": {1, 2}}}, "input: must hold JSON values only"),
        ({"state_machine": "m", "input": {"lamplighter": 1}}, "'lamplighter' is added"),
    ],
)
def test_task_that_is_wrong_is_refused(options: dict[str, Any], problem: str) -> None:
    """The error names DAG, task and option."""
    with pytest.raises(DefinitionError) as refused:
        task(**options)
    assert "DAG 'orders': task 'export': " in str(refused.value)
    assert problem in str(refused.value)
