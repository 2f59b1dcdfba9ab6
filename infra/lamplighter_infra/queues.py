"""The queues of the topology, each with its dead-letter queue.

Owns: who may send to them from outside. All are encrypted and take nothing over plain HTTP.
"""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from lamplighter.topology import MAX_RECEIVES, QUEUES, RETENTION_DAYS, Queue
from lamplighter_infra.config import Config
from lamplighter_infra.functions import LIMITS

_RETENTION = cdk.Duration.days(RETENTION_DAYS)
# An empty answer then means an empty queue: SQS asks all of its servers.
_DLQ_WAIT = cdk.Duration.seconds(2)
# Lambda asks for so many times a function's timeout, for batches that come while it is busy.
_TIMEOUTS = 6
# Services that send for a resource, by the service in the resource's ARN.
_SENDING_SERVICES = frozenset({"sns", "s3", "events"})
_SERVICE_AT, _ACCOUNT_AT = 2, 4


def sending_service(arn: str) -> str | None:
    """Return the service that sends for a resource; roles and accounts send themselves."""
    parts = arn.split(":")
    service = parts[_SERVICE_AT] if len(parts) > _SERVICE_AT else ""
    return service if service in _SENDING_SERVICES else None


def owner(arn: str, stack: cdk.Stack) -> str:
    """Return the account of a resource; the ARN of a bucket has none, and it must be in ours."""
    return arn.split(":")[_ACCOUNT_AT] or stack.account


def title(name: str) -> str:
    """Return the name of a queue, or of a function, as a part of other names: `EventsFifo`."""
    return "".join(part.capitalize() for part in name.replace(".", "-").split("-"))


class Queues(Construct):
    """All queues, by their names."""

    def __init__(self, scope: Construct, name: str, *, config: Config, key: kms.IKey) -> None:
        super().__init__(scope, name)
        self._prefix = f"{config.stack_name}-"
        self._key = key
        self.dlqs = {each.name: self._queue(each.dlq) for each in QUEUES.values()}
        self.queues = {each.name: self._with_dlq(each) for each in QUEUES.values()}
        for arn in config.event_senders:
            for queue in ("events", "events.fifo"):
                self._allow_sender(queue, arn)

    def urls(self) -> dict[str, str]:
        """Return the URLs of all queues and dead-letter queues, by name."""
        return {
            **{name: made.queue_url for name, made in self.queues.items()},
            **{QUEUES[name].dlq: made.queue_url for name, made in self.dlqs.items()},
        }

    def _with_dlq(self, queue: Queue) -> sqs.Queue:
        dlq = sqs.DeadLetterQueue(max_receive_count=MAX_RECEIVES, queue=self.dlqs[queue.name])
        timeout = cdk.Duration.seconds(_TIMEOUTS * LIMITS[queue.consumer].timeout_seconds)
        return self._queue(queue.name, dead_letter_queue=dlq, visibility_timeout=timeout)

    def _queue(
        self,
        name: str,
        *,
        dead_letter_queue: sqs.DeadLetterQueue | None = None,
        visibility_timeout: cdk.Duration | None = None,
    ) -> sqs.Queue:
        is_fifo = name.endswith(".fifo")
        return sqs.Queue(
            self,
            title(name),
            queue_name=f"{self._prefix}{name}",
            dead_letter_queue=dead_letter_queue,
            visibility_timeout=visibility_timeout,
            receive_message_wait_time=None if dead_letter_queue else _DLQ_WAIT,
            retention_period=_RETENTION,
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=self._key,
            data_key_reuse=cdk.Duration.minutes(5),
            enforce_ssl=True,
            fifo=True if is_fifo else None,
            # Lanes do not slow each other down.
            deduplication_scope=sqs.DeduplicationScope.MESSAGE_GROUP if is_fifo else None,
            fifo_throughput_limit=sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID if is_fifo else None,
        )

    def allow_bucket(self, name: str, bucket_arn: str) -> IDependable:
        """Let a bucket send; return what the bucket must depend on."""
        return self._allow_sender(name, bucket_arn)

    def allow_rule(self, name: str, rule_arn: str) -> None:
        """Let a rule send, and use the dead-letter queue for what it could not deliver."""
        for queue in (self.queues[name], self.dlqs[name]):
            queue.add_to_resource_policy(_may_send("events", rule_arn, queue))

    def _allow_sender(self, name: str, arn: str) -> IDependable:
        queue = self.queues[name]
        added = queue.add_to_resource_policy(_may_send(sending_service(arn), arn, queue))
        made: IDependable = added.policy_dependable
        return made


def _may_send(service: str | None, arn: str, queue: sqs.Queue) -> iam.PolicyStatement:
    to = [queue.queue_arn]
    if service is None:
        return iam.PolicyStatement(
            principals=[iam.ArnPrincipal(arn)], actions=["sqs:SendMessage"], resources=to
        )
    # Whoever makes a bucket of a name that was given up is not its former owner.
    account = {"aws:SourceAccount": owner(arn, cdk.Stack.of(queue))}
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(f"{service}.amazonaws.com")],
        actions=["sqs:SendMessage"],
        resources=to,
        conditions={"ArnEquals": {"aws:SourceArn": arn}, "StringEquals": account},
    )
