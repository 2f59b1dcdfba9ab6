"""A DAG that has moved to another bundle: what its old bundle still says about it."""

from lamplighter import DAG
from lamplighter_local.faults.deployment_faults import DeploymentFaults
from lamplighter_local.stack import LocalStack
from tests.tools.invariants.tables import require_sound

MOVED = DAG("moved", schedule=None)


def test_moved_dag_is_not_retired_by_its_old_bundle_when_the_index_lags(
    stack: LocalStack,
) -> None:
    """The old bundle's delayed clean-up finds the DAG in a stale index and leaves it alone."""
    faults = DeploymentFaults()
    with faults.injected_into(stack):
        stack.push_dags([MOVED], bundle="old")
        stack.push_dags([], bundle="old")
        assert stack.dag("moved").is_stale
        stack.push_dags([MOVED], bundle="new")
        assert not stack.dag("moved").is_stale

        # From here on the index answers with what it knew before the move.
        faults.probability("Query", stale=1)
        stack.advance(minutes=2)

    assert any("stale" in struck for struck in faults.injected)
    row = stack.dag("moved")
    assert (row.bundle, row.is_stale, row.has_import_errors) == ("new", False, False)
    require_sound()
