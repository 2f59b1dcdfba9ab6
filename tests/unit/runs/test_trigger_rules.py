"""Trigger rules: every line of Airflow's table, and what follows while some tasks are not done."""

from itertools import product

import pytest

from lamplighter.dags.arguments import TRIGGER_RULES
from lamplighter.runs.dependencies import RuleDecision, evaluate_rule

S, F, U, K, R = "success", "failed", "upstream_failed", "skipped", "removed"
N, GOING, AGAIN, SENT, ENDING = "none", "running", "up_for_retry", "submitted", "cancelling"
UNDONE = (N, SENT, GOING, AGAIN, ENDING)

RUN, WAIT, SKIP, FAIL = RuleDecision.RUN, RuleDecision.WAIT, RuleDecision.SKIP, RuleDecision.FAIL

# The rule, the states of the tasks before it, and what it says.
TABLE = [
    # All succeeded, or were no part of the run; one that is not decides at once.
    ("all_success", (S, S), RUN),
    ("all_success", (S, R), RUN),
    ("all_success", (R, R), RUN),
    ("all_success", (S, N), WAIT),
    ("all_success", (F, N), FAIL),
    ("all_success", (U, S), FAIL),
    ("all_success", (K, N), SKIP),
    ("all_success", (K, F), FAIL),
    ("all_failed", (F, U), RUN),
    ("all_failed", (F, R), RUN),
    ("all_failed", (F, N), WAIT),
    ("all_failed", (S, N), SKIP),
    ("all_failed", (K, F), SKIP),
    ("all_done", (S, F, U, K, R), RUN),
    ("all_done", (S, N), WAIT),
    ("all_done_min_one_success", (S, F), RUN),
    ("all_done_min_one_success", (S, R), RUN),
    ("all_done_min_one_success", (S, N), WAIT),
    ("all_done_min_one_success", (K, N), SKIP),
    ("all_done_min_one_success", (K, S), SKIP),
    ("all_done_min_one_success", (F, U), FAIL),
    ("one_success", (S, N), RUN),
    ("one_success", (S, F), RUN),
    ("one_success", (F, N), WAIT),
    ("one_success", (K, K), SKIP),
    ("one_success", (K, F), FAIL),
    ("one_success", (U,), FAIL),
    ("one_failed", (F, N), RUN),
    ("one_failed", (U, N), RUN),
    ("one_failed", (S, N), WAIT),
    ("one_failed", (S, K, R), SKIP),
    ("one_done", (S, N), RUN),
    ("one_done", (F, N), RUN),
    ("one_done", (K, N), WAIT),
    ("one_done", (U, N), WAIT),
    ("one_done", (K, U, R), SKIP),
    ("none_failed", (S, K, R), RUN),
    ("none_failed", (K, K), RUN),
    ("none_failed", (S, N), WAIT),
    ("none_failed", (F, N), FAIL),
    ("none_failed", (U, N), FAIL),
    ("none_failed_min_one_success", (S, K, R), RUN),
    ("none_failed_min_one_success", (S, N), WAIT),
    ("none_failed_min_one_success", (K, K), SKIP),
    ("none_failed_min_one_success", (F, N), FAIL),
    ("none_failed_min_one_success", (U, S), FAIL),
    ("none_skipped", (S, F, U, R), RUN),
    ("none_skipped", (S, N), WAIT),
    ("none_skipped", (K, N), SKIP),
    ("all_skipped", (K, K), RUN),
    ("all_skipped", (K, N), WAIT),
    ("all_skipped", (S, N), SKIP),
    ("all_skipped", (F, K), SKIP),
    ("all_skipped", (U, K), SKIP),
    ("always", (N, N), RUN),
    ("always", (F,), RUN),
]


@pytest.mark.parametrize(("rule", "states", "expected"), TABLE)
def test_rule_given_states_says_as_in_the_table(
    rule: str, states: tuple[str, ...], expected: RuleDecision
) -> None:
    """Each line of the table holds, in whichever order the tasks before come."""
    assert evaluate_rule(rule, states) is expected
    assert evaluate_rule(rule, reversed(states)) is expected


def test_table_covers_every_rule_there_is() -> None:
    """No rule that an author may write is without a line here."""
    assert {rule for rule, _, _ in TABLE} == set(TRIGGER_RULES)


@pytest.mark.parametrize("rule", TRIGGER_RULES)
def test_task_without_tasks_before_it_always_runs(rule: str) -> None:
    """Where there is nothing to wait for, every rule lets a task run."""
    assert evaluate_rule(rule, ()) is RUN


@pytest.mark.parametrize("rule", TRIGGER_RULES)
def test_rule_whose_tasks_are_all_done_waits_no_longer(rule: str) -> None:
    """No rule waits for ever: once everything before is over, it decides."""
    for states in product((S, F, U, K, R), repeat=3):
        assert evaluate_rule(rule, states) is not WAIT


@pytest.mark.parametrize("rule", TRIGGER_RULES)
def test_decision_of_a_rule_is_never_taken_back(rule: str) -> None:
    """What a rule decided early it still says when the others are done: a race cannot change it."""
    for known in product((S, F, U, K, R), repeat=2):
        for undone in UNDONE:
            early = evaluate_rule(rule, (*known, undone))
            later = {evaluate_rule(rule, (*known, last)) for last in (S, F, U, K)}
            if early in (SKIP, FAIL):
                # A second kind of news may turn a skip into a failure, as in Airflow, never a run.
                assert RUN not in later, (known, undone)


@pytest.mark.parametrize("rule", TRIGGER_RULES)
def test_states_that_are_not_final_all_count_alike(rule: str) -> None:
    """A task that waits, runs, is tried again or cancelled is simply not done."""
    for known in product((S, F, K), repeat=1):
        assert len({evaluate_rule(rule, (*known, undone)) for undone in UNDONE}) == 1
