"""The ten tables. Each model owns the names, types, keys and indexes of one."""

from lamplighter.store.models.assets import AssetEvents, AssetQueue, Assets
from lamplighter.store.models.catalog import Catalog
from lamplighter.store.models.dags import Dags, DagVersions
from lamplighter.store.models.runs import Backfills, Limits, Runs, Steps

TABLES = (
    Dags,
    DagVersions,
    Runs,
    Steps,
    Backfills,
    Assets,
    AssetEvents,
    AssetQueue,
    Catalog,
    Limits,
)

__all__ = [
    "TABLES",
    "AssetEvents",
    "AssetQueue",
    "Assets",
    "Backfills",
    "Catalog",
    "DagVersions",
    "Dags",
    "Limits",
    "Runs",
    "Steps",
]
