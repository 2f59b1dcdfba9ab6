"""What became of a step, as `report.json` says it.

Owns: how an end is told, and in how many words. Refuses: writing it anywhere.
"""

from __future__ import annotations

import json
import os
import runpy
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lamplighter_job.json_values import json_object
from lamplighter_job.outlets import ALIAS, ASSET
from lamplighter_job.secrets import without_secrets

if TYPE_CHECKING:
    from types import TracebackType

    from lamplighter_job.context import Context

VERSION = 1
SUCCESS = "success"
SKIPPED = "skipped"
FAILED = "failed"
MAX_REASON = 10_000

# Messages of errors that come out of the JVM carry its stack; some of the traceback must remain.
_MAX_HEADLINE = 4_000
_HERE = os.path.dirname(__file__)  # noqa: PTH120 - as it stands in a code object, also in a zip


@dataclass(frozen=True)
class Outcome:
    """How a step ended, in one line, and all that its report says."""

    document: dict[str, Any]
    summary: str = ""

    @property
    def state(self) -> str:
        """One of success, skipped and failed."""
        return str(self.document["state"])

    @property
    def exit_code(self) -> int:
        """What the process of the job says to its cluster."""
        return 1 if self.state == FAILED else 0

    def without_secrets(self) -> Outcome:
        """Return the same end, told without the secrets that this process has read."""
        return Outcome(without_secrets(self.document), without_secrets(self.summary))

    def to_bytes(self, secret: str) -> bytes:
        """Return the content of `report.json`, signed with the secret of the submission."""
        return json.dumps({**self.document, "secret": secret}).encode()


def succeeded(context: Context) -> Outcome:
    """Return the end of a program that did its work, with all that it stated."""
    return Outcome(
        _document(
            SUCCESS,
            outlets={each.name: each.facts() for each in context.outlets if each.kind == ASSET},
            aliases={each.name: each.additions() for each in context.outlets if each.kind == ALIAS},
            outputs=json_object(context.output, "context.output"),
        )
    )


def skipped(reason: str) -> Outcome:
    """Return the end of a program that found nothing to do."""
    return Outcome(_document(SKIPPED, reason=reason[:MAX_REASON] or None), summary=reason)


def failed(error: BaseException) -> Outcome:
    """Return the end of a program that raised something."""
    headline = _headline(error)
    return Outcome(_document(FAILED, reason=_reason(headline, error)), summary=headline)


def _document(state: str, reason: str | None = None, **facts: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"outlets": {}, "aliases": {}, "outputs": {}}
    return {"version": VERSION, "state": state, "reason": reason, **nothing, **facts}


def _headline(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the program ended itself with sys.exit({error.code!r})"
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def _reason(headline: str, error: BaseException) -> str:
    """Return the headline and as much of the end of the traceback as there is room for."""
    head = headline[:_MAX_HEADLINE] + "\n\n"
    lines = traceback.format_exception(type(error), error, _of_the_program(error.__traceback__))
    return head + "".join(lines)[-(MAX_REASON - len(head)) :]


def _of_the_program(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames by which the runner got to the program."""
    rest = trace
    while rest is not None and _is_machinery(rest.tb_frame.f_code.co_filename):
        rest = rest.tb_next
    return trace if rest is None else rest


def _is_machinery(file: str) -> bool:
    # Newer versions of Python keep these modules frozen; before, `runpy` is a file.
    return file.startswith((_HERE + os.sep, "<frozen ")) or file == runpy.__file__
