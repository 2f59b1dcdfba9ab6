"""When a task may run, given what became of those before it. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum, auto

from lamplighter.runs.moves import FAILED, OVER, SKIPPED, SUCCESS, UPSTREAM_FAILED

# A task that is not part of the run, because of its dates.
REMOVED = "removed"
_DONE = OVER | {REMOVED}


class Verdict(Enum):
    """What a trigger rule says about a task."""

    WAIT = auto()
    RUN = auto()
    SKIP = auto()
    FAIL = auto()  # as upstream_failed


class _Upstream:
    """How many of the tasks before one are in which state."""

    def __init__(self, states: Iterable[str]) -> None:
        self._counts = Counter(states)
        self.total = self._counts.total()
        self.success = self._counts[SUCCESS]
        self.skipped = self._counts[SKIPPED]
        self.removed = self._counts[REMOVED]
        self.failed = self._counts[FAILED] + self._counts[UPSTREAM_FAILED]
        self.failed_themselves = self._counts[FAILED]

    @property
    def are_done(self) -> bool:
        return sum(self._counts[state] for state in _DONE) == self.total


def verdict(rule: str, upstream: Iterable[str]) -> Verdict:
    """Return what a rule says, given the states of the tasks directly before one."""
    before = _Upstream(upstream)
    return _RULES[rule](before) if before.total else Verdict.RUN


def _all_success(up: _Upstream) -> Verdict:
    if up.failed:
        return Verdict.FAIL
    if up.skipped:
        return Verdict.SKIP
    return Verdict.RUN if up.success + up.removed == up.total else Verdict.WAIT


def _all_failed(up: _Upstream) -> Verdict:
    if up.success or up.skipped:
        return Verdict.SKIP
    return Verdict.RUN if up.failed + up.removed == up.total else Verdict.WAIT


def _all_done(up: _Upstream) -> Verdict:
    return Verdict.RUN if up.are_done else Verdict.WAIT


def _all_done_min_one_success(up: _Upstream) -> Verdict:
    if up.skipped:
        return Verdict.SKIP
    if not up.are_done:
        return Verdict.WAIT
    return Verdict.RUN if up.success else Verdict.FAIL


def _one_success(up: _Upstream) -> Verdict:
    if up.success:
        return Verdict.RUN
    if not up.are_done:
        return Verdict.WAIT
    return Verdict.FAIL if up.failed else Verdict.SKIP


def _one_failed(up: _Upstream) -> Verdict:
    if up.failed:
        return Verdict.RUN
    return Verdict.SKIP if up.are_done else Verdict.WAIT


def _one_done(up: _Upstream) -> Verdict:
    if up.success or up.failed_themselves:
        return Verdict.RUN
    return Verdict.SKIP if up.are_done else Verdict.WAIT


def _none_failed(up: _Upstream) -> Verdict:
    if up.failed:
        return Verdict.FAIL
    return Verdict.RUN if up.are_done else Verdict.WAIT


def _none_failed_min_one_success(up: _Upstream) -> Verdict:
    if up.failed:
        return Verdict.FAIL
    if not up.are_done:
        return Verdict.WAIT
    return Verdict.RUN if up.success else Verdict.SKIP


def _none_skipped(up: _Upstream) -> Verdict:
    if up.skipped:
        return Verdict.SKIP
    return Verdict.RUN if up.are_done else Verdict.WAIT


def _all_skipped(up: _Upstream) -> Verdict:
    if up.success or up.failed:
        return Verdict.SKIP
    return Verdict.RUN if up.are_done else Verdict.WAIT


_RULES: dict[str, Callable[[_Upstream], Verdict]] = {
    "all_success": _all_success,
    "all_failed": _all_failed,
    "all_done": _all_done,
    "all_done_min_one_success": _all_done_min_one_success,
    "one_success": _one_success,
    "one_failed": _one_failed,
    "one_done": _one_done,
    "none_failed": _none_failed,
    "none_failed_min_one_success": _none_failed_min_one_success,
    "none_skipped": _none_skipped,
    "all_skipped": _all_skipped,
    "always": lambda _: Verdict.RUN,
}
