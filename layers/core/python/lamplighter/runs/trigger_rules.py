"""When a task may run, given what became of those before it. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum, auto

from lamplighter.runs.states import FAILED, OVER, SKIPPED, SUCCESS, UPSTREAM_FAILED

# A task that is not part of the run, because of its dates.
REMOVED = "removed"
_DONE = OVER | {REMOVED}


class RuleDecision(Enum):
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


def evaluate_rule(rule: str, upstream: Iterable[str]) -> RuleDecision:
    """Return what a rule says, given the states of the tasks directly before one."""
    before = _Upstream(upstream)
    return _RULES[rule](before) if before.total else RuleDecision.RUN


def _all_success(up: _Upstream) -> RuleDecision:
    if up.failed:
        return RuleDecision.FAIL
    if up.skipped:
        return RuleDecision.SKIP
    return RuleDecision.RUN if up.success + up.removed == up.total else RuleDecision.WAIT


def _all_failed(up: _Upstream) -> RuleDecision:
    if up.success or up.skipped:
        return RuleDecision.SKIP
    return RuleDecision.RUN if up.failed + up.removed == up.total else RuleDecision.WAIT


def _all_done(up: _Upstream) -> RuleDecision:
    return RuleDecision.RUN if up.are_done else RuleDecision.WAIT


def _all_done_min_one_success(up: _Upstream) -> RuleDecision:
    if up.skipped:
        return RuleDecision.SKIP
    if not up.are_done:
        return RuleDecision.WAIT
    return RuleDecision.RUN if up.success else RuleDecision.FAIL


def _one_success(up: _Upstream) -> RuleDecision:
    if up.success:
        return RuleDecision.RUN
    if not up.are_done:
        return RuleDecision.WAIT
    return RuleDecision.FAIL if up.failed else RuleDecision.SKIP


def _one_failed(up: _Upstream) -> RuleDecision:
    if up.failed:
        return RuleDecision.RUN
    return RuleDecision.SKIP if up.are_done else RuleDecision.WAIT


def _one_done(up: _Upstream) -> RuleDecision:
    if up.success or up.failed_themselves:
        return RuleDecision.RUN
    return RuleDecision.SKIP if up.are_done else RuleDecision.WAIT


def _none_failed(up: _Upstream) -> RuleDecision:
    if up.failed:
        return RuleDecision.FAIL
    return RuleDecision.RUN if up.are_done else RuleDecision.WAIT


def _none_failed_min_one_success(up: _Upstream) -> RuleDecision:
    if up.failed:
        return RuleDecision.FAIL
    if not up.are_done:
        return RuleDecision.WAIT
    return RuleDecision.RUN if up.success else RuleDecision.SKIP


def _none_skipped(up: _Upstream) -> RuleDecision:
    if up.skipped:
        return RuleDecision.SKIP
    return RuleDecision.RUN if up.are_done else RuleDecision.WAIT


def _all_skipped(up: _Upstream) -> RuleDecision:
    if up.success or up.failed:
        return RuleDecision.SKIP
    return RuleDecision.RUN if up.are_done else RuleDecision.WAIT


_RULES: dict[str, Callable[[_Upstream], RuleDecision]] = {
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
    "always": lambda _: RuleDecision.RUN,
}
