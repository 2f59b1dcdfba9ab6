"""List prices of us-east-1, and what is assumed where nothing can be counted offline.

Owns: every number that is not counted. Prices are those of AWS's price pages as known in November
2026, without free tiers and discounts; none was verified on a bill.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

AS_OF = "November 2026"
REGION = "us-east-1"

MILLION = 1_000_000
GIGABYTE = 1_000_000_000
MINUTES_A_MONTH = 30 * 24 * 60


class Price(NamedTuple):
    """Dollars for so many of a unit."""

    dollars: float
    per: float = MILLION


PRICES: Mapping[str, Price] = {
    "DynamoDB write units": Price(0.625),
    "DynamoDB read units": Price(0.125),
    # With point-in-time recovery, for a month.
    "DynamoDB bytes stored": Price(0.25 + 0.20, GIGABYTE),
    "SQS requests": Price(0.40),
    "Lambda requests": Price(0.20),
    # On Graviton.
    "Lambda GB-seconds": Price(0.0000133334, 1),
    "S3 PUT requests": Price(5.00),
    "S3 GET requests": Price(0.40),
    "S3 PUT requests for logs": Price(5.00),
    # For a month.
    "S3 bytes of logs stored": Price(0.023, GIGABYTE),
    # What a service of AWS tells costs nothing.
    "EventBridge events": Price(1.00),
    "CloudWatch Logs bytes": Price(0.50, GIGABYTE),
    "KMS requests": Price(0.03, 10_000),
}


@dataclass(frozen=True)
class WallTime:
    """Milliseconds that a function is billed for: for itself, and for each call that it waits for.

    Calls that are made at the same time are counted one after the other. Cold starts are left out:
    at a million runs a month functions are warm.
    """

    invocation: float = 15
    message: float = 5
    dynamodb: float = 8
    transaction: float = 15
    sqs: float = 12
    s3: float = 30
    events: float = 20
    emr: float = 150
    invoke: float = 40
    # The process of a Python step, from its start to its end, but for the author's function.
    python_step: float = 1_000


WALL_TIME = WallTime()
# Of every function that moves runs.
MEMORY_MB = 1_024

# The lines START, END and REPORT that Lambda logs for each invocation.
PLATFORM_LOG_BYTES = 330
# CloudWatch Logs adds so much to each line.
LOG_LINE_OVERHEAD_BYTES = 26

# What SQS bills as one request.
SQS_CHUNK_BYTES = 64 * 1024
# Lambda receives a batch with one request, and deletes what was handled with another.
SQS_REQUESTS_PER_BATCH = 2
# Lambda keeps this many pollers at an idle queue, each of which asks every 20 seconds.
POLLERS, POLLS_A_MINUTE = 5, 3

# A job reads its context, script, bundle and runtime, and writes its report.
JOB_GETS, JOB_PUTS = 4, 1
# The function `task` fetches the bundle; what it asks for otherwise is counted. It logs two lines.
PYTHON_GETS, PYTHON_LOG_BYTES = 1, 1_000
# Logs in S3: stdout and stderr of a driver and three executors, compressed. Jobs differ.
JOB_LOG_PUTS, JOB_LOG_BYTES = 8, 50_000

# SQS and DynamoDB keep a data key for five minutes: for each queue one for its consumer and two for
# its producers, and one for each table.
KEY_REUSE_MINUTES, KEYS_OF_A_QUEUE, KEYS_OF_A_TABLE = 5, 3, 1
