"""Attacks that once broke the guarantee: each is played, and does not."""

from __future__ import annotations

import pytest

from tests.validation.attacks import (
    RISK,
    allowed,
    declined_arm,
    drifting_log,
    incomplete_log,
    late_first_phase,
    stale_counts,
)
from tests.validation.attacks_stages import (
    CASES,
    dropped_harm,
    guardrail_over_stages,
    out_after_the_alarm,
    watch_over_stages,
    wrong_in_some_stage,
)

pytestmark = pytest.mark.slow


def test_late_results_of_phase_1_are_not_credited_to_arms_of_phase_2() -> None:
    """It was 20 of 20."""
    assert sum(map(late_first_phase, range(20))) <= 2


def test_no_rejection_rests_on_counts_of_different_times() -> None:
    assert not any(map(stale_counts, range(40)))


@pytest.mark.parametrize("policy", ["osrl", "uniform"])
@pytest.mark.parametrize("share", [0.9, 0.5, 0.2])
def test_losses_that_depend_on_the_arm_are_found_out(policy: str, share: float) -> None:
    """It was 20 of 20 at 0.9."""
    runs = 20
    wrong, alarm = map(sum, zip(*(declined_arm(policy, share, seed) for seed in range(runs)), strict=True))
    assert wrong <= allowed(runs)
    assert alarm >= runs - 2


@pytest.mark.parametrize("noise_sd", [None, 1.0])
def test_a_log_whose_means_drift_claims_nothing_wrong(noise_sd: float | None) -> None:
    wrong, alarm = map(sum, zip(*(drifting_log(noise_sd, seed) for seed in range(20)), strict=True))
    assert wrong <= allowed(20)
    assert alarm >= 14


def test_a_log_with_missing_rows_claims_nothing_wrong() -> None:
    wrong, alarm = map(sum, zip(*(incomplete_log(seed) for seed in range(20)), strict=True))
    assert (wrong, alarm) == (0, 20)


def test_false_alarms_are_rare_over_many_stages() -> None:
    """They were 12 of 30 for the guardrail, 10 of 30 for the watch on losses."""
    assert sum(map(guardrail_over_stages, range(20))) <= allowed(20, 0.05)
    assert sum(map(watch_over_stages, range(20))) <= allowed(20, 0.01)


@pytest.mark.parametrize("case", CASES)
def test_at_the_alarm_all_that_leaving_out_has_ruled_out_is_possible_again(case: str) -> None:
    """Strict tests were copied after the first loss had ruled something out: 8 of 8 in each case."""
    assert not any(out_after_the_alarm(case, seed) for seed in range(4))
    assert out_after_the_alarm(case, 0, revision=0)


@pytest.mark.parametrize("how", ["corrected", "first"])
def test_no_harm_is_dropped(how: str) -> None:
    """A correction dropped it, and so did a reward that was told first: 60 trials, and nothing happened."""
    assert not dropped_harm(how, 0)


def test_every_stage_has_the_risk_for_itself() -> None:
    """Eight stages may cost eight times the risk (11 of 60 were wrong in some stage), one costs it once."""
    assert sum(wrong_in_some_stage(8, seed) for seed in range(40)) <= allowed(40, 8 * RISK)
    assert sum(wrong_in_some_stage(1, seed) for seed in range(40)) <= allowed(40)
