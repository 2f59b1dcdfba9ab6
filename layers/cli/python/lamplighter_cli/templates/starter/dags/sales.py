"""Two DAGs: one on a timetable of its own, and one that the data of the first wake.

sales      after each workday         counts the day's orders     `sales`     Python, no Java needed
revenue    whenever `sales` changed   adds up what they brought               on Spark
"""

import pendulum

from lamplighter import DAG, Asset, PythonTask, SparkTask
from timetables.after_workday import AfterWorkdayTimetable

START = pendulum.datetime(2026, 1, 1, tz="UTC")

sales = Asset("sales")

# Without catchup, the days since the start are not made up for: the last one is enough.
with DAG("sales", schedule=AfterWorkdayTimetable("UTC"), start_date=START, catchup=False):
    PythonTask("count", job="jobs.sales:count", outlets=[sales])

with DAG("revenue", schedule=sales):
    SparkTask("add_up", job="jobs.sales_revenue:add_up")
