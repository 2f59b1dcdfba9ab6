"""Where the shop's tables lie below the data root, and the ways to read and replace them.

    raw/<table>/arrived=<hour>/                as it came, by hour in UTC; only ever added to
    staged/<table>/interval=<start>/           what arrived in an interval, with types
    clean/<table>/day=<day>/interval=<start>/  valid records, by the day that they are about
    rejected/<table>/interval=<start>/         the others, with the reason
    revenue/day=<day>/                         revenue of each country and product
    report/week=<monday>/                      the best products of a week; report_csv/ as CSV
    quality/day=<day>/                         how many records were rejected, and why

Owns: paths, and that a write replaces its own earlier result and nothing else. So every job can be
repeated, in any order. Refuses: knowing what is in a table.
"""

import datetime
from collections.abc import Iterable

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from jobs.shop.schemas import RAW, UNREADABLE

ONE_HOUR = datetime.timedelta(hours=1)
UTC = datetime.timezone.utc  # noqa: UP017 - jobs run on Python 3.9, too


def interval_name(start: datetime.datetime) -> str:
    """Return the name of the interval that starts then, as folders have it."""
    return start.astimezone(UTC).strftime("%Y-%m-%dT%H%M")


def hours_between(start: datetime.datetime, end: datetime.datetime) -> list[str]:
    """Return the hours of arrival that an interval touches, also those it has only a part of."""
    hour = start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    hours = []
    while hour < end:
        hours.append(hour.strftime("%Y-%m-%dT%H"))
        hour += ONE_HOUR
    return hours


def arrived(spark: SparkSession, root: str, table: str, hours: Iterable[str]) -> DataFrame:
    """Return what arrived in some hours, with broken lines in a column of their own."""
    reader = spark.read.format("json").option("columnNameOfCorruptRecord", UNREADABLE)
    pattern = f"{root}/raw/{table}/arrived={{{','.join(hours)}}}"
    return _those_there(spark, RAW[table], reader, pattern)


def staged(spark: SparkSession, root: str, table: str, interval: str) -> DataFrame:
    """Return what the step before has loaded for an interval."""
    path = f"{root}/staged/{table}/interval={interval}"
    return spark.read.schema(RAW[table]).parquet(path)


def about_days(
    spark: SparkSession, path: str, schema: str, days: Iterable[datetime.date]
) -> DataFrame:
    """Return those partitions of a table that are about some days."""
    reader = spark.read.format("parquet").option("basePath", path)
    return _those_there(spark, schema, reader, f"{path}/day={{{','.join(map(str, days))}}}")


def replace_folder(frame: DataFrame, path: str) -> None:
    """Write a folder anew."""
    frame.write.mode("overwrite").parquet(path)


def replace_interval(
    root: str, table: str, interval: str, valid: DataFrame, rejected: DataFrame
) -> dict[datetime.date, int]:
    """Write what an interval found anew, below its days and among the rejected.

    Returns the number of valid rows of each day.
    """
    replace_folder(rejected, f"{root}/rejected/{table}/interval={interval}")
    named = valid.withColumn("interval", F.lit(interval))
    replace_partitions(named, f"{root}/clean/{table}", ["day", "interval"])
    # Not data: a few days and their numbers of rows.
    counts = valid.groupBy("day").agg(F.count("*").alias("rows")).collect()
    return {count["day"]: count["rows"] for count in counts}


def replace_partitions(
    frame: DataFrame, path: str, by: Iterable[str], *, file_format: str = "parquet"
) -> None:
    """Write those partitions anew that have rows in `frame`; all others stay as they are."""
    writer = frame.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(*by).option("header", True).format(file_format).save(path)


def _those_there(
    spark: SparkSession, schema: str, reader: DataFrameReader, pattern: str
) -> DataFrame:
    """Return some folders of a table; an hour or a day without records has none."""
    try:
        # A pattern and not a list of paths, which would all have to be there.
        return reader.schema(schema).load(pattern)
    except AnalysisException as error:
        if "[PATH_NOT_FOUND]" not in str(error):
            raise
    # Not `createDataFrame`, which starts Python workers for its rows, even for none.
    return spark.range(0).select(F.from_json(F.lit("{}"), schema).alias("row")).select("row.*")
