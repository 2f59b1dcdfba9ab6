"""The metrics of alarms and the dashboard.

Handlers publish those of functions: `lamplighter.entry` has their namespace and dimensions.
"""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events

from lamplighter.entry import NAMESPACE
from lamplighter.store.tables import TableDefinition
from lamplighter_infra.config import Config

MINUTE = cdk.Duration.minutes(1)
FIVE_MINUTES = cdk.Duration.minutes(5)
HOUR = cdk.Duration.hours(1)
DAY = cdk.Duration.days(1)

_EMR = "AWS/EMRServerless"


def function_metric(
    config: Config, service: str, name: str, statistic: str, period: cdk.Duration
) -> cloudwatch.Metric:
    """Return a metric that a function of this deployment publishes."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"service": service, "stack": config.stack_name},
        statistic=statistic,
        period=period,
    )


def rule_metric(rule: events.CfnRule, name: str, period: cdk.Duration) -> cloudwatch.Metric:
    """Return a count that EventBridge publishes for a rule."""
    assert rule.name is not None
    return cloudwatch.Metric(
        namespace="AWS/Events",
        metric_name=name,
        dimensions_map={"RuleName": rule.name},
        statistic="Sum",
        period=period,
    )


def application_metric(
    application_id: str, application_name: str, name: str, *, statistic: str = "Maximum"
) -> cloudwatch.IMetric:
    """Return a metric that EMR Serverless publishes for an application, from release 7.10 on.

    Of an application of others only the id is known, so its metrics are searched for.
    """
    if application_name:
        return cloudwatch.Metric(
            namespace=_EMR,
            metric_name=name,
            dimensions_map={"ApplicationId": application_id, "ApplicationName": application_name},
            statistic=statistic,
            period=MINUTE,
            label=name,
        )
    # With the dimensions: without them it would find the metrics of every single job.
    found = f'{{{_EMR},ApplicationId,ApplicationName}} ApplicationId="{application_id}"'
    search = f"SEARCH('{found} MetricName=\"{name}\"', '{statistic}', 60)"
    return cloudwatch.MathExpression(expression=search, label=name, period=MINUTE)


def execution_metric(state_machine: str, name: str, *, label: str) -> cloudwatch.Metric:
    """Return a metric that Step Functions publishes for a state machine, by ARN."""
    return cloudwatch.Metric(
        namespace="AWS/States",
        metric_name=name,
        dimensions_map={"StateMachineArn": state_machine},
        statistic="Average" if name == "ExecutionTime" else "Sum",
        period=FIVE_MINUTES,
        label=label,
    )


def throttled_metrics(table: TableDefinition, name: str) -> list[cloudwatch.Metric]:
    """Return how often DynamoDB throttled a table and each of its indexes."""
    indexes = [index["IndexName"] for index in table.create.get("GlobalSecondaryIndexes", ())]
    return [_throttled(table.name, name), *(_throttled(table.name, name, each) for each in indexes)]


def _throttled(table: str, name: str, index: str = "") -> cloudwatch.Metric:
    short = table.rpartition("-")[2]
    return cloudwatch.Metric(
        namespace="AWS/DynamoDB",
        metric_name=name,
        dimensions_map={
            "TableName": table,
            **({"GlobalSecondaryIndexName": index} if index else {}),
        },
        statistic="Sum",
        period=FIVE_MINUTES,
        label=f"{short}/{index}" if index else short,
    )
