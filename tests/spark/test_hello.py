"""The smallest example, as it is shipped, on a real Spark."""

from pathlib import Path

from tests.tools.checked_deployment import LocalDeployment

BUNDLE = Path(__file__).parents[2] / "examples" / "hello"


def test_hello_counts_at_once_and_greets() -> None:
    """Right after the push there is one run of the last day, and one of what that tells."""
    with LocalDeployment(BUNDLE, at="2026-01-05T12:00:00Z", executor="spark") as lamp:
        lamp.advance(minutes=5)
        (counted,) = lamp.runs("count")
        (greeted,) = lamp.runs("greet")

        assert (counted.state, counted.run_id) == (
            "success",
            "scheduled__2026-01-04T00:00:00+00:00",
        )
        assert greeted.state == "success"
        assert [event.extra for event in greeted.events] == [{"counted": 1_000_000}]
        lamp.check_invariants()
