"""A test of what evidence by bets assumes: the arms of counted trials follow the draws.

A trial that is left out has no factor. That is harmless if leaving out depends neither on the reward nor on
the arm, given the task and the past: then the arms of the trials that are *counted*, and of those that are
*left out*, have the probabilities w with which arms are drawn. If it depends on the arm, they have not, and
the expected factor of a bet, 1 + beta sum w_a r_a xi_a (lambda_a - m) with report rates r_a, may exceed 1
under the null.

So bet on the arms themselves. For each fate (counted, left out) and task, let n_a be how often arm a has
had it and e_a the sum of its probabilities in those trials. With rates rho_a = (n_a + c) / (e_a + c), a
trial of arm A with this fate multiplies the wealth by

    rho_A / sum_a w_a rho_a,

whose expectation is 1 under the assumption, whatever share of trials is lost and however that share
changes. For each fate some values of c are mixed, no bet among them, and the two mixtures are multiplied:
an e-process, since a trial moves one of them. Everything is fixed when a trial is handed out, but its fate;
while that is open, no gain counts and every possible loss does. In the order of hand-out this lies below
the e-process, so delays that depend on the arm raise no alarm.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.evidence.betting import log_mixture
from osrl.jit import kernel
from osrl.jit.reductions import sequential_sum
from osrl.model.arrays import Floats, Integers

COUNTED, LEFT_OUT = 0, 1
RATE_PRIORS = np.array([0.25, 2.5, 25.0])  # c: samples by which rates are drawn to 1
MISSINGNESS_LEVEL = 0.01  # probability of a false alarm


class MissingnessTest(NamedTuple):
    """The fates of the trials of every arm, and the wealth of the bets on them (updated in place)."""

    number: Floats  # (2, X, n) trials with each fate
    expected: Floats  # (2, X, n) sums of their probabilities
    wealth: Floats  # (2, C + 1) logarithms, of trials whose fate is known; the last one is for no bet
    pending: Floats  # (2, C + 1) of the others, at their worst


def new_missingness_test(tasks: int, arms: int) -> MissingnessTest:
    """Return a test before the first trial."""
    number, expected = np.zeros((2, 2, tasks, arms))
    wealth, pending = np.zeros((2, 2, RATE_PRIORS.size + 1))
    return MissingnessTest(number, expected, wealth, pending)


@kernel
def log_odds(watch: MissingnessTest, x: int, a: int, weights: Floats) -> Floats:
    """Return the log factors (2, C + 1) of a trial, for either fate; ``weights`` (n,) sum to 1."""
    odds = np.zeros((2, RATE_PRIORS.size + 1))
    _write_odds(watch, x, a, weights, odds)
    return odds


@kernel
def _write_odds(watch: MissingnessTest, x: int, a: int, weights: Floats, odds: Floats) -> None:
    number, expected = watch.number, watch.expected
    for fate in range(2):
        for i in range(RATE_PRIORS.size):
            total = 0.0
            for b in range(weights.size):
                total += weights[b] * (number[fate, x, b] + RATE_PRIORS[i]) / (expected[fate, x, b] + RATE_PRIORS[i])
            own = (number[fate, x, a] + RATE_PRIORS[i]) / (expected[fate, x, a] + RATE_PRIORS[i])
            odds[fate, i] = math.log(own / total)


@kernel
def issue_trial(watch: MissingnessTest, odds: Floats) -> None:
    """Count a trial with these odds as pending."""
    for fate in range(2):
        for i in range(odds.shape[1]):
            watch.pending[fate, i] += min(odds[fate, i], 0.0)


@kernel
def end_trial(watch: MissingnessTest, x: int, a: int, weights: Floats, odds: Floats, fate: int) -> None:
    """Count the fate of a trial that was issued with these ``weights`` and ``odds``."""
    for i in range(odds.shape[1]):
        for either in range(2):
            watch.pending[either, i] -= min(odds[either, i], 0.0)
        watch.wealth[fate, i] += odds[fate, i]
    watch.number[fate, x, a] += 1.0
    for b in range(weights.size):
        watch.expected[fate, x, b] += weights[b]


@kernel
def issue_drawn(watch: MissingnessTest, x: int, a: int, propensities: Floats, drawn: Floats) -> None:
    """Issue a trial: write its probabilities (n,), then its odds, for `end_drawn`."""
    n = propensities.size
    total = sequential_sum(propensities)
    for b in range(n):
        drawn[b] = propensities[b] / total
    odds = drawn[n:].reshape(watch.wealth.shape)
    _write_odds(watch, x, a, drawn[:n], odds)
    issue_trial(watch, odds)


@kernel
def end_drawn(watch: MissingnessTest, x: int, a: int, drawn: Floats, fate: int) -> bool:
    """Count the fate of a trial that was issued by `issue_drawn`; return whether any was left out so far."""
    n = watch.number.shape[2]
    end_trial(watch, x, a, drawn[:n], drawn[n:].reshape(watch.wealth.shape), fate)
    for number in watch.number[LEFT_OUT].flat:
        if number > 0.0:
            return True
    return False


@kernel
def count_trials(watch: MissingnessTest, tasks: Integers, arms: Integers, propensities: Floats) -> None:
    """Count trials (k,), each ended before the next is issued, drawn with these ``propensities`` (k, n)."""
    drawn = np.zeros(propensities.shape[1] + watch.wealth.size)
    for i in range(tasks.size):
        issue_drawn(watch, tasks[i], arms[i], propensities[i], drawn)
        end_drawn(watch, tasks[i], arms[i], drawn, COUNTED)


def missingness_evidence(watch: MissingnessTest) -> float:
    """Return log evidence against "the arms of counted and of left-out trials follow the draws"."""
    even = np.full(RATE_PRIORS.size + 1, -math.log(RATE_PRIORS.size + 1))
    return sum(log_mixture(wealth, even) for wealth in watch.wealth + watch.pending)
