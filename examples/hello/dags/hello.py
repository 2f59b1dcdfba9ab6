"""The smallest pipeline: to see whether a deployment works, with nothing to prepare.

count    once a day, for the first time right after the push    `numbers`    on Spark
greet    whenever `numbers` has changed                                      on Lambda

lamplighter push examples/hello
lamplighter runs watch
"""

import pendulum

from lamplighter import DAG, Asset, PythonTask, SparkTask

START = pendulum.datetime(2026, 1, 1, tz="UTC")

numbers = Asset("numbers")

# Without catchup, the days since the start are not made up for: the last one is enough.
with DAG("count", schedule="@daily", start_date=START, catchup=False):
    SparkTask("count", job="jobs.hello:count", outlets=[numbers])

with DAG("greet", schedule=numbers):
    PythonTask("greet", job="jobs.greeting:greet")
