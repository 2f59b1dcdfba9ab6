"""Moves a live run on: the one verb that everything ends in.

Owns: the order in which things happen. What is known is read, what follows is written in one
transaction, and only then jobs are started or cancelled and others told. Whoever dies on the way
leaves rows that say what is to be done; doing it again changes nothing.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from lamplighter import settings
from lamplighter.errors import PermanentError, TransientError
from lamplighter.queues import RunName
from lamplighter.runs.acts import act, cancel_strays
from lamplighter.runs.observe import Seen
from lamplighter.runs.report import RunsReport
from lamplighter.runs.turn import SETTLE, SUBMIT, Hands, Turn
from lamplighter.runs.view import RunView
from lamplighter.store.transactions import TransactionCanceled, pack, sleep_with_jitter, transact

__all__ = ["SETTLE", "SUBMIT", "Hands", "advance", "advance_all", "each_of"]

log = logging.getLogger(__name__)

_TRIES = 24
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


def advance(dag_id: str, run_key: str, *, seen: Sequence[Seen] = (), hands: Hands) -> RunsReport:
    """Let a run be as far as it can be now, given what is known of its jobs."""
    report = RunsReport()
    pause = _FIRST_PAUSE
    for _ in range(_TRIES):
        view = RunView.read(dag_id, run_key)
        if view is None:
            report.cancelled_jobs += cancel_strays(seen, hands)
            return report
        turn = Turn(view, hands, report)
        turn.decide(seen)
        if turn.has_to_write:
            try:
                view.commit()
            except TransactionCanceled:
                sleep_with_jitter(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
        more = act(turn)
        if not more and not turn.is_cut_short:
            return report
        seen = [*seen, *more]
        pause = _FIRST_PAUSE
    raise TransientError(f"run {run_key} of DAG {dag_id!r} is being moved by too many at once")


def advance_all(names: Sequence[RunName], *, hands: Hands) -> RunsReport:
    """Let each run be as far as it can be now; those that only begin something share a write.

    One that fails does not keep the others from being moved; its error is raised in the end.
    """
    report = RunsReport()
    turns = _decided(names, hands, report)
    done = [turn for turn in turns if not turn.has_to_write]
    shared = [turn for turn in turns if turn.has_to_write and not turn.shares_a_row]
    limit = settings.current().transaction_actions
    for bulk in pack(shared, (lambda turn: turn.view.size + 1, limit)):
        try:
            transact([write for turn in bulk for write in turn.view.writes()])
        except (TransactionCanceled, TransientError, PermanentError):
            continue  # one of them has moved, or it was written unheard: alone, each finds out
        done += bulk
    written = {turn.view.name: turn for turn in done}

    def go_on(name: RunName) -> RunsReport:
        found = written.get(name)
        more = act(found) if found is not None else []
        if found is None or found.is_cut_short or more:
            return advance(*name, seen=more, hands=hands)
        return RunsReport()

    report.add(each_of(names, go_on))
    return report


def each_of(names: Iterable[RunName], move: Callable[[RunName], RunsReport]) -> RunsReport:
    """Move each run; the error of one is raised when the others have been moved."""
    report = RunsReport()
    failures: list[Exception] = []
    for name in dict.fromkeys(names):
        try:
            report.add(move(name))
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)
    if failures:
        raise failures[0]
    return report


def _decided(names: Sequence[RunName], hands: Hands, report: RunsReport) -> list[Turn]:
    """Return the turns of those runs about which a decision is possible."""
    turns = []
    for view in RunView.read_all(names):
        turn = Turn(view, hands, report)
        try:
            turn.decide(())
        except Exception:  # whoever moves it alone is told what is wrong with it
            log.debug("run %s has to be moved alone", view.name, exc_info=True)
        else:
            turns.append(turn)
    return turns
