"""Parcels by region: two watchers share the messages of a queue that Lambda does not receive.

    ship_north   parcels for the north   `north_parcels`   ┐ one consumer of
    ship_south   parcels for the south   `south_parcels`   ┘ the queue for both

Deployed, the function `watch` needs a policy that lets it receive and delete messages of `parcels`.
"""

from lamplighter import DAG, Asset, AssetWatcher, SparkTask
from triggers.own_queue import OwnQueueTrigger

for region in ("north", "south"):
    trigger = OwnQueueTrigger(queue="parcels", region=region)
    parcels = Asset(f"{region}_parcels", watchers=[AssetWatcher("queue", trigger)])
    with DAG(f"ship_{region}", schedule=parcels, description=f"Shows the parcels for the {region}"):
        SparkTask("show", job="jobs.parcels:show")
