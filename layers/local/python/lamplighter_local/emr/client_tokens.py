"""The client tokens that EMR Serverless remembers, so that a repeated request starts nothing."""

from pendulum import DateTime


class ClientTokens:
    """The job of each token, and when it was started."""

    def __init__(self) -> None:
        self.is_remembering = True
        self._jobs: dict[str, tuple[str, DateTime]] = {}

    def job_run_id(self, token: str, now: DateTime, lifetime: float | None) -> str | None:
        """Return the job of a token; None if it is new, or older than its lifetime in seconds."""
        if not self.is_remembering or token not in self._jobs:
            return None
        job_run_id, at = self._jobs[token]
        is_known = lifetime is None or (now - at).total_seconds() < lifetime
        return job_run_id if is_known else None

    def remember(self, token: str, job_run_id: str, now: DateTime) -> None:
        """Let a token stand for a job."""
        self._jobs[token] = (job_run_id, now)

    def forget_tokens(self) -> None:
        """Let every token be as good as new."""
        self._jobs.clear()
