"""The smallest pipeline: to see whether a deployment works, with nothing to prepare.

count    once a day, for the first time right after the push    `numbers`
greet    whenever `numbers` has changed

lamplighter push examples/hello
lamplighter runs watch
"""

import pendulum

from lamplighter import DAG, Asset, SparkTask

START = pendulum.datetime(2026, 1, 1, tz="UTC")

numbers = Asset("numbers")

# Without catchup, the days since the start are not made up for: the last one is enough.
with DAG("count", schedule="@daily", start_date=START, catchup=False):
    SparkTask("count", job="jobs.hello:count", outlets=[numbers])

with DAG("greet", schedule=numbers):
    SparkTask("greet", job="jobs.hello:greet")
