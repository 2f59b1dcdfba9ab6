"""The thirteen tables. Each model owns the names, types, keys and indexes of one."""

from lamplighter.store.models.assets import AssetEvents, AssetQueue, Assets
from lamplighter.store.models.catalog import Catalog, WatcherStates
from lamplighter.store.models.dags import Dags, DagVersions
from lamplighter.store.models.runs import Backfills, Jobs, Limits, Runs, Steps, Variables

TABLES = (
    Dags,
    DagVersions,
    Runs,
    Steps,
    Jobs,
    Backfills,
    Assets,
    AssetEvents,
    AssetQueue,
    Catalog,
    Limits,
    Variables,
    WatcherStates,
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
    "Jobs",
    "Limits",
    "Runs",
    "Steps",
    "Variables",
    "WatcherStates",
]
