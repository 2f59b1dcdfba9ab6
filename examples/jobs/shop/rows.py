"""Operations on tables that several jobs share: columns in, columns out."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.shop.schemas import UNREADABLE

REASON = "reason"


def newest(records: DataFrame, key: list[str], *order: Column) -> DataFrame:
    """Return one record for each key: the first in an order.

    Records that come first alike must be equal: which of them is returned is open.
    """
    place = "place"
    by_order = Window.partitionBy(*key).orderBy(*order)
    numbered = records.withColumn(place, F.row_number().over(by_order))
    return numbered.where(F.col(place) == 1).drop(place)


def judged(records: DataFrame, faults: Mapping[str, Column]) -> DataFrame:
    """Return the records with the first reason to reject each of them, or null if there is none."""
    reason = F.when(F.col(UNREADABLE).isNotNull(), UNREADABLE)
    for name, is_fault in faults.items():
        # What is absent cannot be compared, and is a fault as well.
        reason = reason.when(F.coalesce(is_fault, F.lit(True)), name)
    return records.withColumn(REASON, reason)


def accepted(records: DataFrame) -> DataFrame:
    """Return the judged records that are valid."""
    return records.where(F.col(REASON).isNull())


def rejected(records: DataFrame) -> DataFrame:
    """Return the judged records that are not, each as the text that it was."""
    whole = F.to_json(F.struct(*(name for name in records.columns if name not in _ADDED)))
    return records.where(F.col(REASON).isNotNull()).select(
        REASON, F.coalesce(UNREADABLE, whole).alias("record")
    )


_ADDED = {UNREADABLE, REASON}
