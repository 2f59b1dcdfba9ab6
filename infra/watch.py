"""Tells people how a deployment is: a dashboard, alarms, and questions to its logs.

Owns: what counts as trouble. The numbers are those that handlers report (`lamplighter.entry`).
"""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.compute import Compute
from infra.config import Config
from infra.queues import Queues, dead_name
from lamplighter.entry import NAMESPACE

_MINUTE = cdk.Duration.minutes(1)
_FIVE_MINUTES = cdk.Duration.minutes(5)
_HOUR = cdk.Duration.hours(1)
_DAY = cdk.Duration.days(1)
# Claims are made within seconds; after this, schedules are late.
_LATE_SECONDS = 300
# A message that waits so long is one that no function could handle, or too many for it.
_STUCK_SECONDS = 900
# So many repairs in an hour mean that messages get lost; a few come of deployments and throttles.
_MANY_REPAIRS = 20

_MISSING_IS_FINE = cloudwatch.TreatMissingData.NOT_BREACHING
_MISSING_IS_BAD = cloudwatch.TreatMissingData.BREACHING

_QUERIES = {
    "state changes of runs": (
        "fields @timestamp, service, dag_id, run_id, from, to"
        " | filter ispresent(run_id) | sort @timestamp desc | limit 200"
    ),
    "errors": (
        "fields @timestamp, service, level, message, exception"
        ' | filter level in ["ERROR", "CRITICAL"] | sort @timestamp desc | limit 200'
    ),
    "messages that come again": (
        "fields @timestamp, service, message"
        ' | filter message like "is delivered again" | stats count(*) by service, bin(5m)'
    ),
    "slow calls": (
        'filter @type = "REPORT"'
        " | stats max(@duration), avg(@duration), max(@maxMemoryUsed), max(@initDuration) by @log"
    ),
}


class Watch(Construct):
    """The dashboard and the alarms, which go to a topic."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        config: Config,
        key: kms.IKey,
        queues: Queues,
        compute: Compute,
    ) -> None:
        super().__init__(scope, name)
        self._config = config
        self._queues = queues
        self._compute = compute
        self.topic = sns.Topic(
            self,
            "Alarms",
            topic_name=f"{config.stack_name}-alarms",
            master_key=key,
            enforce_ssl=True,
        )
        # A topic with a policy has no other: also alarms must be admitted.
        account = {"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}}
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions=account,
            )
        )
        if config.alarm_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(config.alarm_email))
        self._raise_alarms()
        self._draw()
        if not config.is_local:  # no emulator has them
            self._save_queries()

    # Alarms.

    def _raise_alarms(self) -> None:
        self._alarm(
            "TickIsMissing",
            "The tick has not come to its end for three minutes: no schedule is served",
            self._metric("tick", "BacklogSeconds", "SampleCount", _MINUTE),
            below=1,
            periods=3,
            missing=_MISSING_IS_BAD,
        )
        self._alarm(
            "SchedulesAreLate",
            "The oldest due time is more than five minutes old",
            self._metric("tick", "BacklogSeconds", "Maximum", _MINUTE),
            above=_LATE_SECONDS,
            periods=3,
        )
        self._alarm(
            "SweepRepairs",
            "The sweep does again what messages should have done: they get lost",
            self._metric("sweep", "ResentEvents", "Sum", _HOUR),
            above=_MANY_REPAIRS,
        )
        self._alarm(
            "SearchesFail",
            "A search of the sweep fails again and again",
            self._metric("sweep", "FailedSearches", "Sum", _FIVE_MINUTES),
            above=0,
            periods=3,
        )
        self._alarm(
            "WatchersAreParked",
            "A watcher is parked until someone has looked at it",
            self._metric("watch", "ParkedWatchers", "Maximum", _FIVE_MINUTES),
            above=0,
        )
        for name, queue in self._queues.live.items():
            self._alarm(
                f"{_title(name)}IsOld",
                f"The oldest message on {name} waits for more than 15 minutes",
                queue.metric_approximate_age_of_oldest_message(period=_FIVE_MINUTES),
                above=_STUCK_SECONDS,
            )
        for name, queue in self._queues.dead.items():
            self._alarm(
                f"{_title(dead_name(name))}IsNotEmpty",
                f"There are dead letters of {name}; see `lamplighter doctor`",
                queue.metric_approximate_number_of_messages_visible(
                    period=_FIVE_MINUTES, statistic="Maximum"
                ),
                above=0,
            )
        for name, function in self._compute.functions.items():
            self._alarm(
                f"{_title(name)}Fails",
                f"The function {name} fails; see its log",
                function.metric_errors(period=_FIVE_MINUTES),
                above=0,
                periods=2,
            )
            self._alarm(
                f"{_title(name)}IsThrottled",
                f"The function {name} is throttled: the account allows too little concurrency",
                function.metric_throttles(period=_FIVE_MINUTES),
                above=0,
                periods=3,
            )

    def _alarm(
        self,
        name: str,
        says: str,
        metric: cloudwatch.IMetric,
        *,
        above: float | None = None,
        below: float | None = None,
        periods: int = 1,
        missing: cloudwatch.TreatMissingData = _MISSING_IS_FINE,
    ) -> None:
        threshold = above if above is not None else below
        assert threshold is not None
        comparison = cloudwatch.ComparisonOperator
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._config.stack_name}-{name}",
            alarm_description=says,
            metric=metric,
            threshold=threshold,
            comparison_operator=(
                comparison.GREATER_THAN_THRESHOLD
                if above is not None
                else comparison.LESS_THAN_THRESHOLD
            ),
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        alarm.add_ok_action(actions.SnsAction(self.topic))

    def _metric(
        self, service: str, name: str, statistic: str, period: cdk.Duration
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={"service": service, "stack": self._config.stack_name},
            statistic=statistic,
            period=period,
        )

    # The dashboard.

    def _draw(self) -> None:
        board = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=self._config.stack_name)
        board.add_widgets(
            self._graph(
                "Age of the oldest due time, seconds", ("tick", "BacklogSeconds", "Maximum")
            ),
            self._graph(
                "Delay of scheduled runs, seconds",
                ("tick", "LatenessSeconds", "p50"),
                ("tick", "LatenessSeconds", "p99"),
                ("claim", "LatenessSeconds", "p50"),
                ("claim", "LatenessSeconds", "p99"),
            ),
        )
        board.add_widgets(
            self._graph(
                "Runs created",
                ("tick", "ClaimedRuns", "Sum"),
                ("claim", "ClaimedRuns", "Sum"),
                ("ingest", "FiredRuns", "Sum"),
            ),
            self._graph(
                "Runs finished",
                *(
                    (service, name, "Sum")
                    for name in ("SucceededRuns", "FailedRuns", "CancelledRuns")
                    for service in ("settle", "submit")
                ),
            ),
            self._graph("Claims lost to others", ("tick", "Lost", "Sum"), ("claim", "Lost", "Sum")),
        )
        board.add_widgets(
            self._graph(
                "Asset events",
                ("ingest", "Recorded", "Sum"),
                ("ingest", "Rejected", "Sum"),
            ),
            self._graph(
                "Steps that failed, and were tried again",
                ("settle", "FailedSteps", "Sum"),
                ("settle", "RetriedSteps", "Sum"),
            ),
            self._graph(
                "Repairs by the sweep",
                ("sweep", "WokenRuns", "Sum"),
                ("sweep", "ResentEvents", "Sum"),
                ("sweep", "ClaimedRuns", "Sum"),
                ("sweep", "FailedSearches", "Sum"),
            ),
        )
        board.add_widgets(
            cloudwatch.GraphWidget(
                title="Dead letters",
                left=[
                    queue.metric_approximate_number_of_messages_visible(
                        statistic="Maximum", label=dead_name(name)
                    )
                    for name, queue in self._queues.dead.items()
                ],
            ),
            cloudwatch.GraphWidget(
                title="Age of the oldest message, seconds",
                left=[
                    queue.metric_approximate_age_of_oldest_message(label=name)
                    for name, queue in self._queues.live.items()
                ],
            ),
            cloudwatch.GraphWidget(
                title="Spark, dollars a day",
                left=[
                    self._metric(service, "SparkDollars", "Sum", _DAY)
                    for service in ("settle", "submit", "sweep")
                ],
                stacked=True,
            ),
        )

    def _graph(self, title: str, *shown: tuple[str, str, str]) -> cloudwatch.GraphWidget:
        left = [
            # Not on the metric of an alarm, which would become an expression by it.
            self._metric(service, name, statistic, _FIVE_MINUTES).with_(
                label=f"{name} {statistic} of {service}"
            )
            for service, name, statistic in shown
        ]
        return cloudwatch.GraphWidget(title=title, left=left)

    def _save_queries(self) -> None:
        groups = [
            function.log_group.log_group_name for function in self._compute.functions.values()
        ]
        for title, text in _QUERIES.items():
            logs.CfnQueryDefinition(
                self,
                "".join(word.capitalize() for word in title.split()),
                name=f"{self._config.stack_name}/{title}",
                log_group_names=groups,
                query_string=text,
            )


def _title(name: str) -> str:
    return "".join(part.capitalize() for part in name.replace(".", "-").split("-"))
