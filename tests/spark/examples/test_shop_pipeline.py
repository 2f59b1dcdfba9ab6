"""The example shop from raw files to report: equal to a plain calculation, in any order of runs."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs import fx, load_orders, orders, quality, report, revenue
from jobs.shop import lake
from jobs.shop.arithmetic import Numbers
from jobs.shop.generate import land_with_python
from jobs.shop.records import Shop, lines, publications
from jobs.shop.schemas import CLEAN, QUALITY, REPORT, REVENUE
from lamplighter_job import Context, SkipStep
from lamplighter_job.context import TriggeringEvent
from lamplighter_job.outlets import Outlet
from tests.spark.examples.frames import texts_of
from tests.spark.examples.shop_in_python import Line, best_products, hours, rejected_in
from tests.spark.examples.shop_in_python import revenue as expected_revenue

# From a Saturday to a Monday, so that two weeks have revenue.
SHOP = Shop(orders=900, days=3, seed=3, start=date(2026, 1, 3))
MIDNIGHT = datetime(2026, 1, 3, tzinfo=UTC)
DAY = timedelta(days=1)
# The jobs take intervals of any length; few long ones are quicker than many short ones.
ORDER_INTERVALS = list(pairwise(MIDNIGHT + n * DAY for n in range(4)))
ORDER_HOURS = hours(MIDNIGHT, MIDNIGHT + 3 * DAY)
PUBLISHED = [MIDNIGHT + timedelta(hours=at) for at in (5, 15.5, 39.5, 77)]
RATE_INTERVALS = list(pairwise(PUBLISHED))
WEEKS = [date(2025, 12, 29), date(2026, 1, 5)]

Job = Callable[[SparkSession, Context], None]


@dataclass
class Lake:
    """A data root, and runs of the jobs on it as the scheduler would make them."""

    spark: SparkSession
    root: str
    events: dict[str, list[TriggeringEvent]] = field(default_factory=dict)

    def run(self, job: Job, outlet: str, **facts: Any) -> dict[str, Any]:
        """Run a job; what it says about its outlet becomes an event."""
        context = Context(
            dag_id="dag",
            run_id="run",
            run_type="scheduled",
            task_id="task",
            try_number=1,
            submission=1,
            run_after=MIDNIGHT,
            variables={"data_root": f"{self.root}/"},
            outlets=(Outlet("asset", outlet, outlet),),
            **facts,
        )
        job(self.spark, context)
        extra = context.outlet(outlet).extra
        self.events.setdefault(outlet, []).append(TriggeringEvent(outlet, "id", MIDNIGHT, extra))
        return extra

    def run_interval(
        self, job: Job, outlet: str, interval: tuple[datetime, datetime]
    ) -> dict[str, Any]:
        """Run a job for an interval."""
        start, end = interval
        return self.run(job, outlet, data_interval_start=start, data_interval_end=end)

    def hourly(self, interval: tuple[datetime, datetime]) -> dict[str, Any]:
        """Run both steps of `orders_hourly`, the first as the script that it is."""
        start, end = map(str, interval)
        arguments = ["load_orders.py", "--from", start, "--to", end, "--root", f"{self.root}/"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", arguments)
            load_orders.main()
        return self.run_interval(orders.clean, "orders", interval)

    def rates(self, interval: tuple[datetime, datetime]) -> dict[str, Any]:
        """Run `fx_twice_a_day`."""
        return self.run_interval(fx.load, "fx", interval)

    def revenue(self, times: int = 1) -> None:
        """Run `revenue_daily` with all events that wait for it, each of them several times."""
        waiting = {name: self.events.pop(name) * times for name in ("orders", "fx")}
        self.run(revenue.build, "revenue", triggering_asset_events=waiting)

    def report(self) -> None:
        """Run `weekly_report` with all events that wait for it."""
        waiting = {"revenue": self.events.pop("revenue")}
        self.run(report.build, "weekly_report", triggering_asset_events=waiting)

    def read(self, table: str, schema: str, file_format: str = "parquet") -> DataFrame:
        """Return a whole table."""
        reader = self.spark.read.schema(schema).format(file_format).option("header", True)
        return reader.load(f"{self.root}/{table}")


@contextmanager
def dying_at_write(number: int) -> Iterator[None]:
    """Let the job die just before it replaces partitions for the nth time."""
    replace, writes = lake.replace_partitions, iter(range(number - 1))

    def write_or_die(*arguments: Any, **options: Any) -> None:
        if next(writes, None) is None:
            raise KeyboardInterrupt
        replace(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lake, "replace_partitions", write_or_die)
        with pytest.raises(KeyboardInterrupt):
            yield


@pytest.fixture(scope="module", name="tidy")
def run_in_order(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake on which every run came once, in order, with revenue in between."""
    found = Lake(spark, str(tmp_path_factory.mktemp("tidy")))
    land_with_python(SHOP, Path(found.root))
    for number, interval in enumerate(ORDER_INTERVALS):
        found.hourly(interval)
        found.rates(RATE_INTERVALS[number])
        if number > 0:
            found.revenue()
    found.report()
    return found


@pytest.fixture(scope="module", name="messy")
def run_out_of_order(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake on which runs came backwards and twice, died and were repeated."""
    found = Lake(spark, str(tmp_path_factory.mktemp("messy")))
    land_with_python(SHOP, Path(found.root))
    last, *others = reversed(ORDER_INTERVALS)
    found.rates(RATE_INTERVALS[2])
    with dying_at_write(2):
        found.hourly(last)
    found.hourly(last)
    found.revenue()
    for interval in others:
        found.hourly(interval)
    for interval in (RATE_INTERVALS[1], RATE_INTERVALS[0], RATE_INTERVALS[1]):
        found.rates(interval)
    found.revenue(times=2)
    with dying_at_write(2):
        found.report()
    found.events["revenue"] = [TriggeringEvent("revenue", "id", MIDNIGHT, {"days": ["2026-01-03"]})]
    found.report()
    return found


@pytest.fixture(scope="module", name="raw")
def make_raw_lines() -> list[Line]:
    """Return every raw line."""
    return [Line(*line) for line in (*lines(SHOP, Numbers()), *publications(SHOP))]


def money(cents: int | None) -> Decimal | None:
    """Return cents in francs."""
    return None if cents is None else Decimal(cents).scaleb(-2)


def texts(rows: list[tuple[Any, ...]]) -> list[str]:
    """Return rows as `texts_of` returns those of a table."""
    return sorted(map(str, rows))


def test_revenue_equals_the_plain_calculation(tidy: Lake, raw: list[Line]) -> None:
    """Every row of the revenue is what Python computes from the same raw lines."""
    until = PUBLISHED[-1].replace(tzinfo=None).isoformat()
    expected = [
        (
            *(country, product, row.orders, row.unpriced, row.pieces),
            *(money(row.gross), money(row.refunded), money(row.net), day),
        )
        for (day, country, product), row in expected_revenue(raw, ORDER_HOURS, until).items()
    ]
    assert any(row[6] for row in expected)  # there are refunds
    assert texts_of(tidy.read("revenue", REVENUE)) == texts(expected)


def test_report_equals_the_plain_calculation(tidy: Lake, raw: list[Line]) -> None:
    """Both weeks have the products, ranks and changes that Python computes."""
    until = PUBLISHED[-1].replace(tzinfo=None).isoformat()
    sales = expected_revenue(raw, ORDER_HOURS, until)
    expected = [
        (country, rank, product, money(now), money(before), change, week)
        for week in WEEKS
        for country, rank, product, now, before, change in best_products(sales, week)
    ]
    assert any(row[5] for row in expected)  # there are changes
    assert texts_of(tidy.read("report", REPORT)) == texts(expected)


def test_report_for_people_is_one_csv_file_a_week(tidy: Lake) -> None:
    """The CSV files hold the report, one file for each week, ranks in order."""
    folder = Path(tidy.root, "report_csv")
    files = sorted(folder.glob("week=*/*.csv"))
    assert [file.parent.name for file in files] == [f"week={week}" for week in WEEKS]
    header = files[0].read_text().splitlines()[0]
    assert header == "country,rank,product_id,revenue,revenue_before,change_percent"
    as_csv = tidy.read("report_csv", REPORT, "csv")
    assert texts_of(as_csv) == texts_of(tidy.read("report", REPORT))


@pytest.mark.parametrize("table", ["orders", "refunds", "fx"])
def test_clean_tables_do_not_depend_on_the_runs(tidy: Lake, messy: Lake, table: str) -> None:
    """Runs in another order, repeated or broken off leave the same clean records."""
    one, other = (lake.read(f"clean/{table}", CLEAN[table]) for lake in (tidy, messy))
    assert texts_of(one) == texts_of(other)


@pytest.mark.parametrize(("table", "schema"), [("revenue", REVENUE), ("report", REPORT)])
def test_results_do_not_depend_on_the_runs(
    tidy: Lake, messy: Lake, table: str, schema: str
) -> None:
    """Runs in another order, with repeated events, leave the same revenue and report."""
    assert texts_of(tidy.read(table, schema)) == texts_of(messy.read(table, schema))


def test_run_repeated_changes_no_file_of_others(tidy: Lake) -> None:
    """A repeated interval replaces its own folders, and names the days of late orders, too."""
    files = set(Path(tidy.root, "clean").rglob("*.parquet"))
    extra = tidy.hourly(ORDER_INTERVALS[1])
    gone = files - set(Path(tidy.root, "clean").rglob("*.parquet"))
    assert {file.parent.name for file in gone} == {"interval=2026-01-04T0000"}
    assert extra["days"] == ["2026-01-03", "2026-01-04"]
    assert extra["rows"] == sum(
        tidy.read(f"clean/{table}", CLEAN[table]).where("interval = '2026-01-04T0000'").count()
        for table in ("orders", "refunds")
    )


def test_rates_tell_the_days_that_may_use_them(tidy: Lake) -> None:
    """The event of a publication names its day and the two days after it."""
    extra = tidy.rates(RATE_INTERVALS[0])
    assert extra == {"days": ["2026-01-03", "2026-01-04", "2026-01-05"], "rows": extra["rows"]}


def test_quality_counts_equal_the_plain_calculation(tidy: Lake, raw: list[Line]) -> None:
    """The rejected lines of a day are counted by table and reason."""
    tidy.run_interval(quality.report, "none", ORDER_INTERVALS[0])
    counted = tidy.read("quality/day=2026-01-03", QUALITY).collect()
    among = ORDER_HOURS[:24]
    assert {(row["table"], row["reason"]): row["records"] for row in counted} == rejected_in(
        raw, among
    )


def test_rejected_records_are_kept_with_their_reason(tidy: Lake, raw: list[Line]) -> None:
    """Nothing is lost: what is not clean lies among the rejected, for its reason."""
    found = Counter(
        (table, row["reason"])
        for table in ("orders", "refunds")
        for row in tidy.read(f"rejected/{table}", "reason STRING, record STRING").collect()
    )
    expected = rejected_in((line for line in raw if line.table != "fx"), ORDER_HOURS)
    assert found == expected


def test_run_on_time_reports_the_week_before(tidy: Lake) -> None:
    """A run of Monday without events rewrites the report of the week that is over."""
    monday = datetime(2026, 1, 5, 6, tzinfo=UTC)
    extra = tidy.run(report.build, "weekly_report", data_interval_end=monday)
    assert extra == {"weeks": ["2025-12-29"]}


@pytest.mark.parametrize("job", [revenue.build, report.build])
def test_events_without_days_skip_the_step(spark: SparkSession, tmp_path: Path, job: Job) -> None:
    """Where no event names a day there is nothing to compute."""
    empty = {"orders": [TriggeringEvent("orders", "id", MIDNIGHT)]}
    with pytest.raises(SkipStep, match="no event names a day"):
        Lake(spark, str(tmp_path)).run(job, "none", triggering_asset_events=empty)


def test_hours_without_files_skip_the_step(spark: SparkSession, tmp_path: Path) -> None:
    """Where nothing arrived there is nothing to announce, for orders and for rates."""
    nowhere = Lake(spark, str(tmp_path))
    with pytest.raises(SkipStep, match="nothing arrived"):
        nowhere.hourly((MIDNIGHT, MIDNIGHT + timedelta(hours=1)))
    with pytest.raises(SkipStep, match="no exchange rates"):
        nowhere.rates((MIDNIGHT, MIDNIGHT + timedelta(hours=1)))


def test_interval_of_broken_hours_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Files come by the hour, so an interval that ends within one cannot be loaded."""
    with pytest.raises(ValueError, match="not made of whole hours"):
        load_orders.load(spark, str(tmp_path), MIDNIGHT, MIDNIGHT + timedelta(minutes=90))
