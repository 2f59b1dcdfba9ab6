"""The alarms of a deployment, their topic, and saved queries of its logs.

Owns: what counts as trouble.
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

from lamplighter.topology import FUNCTIONS, QUEUES, queues_of
from lamplighter_infra import log_queries
from lamplighter_infra.compute import Compute
from lamplighter_infra.config import Config
from lamplighter_infra.metrics import FIVE_MINUTES, HOUR, MINUTE, function_metric, rule_metric
from lamplighter_infra.queues import Queues, title

# Claims are made within seconds; after this, schedules are late.
_LATE_SECONDS = 300
# Messages that wait so long are too many for their function; some are sent a quarter of an hour
# ahead. What failed a few times is no longer counted by SQS, but by us.
_STUCK_SECONDS = 1800
# So many repairs in an hour mean that messages get lost; a few come of deployments and throttles.
_MANY_REPAIRS = 20

_MISSING_IS_OK = cloudwatch.TreatMissingData.NOT_BREACHING
_MISSING_IS_ALARM = cloudwatch.TreatMissingData.BREACHING


class Alarms(Construct):
    """The alarms, which notify a topic."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        config: Config,
        key: kms.IKey,
        queues: Queues,
        compute: Compute,
        topic: sns.ITopic | None = None,
    ) -> None:
        super().__init__(scope, name)
        self._config = config
        self._queues = queues
        self._compute = compute
        self.topic = topic or self._topic(key)
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
        self._alarm_on_schedules()
        self._alarm_on_messages()
        self._alarm_on_functions()
        if not config.is_local:  # no emulator has them
            self._save_queries()

    def _topic(self, key: kms.IKey) -> sns.ITopic:
        if self._config.notify:
            return sns.Topic.from_topic_arn(self, "Topic", self._config.notify)
        return sns.Topic(
            self,
            "Topic",
            topic_name=f"{self._config.stack_name}-alarms",
            master_key=key,
            enforce_ssl=True,
        )

    def _alarm_on_schedules(self) -> None:
        """Notify when runs come late, or only by repairs."""
        self._alarm(
            "TickMissing",
            "The tick has not come to its end for three minutes: no schedule is served",
            function_metric(self._config, "tick", "BacklogSeconds", "SampleCount", MINUTE),
            below=1,
            periods=3,
            missing=_MISSING_IS_ALARM,
        )
        self._alarm(
            "SchedulesLate",
            "The oldest due time is more than five minutes old",
            function_metric(self._config, "tick", "BacklogSeconds", "Maximum", MINUTE),
            above=_LATE_SECONDS,
            periods=3,
        )
        self._alarm(
            "SweepRepairs",
            "The sweep does again what messages should have done: they get lost",
            function_metric(self._config, "sweep", "ResentEvents", "Sum", HOUR),
            above=_MANY_REPAIRS,
        )
        self._alarm(
            "SweepSearchFailures",
            "A search of the sweep fails again and again",
            function_metric(self._config, "sweep", "FailedSearches", "Sum", FIVE_MINUTES),
            above=0,
            periods=3,
        )
        for name in ("tick", "claim"):
            self._alarm(
                f"{title(name)}MalformedRows",
                "A row of a DAG cannot be read, and is skipped; `lamplighter doctor` names it",
                function_metric(self._config, name, "MalformedRows", "Sum", FIVE_MINUTES),
                above=0,
            )
            self._alarm(
                f"{title(name)}StalledDags",
                "Claims of a DAG make no progress again and again; `lamplighter doctor` names it",
                function_metric(self._config, name, "ContendedDags", "Sum", FIVE_MINUTES),
                above=0,
                periods=3,
            )
        self._alarm(
            "WatchersParked",
            "A watcher is parked until someone has looked at it",
            function_metric(self._config, "watch", "ParkedWatchers", "Maximum", FIVE_MINUTES),
            above=0,
        )

    def _alarm_on_messages(self) -> None:
        """Notify when messages do not arrive, wait too long, or could not be handled at all."""
        for name, rule in self._compute.rules.items():
            self._alarm(
                f"{name}Undelivered",
                f"EventBridge cannot put on its queue what the rule {rule.name} finds",
                rule_metric(rule, "FailedInvocations", FIVE_MINUTES),
                above=0,
            )
        for name, queue in self._queues.queues.items():
            self._alarm(
                f"{title(name)}OldMessages",
                f"The oldest message on {name} waits for more than half an hour",
                queue.metric_approximate_age_of_oldest_message(period=FIVE_MINUTES),
                above=_STUCK_SECONDS,
            )
        for name, queue in self._queues.dlqs.items():
            self._alarm(
                f"{title(QUEUES[name].dlq)}NotEmpty",
                f"There are dead letters of {name}; see `lamplighter doctor`",
                queue.metric_approximate_number_of_messages_visible(
                    period=FIVE_MINUTES, statistic="Maximum"
                ),
                above=0,
            )

    def _alarm_on_functions(self) -> None:
        """Notify when functions fail, as a whole or on single messages."""
        for name in FUNCTIONS:
            if queues_of(name):
                self._alarm(
                    f"{title(name)}FailedMessages",
                    f"The function {name} cannot handle messages, which come again; see its log",
                    function_metric(self._config, name, "Failed", "Sum", FIVE_MINUTES),
                    above=0,
                    # The pauses of one that fails for long are a quarter of an hour.
                    periods=12,
                    datapoints=3,
                )
        for name, function in self._compute.functions.items():
            self._alarm(
                f"{title(name)}Errors",
                f"The function {name} fails; see its log",
                function.metric_errors(period=FIVE_MINUTES),
                above=0,
                periods=2,
            )
            self._alarm(
                f"{title(name)}Throttles",
                f"The function {name} is throttled: the account allows too little concurrency",
                function.metric_throttles(period=FIVE_MINUTES),
                above=0,
                periods=3,
            )

    def _alarm(
        self,
        name: str,
        description: str,
        metric: cloudwatch.IMetric,
        *,
        above: float | None = None,
        below: float | None = None,
        periods: int = 1,
        datapoints: int | None = None,
        missing: cloudwatch.TreatMissingData = _MISSING_IS_OK,
    ) -> None:
        threshold = above if above is not None else below
        assert threshold is not None
        comparison = cloudwatch.ComparisonOperator
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._config.stack_name}-{name}",
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            comparison_operator=(
                comparison.GREATER_THAN_THRESHOLD
                if above is not None
                else comparison.LESS_THAN_THRESHOLD
            ),
            evaluation_periods=periods,
            datapoints_to_alarm=datapoints,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        alarm.add_ok_action(actions.SnsAction(self.topic))

    def _save_queries(self) -> None:
        groups = [
            function.log_group.log_group_name for function in self._compute.functions.values()
        ]
        for name, text in log_queries.SAVED.items():
            logs.CfnQueryDefinition(
                self,
                "".join(word.capitalize() for word in name.split()),
                name=f"{self._config.stack_name}/{name}",
                log_group_names=groups,
                query_string=text,
            )
