"""Parcels by region: two watchers share the messages of a queue that Lambda does not receive.

    ship_north   parcels for the north   `north_parcels`   ┐ one consumer of
    ship_south   parcels for the south   `south_parcels`   ┘ the queue for both

Put the URL of your queue below, and a role that may read it into `watcher_roles`.
"""

from lamplighter import DAG, Asset, AssetWatcher, SparkTask
from triggers.own_queue import OwnQueueTrigger

PARCELS = "https://sqs.us-east-1.amazonaws.com/123456789012/parcels"

for region in ("north", "south"):
    trigger = OwnQueueTrigger(queue_url=PARCELS, region=region)
    parcels = Asset(f"{region}_parcels", watchers=[AssetWatcher("queue", trigger)])
    with DAG(f"ship_{region}", schedule=parcels, description=f"Shows the parcels for the {region}"):
        SparkTask("show", job="jobs.parcels:show")
