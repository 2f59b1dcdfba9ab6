"""Shortcuts through moto: used where they fit the installed version, left out where they do not."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from moto import mock_aws
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler
from moto.moto_api._internal import mock_random
from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask
from lamplighter_local import LocalDeployment
from lamplighter_local.emulator import direct_calls, quick_moto, shortcuts
from lamplighter_local.emulator.moto_memory import buckets, queues, tables

START = datetime(2026, 1, 1)
SHORTCUTS = ("transactions", "tables", "calls")


@pytest.fixture(autouse=True)
def tried_again() -> Iterator[None]:
    """Let each test try the shortcuts, and leave nothing of what it finds."""
    shortcuts.fits.cache_clear()
    yield
    shortcuts.fits.cache_clear()


def use_deployment() -> list[str]:
    """Return the states of some runs of a deployment that is used a little."""
    with DAG("hourly", schedule="@hourly", start_date=START) as hourly:
        SparkTask("load", job="jobs:load", outlets=[Asset("orders")])
    with DAG("use", schedule=[Asset("orders")]) as use:
        SparkTask("use", job="jobs:use")
    with LocalDeployment([hourly, use], at=START) as lamp:
        lamp.faults.at(1, "crash-after", "TransactWriteItems")
        lamp.advance(hours=3, minutes=10)
        lamp.check_invariants()
        return [run.state for dag_id in ("hourly", "use") for run in lamp.runs(dag_id)]


@pytest.mark.parametrize("shortcut", SHORTCUTS)
def test_every_shortcut_fits_the_locked_version_of_moto(shortcut: str) -> None:
    """With the version that this project is tested with, nothing is slow."""
    assert shortcuts.fits(shortcut)


def _without_names() -> AbstractContextManager[object]:
    """Return a moto in which what direct calls import is not there."""

    def missing(*_: object, **__: object) -> object:
        raise ImportError("cannot import name 'ServiceException'")

    return patch.object(direct_calls, "direct_calls", missing)


def _with_texts() -> AbstractContextManager[object]:
    """Return a moto whose handlers answer with texts, as those of 5.1 do."""
    return patch.object(DynamoHandler, "query", lambda _: "{}")


@contextmanager
def _with_another_order() -> Iterator[None]:
    """Enter a shortcut that would give items in another order."""
    in_order: Callable[[Any], list[Any]] = quick_moto._in_order
    with patch.object(quick_moto, "_in_order", lambda table: in_order(table)[::-1]):
        yield


@contextmanager
def _with_an_empty_index() -> Iterator[None]:
    """Enter a shortcut that would find nothing in an index."""
    nothing = ("t", DynamoType({"S": "other"}))
    with patch.object(quick_moto, "_index_key", lambda *_: nothing):
        yield


def _with_an_empty_projection() -> AbstractContextManager[object]:
    """Return a shortcut that would leave out the attributes of an index."""
    project: Callable[..., Any] = quick_moto._project
    return patch.object(quick_moto, "_project", lambda item, _: project(item, []))


@contextmanager
def _without_a_method() -> Iterator[None]:
    """Enter a moto that has no method of this name any more."""
    kept = Table.all_items
    with patch.object(Table, "every_item", kept, create=True):
        del Table.all_items
        try:
            yield
        finally:
            Table.all_items = kept  # type: ignore[method-assign] # as it was


@pytest.mark.parametrize(
    ("mismatch", "expected"),
    [
        (_without_names, {"transactions", "tables"}),
        (_with_another_order, {"transactions", "calls"}),
        (_with_an_empty_index, {"transactions", "calls"}),
        (_with_an_empty_projection, {"transactions", "calls"}),
    ],
)
def test_deployment_works_without_shortcuts_that_do_not_fit(
    mismatch: Callable[[], AbstractContextManager[object]], expected: set[str]
) -> None:
    """The others are still used, and runs come as they always do."""
    with mismatch():
        assert {name for name in SHORTCUTS if shortcuts.fits(name)} == expected
        assert use_deployment() == ["success"] * 6


def test_deployment_works_without_any_shortcut() -> None:
    """The plain moto is slower, and that is all."""
    with patch.object(shortcuts, "fits", lambda _: False):
        assert use_deployment() == ["success"] * 6


@pytest.mark.parametrize("mismatch", [_with_texts, _without_a_method])
def test_shortcut_that_fails_in_its_trial_is_left_out(
    mismatch: Callable[[], AbstractContextManager[object]],
) -> None:
    """Whatever another version of moto makes of it, the trial does not raise."""
    with mismatch():
        assert not all(shortcuts.fits(name) for name in SHORTCUTS)


def test_trial_leaves_no_trace() -> None:
    """Neither what moto holds nor what it draws next depends on whether there was a trial."""
    with mock_aws():
        mock_random.seed(7)
        expected = mock_random.random()
        mock_random.seed(7)
        assert all(shortcuts.fits(name) for name in SHORTCUTS)
        assert mock_random.random() == expected
        assert tables() == queues() == buckets() == []
