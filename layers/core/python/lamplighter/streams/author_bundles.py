"""The code of bundles, for the triggers that authors wrote.

Owns: where a bundle is unpacked, and that two bundles may have modules of the same name. A module
is found under its name only while its own bundle is being imported, so a trigger's file imports
what it needs at its top, as is the custom.
"""

import atexit
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from threading import RLock
from types import ModuleType

from lamplighter import aws, runtime, settings
from lamplighter.bundles.archive import MAX_ARCHIVE_BYTES, open_stored
from lamplighter.bundles.layout import IMPORT_FOLDERS, add_to_import_path, bundle_key

_lock = RLock()


@runtime.cached()
def _folders() -> dict[str, tuple[str, Path]]:
    """Return, of each bundle, the version that is unpacked, and where."""
    return {}


@runtime.cached()
def _modules() -> dict[Path, dict[str, ModuleType]]:
    """Return the imported modules of each folder."""
    return {}


@contextmanager
def importing_from(bundle: str, version: str, path: str) -> Iterator[None]:
    """Let the modules of a bundle be found until the block ends, if `path` may be one of them."""
    if path.startswith("lamplighter."):
        yield
        return
    with importing_below(unpacked(bundle, version)):
        yield


@contextmanager
def importing_below(root: Path) -> Iterator[None]:
    """Let the modules of a bundle's folder be found until the block ends."""
    with _lock:
        # Whatever else this process has imported as `jobs` or `triggers` is not this bundle's.
        others = {name: module for name, module in sys.modules.items() if _is_of_a_bundle(name)}
        importable = list(sys.path)
        _remove(others)
        modules = _modules()
        sys.modules.update(modules.get(root, {}))
        add_to_import_path(root)
        try:
            yield
        finally:
            sys.path[:] = importable
            now = list(sys.modules.items())
            modules[root] = {name: module for name, module in now if _is_below(module, root)}
            _remove(modules[root])
            sys.modules.update(others)


def _is_of_a_bundle(name: str) -> bool:
    return name.partition(".")[0] in IMPORT_FOLDERS


def _remove(names: Iterable[str]) -> None:
    for name in names:
        del sys.modules[name]


def _is_below(module: ModuleType, root: Path) -> bool:
    # A folder without an `__init__` has no file, but a path.
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return any(place is not None and Path(place).is_relative_to(root) for place in places)


def unpacked(bundle: str, version: str) -> Path:
    """Return the folder of a bundle's version, fetched once; older versions of it are removed."""
    with _lock:
        folders = _folders()
        known = folders.get(bundle)
        if known is not None and known[0] == version:
            return known[1]
        bucket, key = settings.current().require("bucket"), bundle_key(bundle, version)
        archive = aws.client("s3").get_object(Bucket=bucket, Key=key)
        content = archive["Body"].read(MAX_ARCHIVE_BYTES + 1)
        folder = Path(mkdtemp(prefix="lamplighter-bundle-")).resolve()
        # A function's disk ends with it, but not that of a machine on which it is tried out.
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        try:
            root = open_stored(content, key, folder / "bundle")
        except BaseException:
            shutil.rmtree(folder)  # or a function that tries again and again fills its disk
            raise
        folders[bundle] = version, root
        if known is not None:
            _modules().pop(known[1], None)
            shutil.rmtree(known[1].parent)
        return root
