from airflow.sdk import DAG, Asset, AssetAlias, AssetAny, AssetWatcher, task
from airflow.timetables.assets import AssetOrTimeSchedule
from airflow.timetables.trigger import CronTriggerTimetable

orders = Asset(name="orders", uri="s3://lake/orders", group="sales")
fx = Asset("fx")
late = AssetAlias("late")

with DAG("assets_any", schedule=AssetAny(orders, fx)):

    @task(outlets=[late])
    def build(triggering_asset_events=None):
        print("built")

    build()

with DAG(
    "assets_or_time",
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("0 5 * * *", timezone="Europe/Berlin"), assets=[orders]
    ),
):

    @task
    def again():
        print("again")

    again()
