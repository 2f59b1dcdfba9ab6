"""What a job is called, everywhere: in EMR Serverless, in S3, in the events of its outlets.

Owns: the names that belong to one submission of one step. They are made from nothing but the row,
so that whoever repeats a submission finds what was there.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote

from lamplighter.errors import DefinitionError
from lamplighter.identifiers import OUTLET
from lamplighter.store.models import Runs, Steps
from lamplighter.store.rows import instant_text

_PREFIX = "jobs"
_CONTEXT = "context.json"
_REPORT = "report.json"
_LONGEST_NAME = 256
_LONGEST_KEY = 1_024
_FOLDER = re.compile(
    rf"s3://([^/]+)/{_PREFIX}/([^/]+)/([^/]+)/([^/]+)/(\d+)-([0-9a-f]+)/{re.escape(_CONTEXT)}"
)
# What a tag of AWS may not hold.
_NOT_IN_A_TAG = re.compile(r"[^A-Za-z0-9 /_.:=+@-]")
_LONGEST_TAG = 256


@dataclass(frozen=True)
class JobPlace:
    """Whose job it is, as its argument says."""

    dag_id: str
    run_key: str
    task_id: str
    submission: int
    mark: str

    @classmethod
    def read(cls, context_uri: str, *, bucket: str | None = None) -> Self | None:
        """Return whose job has this context, or None if it is not one of ours, in our bucket."""
        found = _FOLDER.fullmatch(context_uri)
        # Deployments may share an application, and see each other's jobs.
        if found is None or bucket not in (None, found[1]):
            return None
        dag_id, run_key, task_id = (unquote(part) for part in found.group(2, 3, 4))
        return cls(dag_id, run_key, task_id, int(found[5]), found[6])


@dataclass(frozen=True)
class JobName:
    """One submission of one step of one run."""

    dag_id: str
    run_key: str
    task_id: str
    submission: int
    # Of all these and of when the run was created: one of the same name, made anew after the first
    # was deleted, is another one.
    digest: str

    @classmethod
    def of(cls, run: Runs, step: Steps) -> Self:
        """Return the name of a step's present submission."""
        number = int(step.submission)
        run_created_at = instant_text(run.created_at)
        parts = (run.dag_id, run.run_key, step.step_id, str(number), run_created_at)
        digest = hashlib.sha256("|".join(parts).encode()).hexdigest()[:48]
        return cls(run.dag_id, run.run_key, step.step_id, number, digest)

    @property
    def place(self) -> JobPlace:
        """Whose job it is, as it will say itself."""
        return JobPlace(self.dag_id, self.run_key, self.task_id, self.submission, self._mark)

    @property
    def _mark(self) -> str:
        return self.digest[:12]

    @property
    def token(self) -> str:
        """The client token: with it, EMR Serverless starts one job however often it is asked."""
        return self.digest

    @property
    def name(self) -> str:
        """The name of the job, as people see it in the console."""
        full = f"{self.dag_id}/{self.run_key}/{self.task_id}/{self.submission}"
        ending = f"#{self._mark}"
        seen = "".join(char if char.isprintable() else "_" for char in full)
        return seen[: _LONGEST_NAME - len(ending)] + ending

    def context_uri(self, bucket: str) -> str:
        """Return where the job finds its context."""
        parts = (quote(part, safe="") for part in (self.dag_id, self.run_key, self.task_id))
        place = f"{self.submission}-{self._mark}"
        key = f"{_PREFIX}/{'/'.join(parts)}/{place}/{_CONTEXT}"
        if len(key) > _LONGEST_KEY:
            raise DefinitionError(
                f"task {self.task_id!r}: the names of DAG, run and task are too long together: S3"
                f" takes {_LONGEST_KEY} characters, and they have {len(key)}"
            )
        return f"s3://{bucket}/{key}"

    def event_id(self, asset: str) -> str:
        """Return the id of the event that tells of an outlet."""
        text = f"{self.digest}|{asset}"
        return f"{OUTLET}{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    def tags(self, run_id: str) -> dict[str, str]:
        """Return tags by which costs can be told apart."""
        values = {
            "lamplighter:dag_id": self.dag_id,
            "lamplighter:run_id": run_id,
            "lamplighter:task_id": self.task_id,
            "lamplighter:submission": str(self.submission),
        }
        return {key: _NOT_IN_A_TAG.sub("_", text)[:_LONGEST_TAG] for key, text in values.items()}


def report_uri(context_uri: str) -> str:
    """Return where a job leaves its report."""
    return context_uri.removesuffix(_CONTEXT) + _REPORT
