"""During an upgrade, and after a rollback: functions of two releases work on one deployment."""

from collections import Counter
from pathlib import Path

import pytest

from lamplighter.store.models import AssetEvents, Runs
from lamplighter_operations.runs import clear_run
from tests.tools import previous_release
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.releases import fixture, story
from tests.tools.releases.previous_functions import side_by_side


def test_functions_of_two_releases_share_a_deployment(tmp_path: Path) -> None:
    """Whichever of them a message meets, runs end, and each event is consumed once."""
    if (missing := previous_release.why_not()) is not None:
        pytest.skip(missing)
    release = previous_release.check_out(tmp_path / "previous", with_layers=False)
    with story.put_back(fixture.releases()[-1]) as lamp:
        (failed,) = [run for run in lamp.runs("chained") if run.state == "failed"]
        clear_run("chained", failed.run_key)
        begun = _begun(lamp)
        with side_by_side(lamp, release, seed=7):
            lamp.advance(minutes=30)
            lamp.emit("fx", event_id="fx-between")
            lamp.trigger("kinds", conf={"rows": 5}, logical_date="2026-01-02T00:00:00Z")
            lamp.check_invariants()
            lamp.advance(minutes=100)
        lamp.advance(minutes=15)

        assert {run.state for run in Runs.scan() if (run.dag_id, run.run_key) in begun} == {
            "success"
        }
        recorded = Counter(row.event_id for row in AssetEvents.query("fx") if row.seq)
        assert recorded["fx-2"] == recorded["fx-between"] == 1
        assert len(lamp.dead_letters()) == 1
        lamp.check_invariants()


def _begun(lamp: LocalDeployment) -> set[tuple[str, str]]:
    """Return the runs that are under way."""
    assert lamp.is_open
    return {(run.dag_id, run.run_key) for run in Runs.scan() if run.state == "running"}
