"""Attacks that once broke the guarantee: each is played, and does not."""

from __future__ import annotations

from scipy.stats import binom

from tests.attacks import late_first_phase, stale_counts

RISK = 0.1
FALSE_ALARM = 1e-6


def allowed(runs: int, risk: float = RISK) -> int:
    """The count that a risk which is kept exceeds with probability 1e-6 at most (exact tail)."""
    return int(binom.isf(FALSE_ALARM, runs, risk))


def test_late_results_of_phase_1_are_not_credited_to_arms_of_phase_2() -> None:
    """It was 20 of 20."""
    assert sum(map(late_first_phase, range(20))) <= 2


def test_no_rejection_rests_on_counts_of_different_times() -> None:
    assert not any(map(stale_counts, range(40)))
