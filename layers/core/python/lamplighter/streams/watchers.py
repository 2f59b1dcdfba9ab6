"""Watchers ready to run: read from their rows, with their triggers built.

Owns: how author code is found. The function `watch` runs it in a process of its bundle, without
rights (see `isolation`); a local deployment runs it in its own. There two bundles may have modules
of the same name: a module is only visible while its own bundle is imported, so a trigger's file
must import what it needs at the top.
"""

import atexit
import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from threading import RLock
from types import ModuleType
from typing import Any, Self

from pendulum import DateTime

from lamplighter import aws, runtime, settings
from lamplighter.assets.asset import decode_trigger
from lamplighter.bundles.archive import MAX_ARCHIVE_BYTES, open_stored
from lamplighter.bundles.layout import IMPORT_FOLDERS, add_to_import_path
from lamplighter.identifiers import bundle_key
from lamplighter.loading import author_code_allowed
from lamplighter.store.models import Catalog
from lamplighter.store.watchers import trigger_hash
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.feeds import StreamInfo
from lamplighter.zones import iso, parse_instant

_lock = RLock()


@runtime.cached()
def _folders() -> dict[str, tuple[str, Path]]:
    """Return the unpacked version of each bundle, and its folder."""
    return {}


@runtime.cached()
def _modules() -> dict[Path, dict[str, ModuleType]]:
    return {}


@dataclass(frozen=True)
class Watcher:
    """A watcher of an asset, as declared by its DAG."""

    asset: str  # name
    name: str
    trigger: dict[str, Any]  # serialized
    bundle: str
    bundle_version: str
    dag_ids: tuple[str, ...]
    created_at: DateTime
    # The folder of a bundle that was not pushed.
    root: Path | None = field(default=None, kw_only=True)

    @property
    def is_authors(self) -> bool:
        """Whether its trigger is author code."""
        return not self.trigger["type"].startswith("lamplighter.")

    def to_json(self) -> dict[str, Any]:
        """Return it for a process that has the files of its bundle."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**known, "created_at": iso(self.created_at), "root": None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], root: Path) -> Self:
        """Return what `to_json` wrote, with the files of its bundle below `root`."""
        more = {"dag_ids": tuple(data["dag_ids"]), "created_at": parse_instant(data["created_at"])}
        return cls(**{**data, **more, "root": root})

    @cached_property
    def id(self) -> str:
        """Its identity: a watcher with another trigger is another watcher."""
        return f"{self.path}/{trigger_hash(self.trigger)}"

    @property
    def versioned_id(self) -> str:
        """Its identity in one version of its bundle, which may have mended it."""
        return f"{self.id}@{self.bundle_version}"

    @property
    def path(self) -> str:
        """The name for people."""
        return f"{self.asset}/{self.name}"

    @property
    def title(self) -> str:
        """The name in error messages."""
        return f"watcher {self.name!r} of asset {self.asset!r}"

    @property
    def log_fields(self) -> dict[str, Any]:
        """Fields for log records."""
        return {"asset": self.asset, "watcher": self.name, "dag_ids": self.dag_ids}

    @property
    def stream_info(self) -> StreamInfo:
        """Its source and stream."""
        return StreamInfo.from_json(self.trigger)

    def build(self) -> BaseEventTrigger:
        """Return the trigger, which may be author code."""
        with self._importable() if self.is_authors else nullcontext(), author_code_allowed():
            return decode_trigger(self.trigger)

    @contextmanager
    def _importable(self) -> Iterator[None]:
        """Make the modules of the watcher's bundle importable within the block."""
        with _lock:
            root = self.root or unpacked(self.bundle, self.bundle_version)
            # Modules of the same name, such as `jobs`, may be another bundle's.
            others = {
                name: module
                for name, module in sys.modules.items()
                if name.partition(".")[0] in IMPORT_FOLDERS
            }
            import_path = list(sys.path)
            _forget(others)
            modules = _modules()
            sys.modules.update(modules.get(root, {}))
            add_to_import_path(root)
            try:
                yield
            finally:
                sys.path[:] = import_path
                found = list(sys.modules.items())
                modules[root] = {name: module for name, module in found if _is_below(module, root)}
                _forget(modules[root])
                sys.modules.update(others)


def _forget(names: Iterable[str]) -> None:
    for name in names:
        del sys.modules[name]


def _is_below(module: ModuleType, root: Path) -> bool:
    # A namespace package has a path but no file.
    paths = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    # Texts and not paths: all modules of the process are looked at, for every trigger.
    return any(path is not None and path.startswith(f"{root}{os.sep}") for path in paths)


def unpacked(bundle: str, version: str) -> Path:
    """Return the folder of a bundle version, downloaded once; older versions are removed."""
    with _lock:
        folders = _folders()
        known = folders.get(bundle)
        if known is not None and known[0] == version:
            return known[1]
        folder, root = fetched(bundle, version)
        # Lambda discards its disk, a developer's machine does not.
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        folders[bundle] = version, root
        if known is not None:
            _modules().pop(known[1], None)
            shutil.rmtree(known[1].parent)
        return root


def fetched(bundle: str, version: str) -> tuple[Path, Path]:
    """Return a new folder, and the root of a bundle version in it."""
    bucket, key = settings.current().require("bucket"), bundle_key(bundle, version)
    archive = aws.client("s3").get_object(Bucket=bucket, Key=key)
    content = archive["Body"].read(MAX_ARCHIVE_BYTES + 1)
    folder = Path(mkdtemp(prefix="lamplighter-bundle-")).resolve()
    try:
        return folder, open_stored(content, key, folder / "bundle")
    except BaseException:
        shutil.rmtree(folder)  # or repeated attempts would fill the disk
        raise


def watchers_in(rows: Iterable[Catalog]) -> list[Watcher]:
    """Return the watchers of rows; identical ones of several DAGs count as one."""
    found: dict[str, Watcher] = {}
    for row in sorted(rows, key=lambda row: row.id):
        watcher = Watcher(
            **row.watcher,
            bundle=row.bundle or "",
            bundle_version=row.bundle_version or "",
            dag_ids=(row.id.partition("/")[0],),
            created_at=row.created_at,
        )
        known = found.setdefault(watcher.id, watcher)
        if known is not watcher:
            found[watcher.id] = replace(
                known,
                dag_ids=(*known.dag_ids, *watcher.dag_ids),
                created_at=min(known.created_at, watcher.created_at),
            )
    return list(found.values())


def by_stream(watchers: Sequence[Watcher]) -> dict[str, list[Watcher]]:
    """Return the watchers by a hash of their shared source; one without a key has its own.

    Author code is shared within its bundle only: it runs in a process of that bundle.
    """
    found: dict[str, list[Watcher]] = {}
    for watcher in watchers:
        key = watcher.stream_info.stream or f"(own) {watcher.id}"
        key = f"{watcher.bundle}/{key}" if watcher.is_authors else key
        found.setdefault(hashlib.sha256(key.encode()).hexdigest(), []).append(watcher)
    return found
