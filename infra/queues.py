"""The queues between the functions, each with one for the messages that nobody could handle.

Owns: who may send to them from outside. All are encrypted and take nothing over plain HTTP.
"""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from infra.config import Config
from infra.functions import FUNCTIONS
from infra.senders import service_of
from lamplighter.settings import MAX_RECEIVES, QUEUES, RETENTION_DAYS

_RETENTION = cdk.Duration.days(RETENTION_DAYS)
# An empty answer then means an empty queue: SQS asks all of its servers.
_WAIT_FOR_DEAD = cdk.Duration.seconds(2)
# Lambda asks for so many times a function's timeout, for batches that come while it is busy.
_TIMEOUTS = 6
_DEFAULT_TIMEOUT_SECONDS = 60


def dead_name(name: str) -> str:
    """Return the name of the queue for the dead letters of a queue."""
    stem, dot, kind = name.partition(".")
    return f"{stem}-dead{dot}{kind}"


def title(name: str) -> str:
    """Return the name of a queue, or of a function, as a part of other names: `EventsFifo`."""
    return "".join(part.capitalize() for part in name.replace(".", "-").split("-"))


def visibility_seconds(name: str) -> int:
    """Return for how long a message is hidden from others while a function handles it."""
    longest = max(
        (spec.timeout_seconds for spec in FUNCTIONS.values() if name in spec.queues),
        default=_DEFAULT_TIMEOUT_SECONDS,
    )
    return _TIMEOUTS * longest


class Queues(Construct):
    """All queues, by their names."""

    def __init__(self, scope: Construct, name: str, *, config: Config, key: kms.IKey) -> None:
        super().__init__(scope, name)
        self._prefix = f"{config.stack_name}-"
        self._key = key
        self.dead = {each: self._queue(dead_name(each)) for each in QUEUES}
        self.live = {each: self._live(each) for each in QUEUES}
        for arn in config.event_senders:
            for queue in ("events", "events.fifo"):
                self._admit(queue, arn)

    def all(self) -> dict[str, sqs.Queue]:
        """Return all queues, those for dead letters included."""
        return {**self.live, **{dead_name(name): queue for name, queue in self.dead.items()}}

    def _live(self, name: str) -> sqs.Queue:
        dead = sqs.DeadLetterQueue(max_receive_count=MAX_RECEIVES, queue=self.dead[name])
        visibility = cdk.Duration.seconds(visibility_seconds(name))
        return self._queue(name, dead_letter_queue=dead, visibility_timeout=visibility)

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
            receive_message_wait_time=None if dead_letter_queue else _WAIT_FOR_DEAD,
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

    def admit_bucket(self, name: str, bucket_arn: str) -> IDependable:
        """Let a bucket send; return what must be made before the bucket is told so."""
        return self._admit(name, bucket_arn)

    def admit_rule(self, name: str, rule_arn: str) -> None:
        """Let a rule send, also what it could not deliver."""
        statement = _may_send("events", rule_arn, self.live[name].queue_arn)
        self.live[name].add_to_resource_policy(statement)
        dead = _may_send("events", rule_arn, self.dead[name].queue_arn)
        self.dead[name].add_to_resource_policy(dead)

    def _admit(self, name: str, arn: str) -> IDependable:
        queue = self.live[name]
        added = queue.add_to_resource_policy(_may_send(service_of(arn), arn, queue.queue_arn))
        made: IDependable = added.policy_dependable
        return made


def _may_send(service: str | None, arn: str, queue_arn: str) -> iam.PolicyStatement:
    if service is None:
        return iam.PolicyStatement(
            principals=[iam.ArnPrincipal(arn)], actions=["sqs:SendMessage"], resources=[queue_arn]
        )
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(f"{service}.amazonaws.com")],
        actions=["sqs:SendMessage"],
        resources=[queue_arn],
        conditions={"ArnEquals": {"aws:SourceArn": arn}},
    )
