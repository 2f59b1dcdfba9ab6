"""Counts, with Spark."""

from pyspark.sql import SparkSession

print(SparkSession.builder.getOrCreate().range(10).count())
