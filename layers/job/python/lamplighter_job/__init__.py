"""What runs beside a job: its context, its runner, its report.

Ships with every job, so it needs nothing but PySpark and Python 3.9, and importing it does not even
import PySpark.
"""

from lamplighter_job.context import Context, current_context, secret
from lamplighter_job.errors import SkipStep

__all__ = ["Context", "SkipStep", "current_context", "secret"]
