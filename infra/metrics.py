"""The metrics of alarms and the dashboard.

Handlers publish those of functions: `lamplighter.entry` has their namespace and dimensions.
"""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events

from infra.config import Config
from lamplighter.entry import NAMESPACE

MINUTE = cdk.Duration.minutes(1)
FIVE_MINUTES = cdk.Duration.minutes(5)
HOUR = cdk.Duration.hours(1)
DAY = cdk.Duration.days(1)


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
