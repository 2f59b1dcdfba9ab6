"""Until when releases of EMR Serverless are supported."""

from datetime import date

import pytest

from lamplighter.executors.emr_releases import support_problem


@pytest.mark.parametrize(
    ("release", "today", "says"),
    [
        ("emr-spark-8.0.0", date(2026, 11, 18), None),
        (
            "emr-spark-8.0.0",
            date(2027, 2, 1),
            (
                "support of emr-spark-8.0.0 ends on 2027-05-20: deploy with"
                " -c emr_release=emr-spark-8.1.0"
            ),
        ),
        (
            "emr-spark-8.0.0",
            date(2027, 5, 21),
            (
                "support of emr-spark-8.0.0 ended on 2027-05-20: deploy with"
                " -c emr_release=emr-spark-8.1.0"
            ),
        ),
        ("emr-spark-8.1.0", date(2029, 1, 1), None),
        ("emr-7.14.0", date(2040, 1, 1), None),
    ],
)
def test_end_of_support_is_told_in_time(release: str, today: date, says: str | None) -> None:
    """Four months before, and from then on; a release of which nothing is known is let be."""
    assert support_problem(release, today) == says
