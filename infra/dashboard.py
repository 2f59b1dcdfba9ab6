"""The dashboard of a deployment: what is late, what runs, what failed, what it costs."""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.config import Config
from infra.metrics import DAY, FIVE_MINUTES, function_metric
from infra.queues import Queues
from lamplighter.topology import QUEUES


class Dashboard(Construct):
    """The dashboard `<stack>-<region>`."""

    def __init__(self, scope: Construct, name: str, *, config: Config, queues: Queues) -> None:
        super().__init__(scope, name)
        self._config = config
        self._queues = queues
        self._draw()

    def _draw(self) -> None:
        # Dashboards of all regions are in one list.
        name = f"{self._config.stack_name}-{cdk.Stack.of(self).region}"
        board = cloudwatch.Dashboard(self, "Board", dashboard_name=name)
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
                ("ingest", "TriggeredRuns", "Sum"),
            ),
            self._graph(
                "Runs finished",
                *(
                    (service, name, "Sum")
                    for name in ("SucceededRuns", "FailedRuns", "CancelledRuns")
                    for service in ("settle", "submit", "sweep")
                ),
            ),
            self._graph(
                "Claims lost to others",
                ("tick", "LostClaims", "Sum"),
                ("claim", "LostClaims", "Sum"),
            ),
        )
        board.add_widgets(
            self._graph(
                "Asset events",
                ("ingest", "Recorded", "Sum"),
                ("ingest", "Rejected", "Sum"),
            ),
            self._graph(
                "Steps that failed, and were tried again",
                *(
                    (service, name, "Sum")
                    for name in ("FailedSteps", "RetriedSteps")
                    for service in ("settle", "sweep")
                ),
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
                        statistic="Maximum", label=QUEUES[name].dlq
                    )
                    for name, queue in self._queues.dlqs.items()
                ],
            ),
            cloudwatch.GraphWidget(
                title="Age of the oldest message, seconds",
                left=[
                    queue.metric_approximate_age_of_oldest_message(label=name)
                    for name, queue in self._queues.queues.items()
                ],
            ),
            cloudwatch.GraphWidget(
                title="Spark, dollars a day",
                left=[
                    function_metric(self._config, service, "SparkDollars", "Sum", DAY)
                    for service in ("settle", "submit", "sweep")
                ],
                stacked=True,
            ),
        )

    def _graph(self, title: str, *shown: tuple[str, str, str]) -> cloudwatch.GraphWidget:
        left = [
            # Not on the metric of an alarm, which would become an expression by it.
            function_metric(self._config, service, name, statistic, FIVE_MINUTES).with_(
                label=f"{name} {statistic} of {service}"
            )
            for service, name, statistic in shown
        ]
        return cloudwatch.GraphWidget(title=title, left=left)
