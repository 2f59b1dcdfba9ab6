"""The quick check of arguments says of each what botocore's own says."""

from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from lamplighter_local.emulator.valid_arguments import ValidArguments

_KEY = {"TableName": "t", "Key": {"a": {"S": "x"}}}
_QUEUE = {"QueueUrl": "https://sqs.us-east-1.amazonaws.com/1/q"}
ARGUMENTS: tuple[tuple[str, str, Any], ...] = (
    ("dynamodb", "GetItem", _KEY),
    ("dynamodb", "GetItem", {**_KEY, "ConsistentRead": True}),
    ("dynamodb", "GetItem", {**_KEY, "ConsistentRead": "yes"}),
    ("dynamodb", "GetItem", {**_KEY, "Consistent": True}),
    ("dynamodb", "GetItem", {"TableName": "t"}),
    ("dynamodb", "GetItem", {**_KEY, "TableName": ""}),
    ("dynamodb", "GetItem", {**_KEY, "TableName": 5}),
    ("dynamodb", "GetItem", {**_KEY, "AttributesToGet": []}),
    ("dynamodb", "GetItem", [_KEY]),
    ("dynamodb", "GetItem", {**_KEY, "Key": {"a": {"S": 5}}}),
    ("dynamodb", "GetItem", {**_KEY, "Key": {5: {"S": "x"}}}),
    ("dynamodb", "PutItem", {"TableName": "t", "Item": {"a": {"M": {"b": {"L": [{"N": "1"}]}}}}}),
    ("dynamodb", "PutItem", {"TableName": "t", "Item": {"a": {"M": {"b": {"L": [{"N": 1}]}}}}}),
    ("dynamodb", "PutItem", {"TableName": "t", "Item": {"a": {"M": {"b": {"L": {"N": "1"}}}}}}),
    ("dynamodb", "PutItem", {"TableName": "t", "Item": {"a": {"B": b"x"}, "b": {"SS": ("x",)}}}),
    ("dynamodb", "PutItem", {"TableName": "t", "Item": {"a": {"B": 5}}}),
    ("dynamodb", "Query", {"TableName": "t", "Limit": 1}),
    ("dynamodb", "Query", {"TableName": "t", "Limit": 0}),
    ("dynamodb", "Query", {"TableName": "t", "Limit": 1.5}),
    ("dynamodb", "TransactWriteItems", {"TransactItems": []}),
    ("dynamodb", "TransactWriteItems", {"TransactItems": [{"Delete": _KEY}]}),
    ("dynamodb", "TransactWriteItems", {"TransactItems": [{"Remove": _KEY}]}),
    ("sqs", "SendMessage", {**_QUEUE, "MessageBody": "x", "DelaySeconds": 3}),
    ("sqs", "SendMessage", {**_QUEUE, "MessageBody": None}),
    ("sqs", "CreateQueue", {"QueueName": "q", "Attributes": {"FifoQueue": "true"}}),
    ("sqs", "CreateQueue", {"QueueName": "q", "Attributes": {"FifoQueue": True}}),
)


@pytest.fixture(scope="module")
def services() -> dict[str, ServiceModel]:
    """Return what botocore knows of the services."""
    loader = Loader()
    return {
        name: ServiceModel(loader.load_service_model(name, "service-2"), name)
        for name in ("dynamodb", "sqs")
    }


@pytest.mark.parametrize(("name", "operation", "arguments"), ARGUMENTS)
def test_arguments_are_valid_where_botocore_finds_no_error(
    services: dict[str, ServiceModel], name: str, operation: str, arguments: Any
) -> None:
    """Types, members, required ones and lengths count, however deep they lie."""
    shape = services[name].operation_model(operation).input_shape
    assert shape is not None
    errors = ParamValidator().validate(arguments, shape)
    assert ValidArguments()(services[name], operation, arguments) is not errors.has_errors()


def test_operation_without_arguments_goes_the_long_way(services: dict[str, ServiceModel]) -> None:
    """What has no shape is not looked at."""
    assert ValidArguments()(services["dynamodb"], "DescribeEndpoints", {"a": 1}) is False
