"""Releases of EMR Serverless and the end of their support, as AWS announced it. Pure.

Checked on 17 November 2026. Of `emr-spark-8.0.0` sources name 20 May of 2027 and of 2028; the
earlier one counts. A release that is not listed has no known end.
"""

from datetime import date

SUPPORT_ENDS = {
    "emr-spark-8.0.0": date(2027, 5, 20),
    "emr-spark-8.1.0": date(2029, 9, 7),
}
# Enough to try another release and to deploy it.
_WARNING_DAYS = 120


def support_problem(release: str, today: date) -> str | None:
    """Return that the support of a release ends soon, or has ended; None if it does not."""
    ends = SUPPORT_ENDS.get(release)
    if ends is None or (ends - today).days > _WARNING_DAYS:
        return None
    newest = max(SUPPORT_ENDS, key=lambda name: SUPPORT_ENDS[name])
    verb = "ends" if ends >= today else "ended"
    return f"support of {release} {verb} on {ends}: deploy with -c emr_release={newest}"
