"""The dashboard of a deployment: what is late, what runs, what failed, what it costs.

Owns: its sections, from what authors ask to what operators ask. Every row is as wide as the board.
"""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from lamplighter.store.tables import table_definitions
from lamplighter.topology import QUEUES
from lamplighter_infra import log_queries
from lamplighter_infra.compute import Compute
from lamplighter_infra.config import Config
from lamplighter_infra.metrics import (
    DAY,
    FIVE_MINUTES,
    application_metric,
    execution_metric,
    function_metric,
    throttled_metrics,
)
from lamplighter_infra.permissions import Arns
from lamplighter_infra.queues import Queues
from lamplighter_infra.spark import Spark

_ROW = 24
_HEIGHT = 6
_TABLE_HEIGHT = 8
# In the order in which a job goes through them; EMR Serverless does not count those in its queue.
_JOB_STATES = ("SubmittedJobs", "PendingJobs", "ScheduledJobs", "RunningJobs", "FailedJobs")
_FINISHING = ("settle", "submit", "sweep")


class Dashboard(Construct):
    """The dashboard `<stack>-<region>`."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        config: Config,
        arns: Arns,
        queues: Queues,
        spark: Spark,
        compute: Compute,
    ) -> None:
        super().__init__(scope, name)
        self._config = config
        self._arns = arns
        self._queues = queues
        self._spark = spark
        self._compute = compute
        # Dashboards of all regions are in one list.
        board = cloudwatch.Dashboard(
            self, "Board", dashboard_name=f"{config.stack_name}-{cdk.Stack.of(self).region}"
        )
        for title, rows in {
            "Schedules and runs": [self._schedules(), self._runs(), *self._tables()],
            "Spark": [self._jobs()],
            **({"State machines": [self._executions()]} if config.state_machines else {}),
            "Asset events, messages, tables": [self._events(), self._messages(), self._throttles()],
        }.items():
            board.add_widgets(cloudwatch.TextWidget(markdown=f"## {title}", width=_ROW, height=1))
            for row in rows:
                board.add_widgets(*row)

    # Rows.

    def _schedules(self) -> list[cloudwatch.IWidget]:
        return [
            self._graph(
                "Age of the oldest due time, seconds", ("tick", "BacklogSeconds", "Maximum")
            ),
            self._graph(
                "Delay of scheduled runs, seconds",
                *(
                    (service, "LatenessSeconds", statistic)
                    for service in ("tick", "claim")
                    for statistic in ("p50", "p99")
                ),
            ),
            self._graph(
                "Claims lost to others",
                ("tick", "LostClaims", "Sum"),
                ("claim", "LostClaims", "Sum"),
            ),
        ]

    def _runs(self) -> list[cloudwatch.IWidget]:
        return [
            self._graph(
                "Runs created",
                ("tick", "ClaimedRuns", "Sum"),
                ("claim", "ClaimedRuns", "Sum"),
                ("ingest", "TriggeredRuns", "Sum"),
            ),
            self._graph(
                "Runs finished",
                *(
                    (service, name, "Sum")
                    for name in ("SucceededRuns", "FailedRuns", "CancelledRuns")
                    for service in _FINISHING
                ),
            ),
            self._graph(
                "Steps that failed, and were tried again",
                *(
                    (service, name, "Sum")
                    for name in ("FailedSteps", "RetriedSteps")
                    for service in ("settle", "sweep")
                ),
            ),
        ]

    def _tables(self) -> list[list[cloudwatch.IWidget]]:
        groups = [
            self._compute.functions[name].log_group.log_group_name
            for name in log_queries.MOVING_RUNS
        ]
        tables: list[cloudwatch.IWidget] = [
            cloudwatch.LogQueryWidget(
                title=title,
                log_group_names=groups,
                query_string=text,
                view=cloudwatch.LogQueryVisualizationType.TABLE,
                width=_ROW // len(log_queries.TABLES),
                height=_TABLE_HEIGHT,
            )
            for title, text in log_queries.TABLES.items()
        ]
        return [tables]

    def _jobs(self) -> list[cloudwatch.IWidget]:
        capacity = {
            "vCPUs allocated, and the limit": ("CPUAllocated", "MaxCPUAllowed"),
            "Memory allocated, and the limit, GB": ("MemoryAllocated", "MaxMemoryAllowed"),
            "Jobs by state": _JOB_STATES,
        }
        graphs = [
            _widget(title, [self._of_application(name) for name in names], columns=4)
            for title, names in capacity.items()
        ]
        dollars = [
            function_metric(self._config, service, "JobDollars", "Sum", DAY)
            for service in _FINISHING
        ]
        return [*graphs, _widget("Dollars a day", dollars, columns=4, is_stacked=True)]

    def _executions(self) -> list[cloudwatch.IWidget]:
        metrics = {
            "Executions that succeeded": "ExecutionsSucceeded",
            "Executions that failed": "ExecutionsFailed",
            "Time of an execution, milliseconds": "ExecutionTime",
        }
        machines = zip(self._config.state_machines, self._arns.state_machines, strict=True)
        by_name = dict(machines)
        return [
            _widget(
                title,
                [execution_metric(arn, name, label=machine) for machine, arn in by_name.items()],
                columns=3,
            )
            for title, name in metrics.items()
        ]

    def _events(self) -> list[cloudwatch.IWidget]:
        return [
            self._graph(
                "Asset events",
                ("ingest", "Recorded", "Sum"),
                ("ingest", "Rejected", "Sum"),
                columns=2,
            ),
            self._graph(
                "Repairs by the sweep",
                ("sweep", "WokenRuns", "Sum"),
                ("sweep", "ResentEvents", "Sum"),
                ("sweep", "ClaimedRuns", "Sum"),
                ("sweep", "FailedSearches", "Sum"),
                columns=2,
            ),
        ]

    def _messages(self) -> list[cloudwatch.IWidget]:
        dead = [
            queue.metric_approximate_number_of_messages_visible(
                statistic="Maximum", label=QUEUES[name].dlq
            )
            for name, queue in self._queues.dlqs.items()
        ]
        ages = [
            queue.metric_approximate_age_of_oldest_message(label=name)
            for name, queue in self._queues.queues.items()
        ]
        return [
            _widget("Dead letters", dead, columns=2),
            _widget("Age of the oldest message, seconds", ages, columns=2),
        ]

    def _throttles(self) -> list[cloudwatch.IWidget]:
        tables = table_definitions(f"{self._config.stack_name}-")
        return [
            _widget(
                f"Throttled {kind} of tables and indexes",
                [each for table in tables for each in throttled_metrics(table, name)],
                columns=2,
            )
            for kind, name in (("reads", "ReadThrottleEvents"), ("writes", "WriteThrottleEvents"))
        ]

    # Parts of rows.

    def _graph(
        self, title: str, *shown: tuple[str, str, str], columns: int = 3
    ) -> cloudwatch.IWidget:
        left = [
            # Not on the metric of an alarm, which would become an expression by it.
            function_metric(self._config, service, name, statistic, FIVE_MINUTES).with_(
                label=f"{name} {statistic} of {service}"
            )
            for service, name, statistic in shown
        ]
        return _widget(title, left, columns=columns)

    def _of_application(self, name: str) -> cloudwatch.IMetric:
        return application_metric(self._spark.application_id, self._spark.application_name, name)


def _widget(
    title: str, left: list[cloudwatch.IMetric], *, columns: int, is_stacked: bool = False
) -> cloudwatch.IWidget:
    return cloudwatch.GraphWidget(
        title=title,
        left=left,
        left_y_axis=cloudwatch.YAxisProps(min=0),
        stacked=is_stacked,
        width=_ROW // columns,
        height=_HEIGHT,
    )
