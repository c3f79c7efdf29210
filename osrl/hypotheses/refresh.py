"""Evidence brought up to date: of the bets, and of the counts, which is searched for.

Whether hypotheses are judged by bets or by counts is part of their type (`Hypotheses.by_counts`): for bets, nothing
that counts is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from osrl.evidence.counts import Samples, against, rises_of, samples_of
from osrl.evidence.exponential_tilts import TILT_LOCAL, TILT_TASK
from osrl.evidence.pairs import against_best
from osrl.hypotheses.model_check import count_checks
from osrl.hypotheses.product import evidence_against, set_task_evidence
from osrl.hypotheses.state import (
    HYP_FIRST,
    HYP_LED,
    HYP_LED_SUM,
    HYP_LIMIT_G,
    HYP_LIMIT_H,
    HYP_LOCAL_LED,
    HYP_LOCAL_LED_SUM,
    HYP_PULLS,
    HYP_SUMS,
    HYP_WAITING,
    IN_REPRESENTATION,
    IN_TASK,
    Hypotheses,
    rule_out_by_comparisons,
    rule_out_by_evidence,
    sum_of_best_means,
    update_verdict,
    weigh_bets,
    write_answer,
)
from osrl.hypotheses.tolerance import count_comparisons
from osrl.jit import kernel, kernel_in_place
from osrl.jit.kernels import specialise
from osrl.jit.reductions import copy_into
from osrl.model.arrays import Floats
from osrl.model.outcome import EXHAUSTED, sole_survivor

R = TypeVar("R")


def if_counted(counted: Callable[..., R], otherwise: Callable[..., R]) -> Callable[..., R]:
    """Return a function that calls ``counted`` where counts are judged; only one of the two is compiled."""

    def call(hypotheses: Hypotheses, *rest: Any) -> R:
        return (counted if hypotheses.by_counts else otherwise)(hypotheses, *rest)

    def compiled(hypotheses: Any, *rest: Any) -> Callable[..., R]:
        by_counts = hypotheses.types[hypotheses.fields.index("by_counts")]
        chosen = counted if by_counts.name == "bool" else otherwise
        return (lambda hypotheses, x: chosen(hypotheses, x)) if rest else lambda hypotheses: chosen(hypotheses)

    specialise(call, compiled)
    return call


@kernel
def task_samples(hypotheses: Hypotheses, x: int) -> Samples:
    """Return the samples of the arms of task ``x``."""
    arms = hypotheses.arms
    led, led_sum = arms[HYP_LED, x], arms[HYP_LED_SUM, x]
    return samples_of(arms[HYP_PULLS, x], arms[HYP_SUMS, x], arms[HYP_FIRST, x], led, led_sum, hypotheses.noise)


@kernel
def recount_task(hypotheses: Hypotheses, x: int) -> None:
    """Compute the evidence of the counts of task ``x``."""
    samples, of_task = task_samples(hypotheses, x), np.empty(hypotheses.possible_h.shape[1])
    predictors = of_task.size // hypotheses.possible_g.size
    for g in range(hypotheses.possible_g.size):
        count_representation(hypotheses, samples, g, -math.inf, of_task)
        count_predictors(hypotheses, samples, x, g, -math.inf, hypotheses.evidence[IN_REPRESENTATION, x])
    set_task_evidence(hypotheses.against, hypotheses.evidence[IN_TASK, x], x, of_task)
    count_comparisons(hypotheses.tolerance, x, predictors, samples, hypotheses.tilts, hypotheses.noise)
    count_checks(hypotheses.check, x, samples, hypotheses.tilts, hypotheses.noise)


@kernel
def count_representation(
    hypotheses: Hypotheses, samples: Samples, g: int, enough: float, evidence: Floats
) -> tuple[float, float]:
    """Write the ``evidence`` (n,) of a task against the arms of ``g``, see `against`; return least and largest."""
    tilts, noise = hypotheses.tilts, hypotheses.noise
    predictors = evidence.size // hypotheses.possible_g.size
    nobody, rises = np.zeros(evidence.size, np.bool_), rises_of(tilts)
    least, most = math.inf, -math.inf
    for a in range(g * predictors, (g + 1) * predictors):
        evidence[a] = against(samples, a, tilts, rises, TILT_TASK, noise, 0.0, nobody, enough)
        least, most = min(least, evidence[a]), max(most, evidence[a])
    return least, most


@kernel
def count_predictors(hypotheses: Hypotheses, samples: Samples, x: int, g: int, enough: float, evidence: Floats) -> None:
    """Write the ``evidence`` (n,) of task ``x`` against each predictor among those of ``g``, see `against`."""
    arms, tilts, noise = hypotheses.arms, hypotheses.tilts, hypotheses.noise
    predictors = samples.mean.size // hypotheses.possible_g.size
    own = slice(g * predictors, (g + 1) * predictors)
    of_own = Samples(
        samples.number[own],
        samples.mean[own],
        samples.excess[own],
        arms[HYP_LOCAL_LED, x, own],
        arms[HYP_LOCAL_LED_SUM, x, own],
    )
    if tilts.by_pairs:
        copy_into(against_best(of_own, tilts, noise), evidence[own])
        return
    nobody, rises = np.zeros(predictors, np.bool_), rises_of(tilts)
    for h in range(predictors):
        found = against(of_own, h, tilts, rises, TILT_LOCAL, noise, 0.0, nobody, enough)
        evidence[g * predictors + h] = found


@kernel
def recount_all(hypotheses: Hypotheses) -> bool:
    """Evaluate the counts of every task, and rule out what they allow; return whether anything was.

    Evidence is searched for only where it may reach a limit; elsewhere a bound that does not is kept. Tests
    whose answer is known, or does not matter any more, are left out.
    """
    possible_g, possible_h, numbers = hypotheses.possible_g, hypotheses.possible_h, hypotheses.numbers
    tasks, n = possible_h.shape
    predictors = n // possible_g.size
    samples = [task_samples(hypotheses, x) for x in range(tasks)]
    of_task = hypotheses.evidence[IN_TASK].copy()
    for g in range(possible_g.size):
        if not possible_g[g]:
            continue
        reach = 0.0
        for x in range(tasks):
            least, most = count_representation(hypotheses, samples[x], g, math.inf, of_task[x])
            reach += most if hypotheses.struck.shape[1] > 0 else least
        for x in range(tasks):
            if reach >= numbers[HYP_LIMIT_G]:
                count_representation(hypotheses, samples[x], g, -math.inf, of_task[x])
            if sole_survivor(possible_h[x], g * predictors, (g + 1) * predictors) < 0:
                own = hypotheses.evidence[IN_REPRESENTATION, x]
                count_predictors(hypotheses, samples[x], x, g, numbers[HYP_LIMIT_H], own)
    for x in range(tasks):
        set_task_evidence(hypotheses.against, hypotheses.evidence[IN_TASK, x], x, of_task[x])
        count_comparisons(hypotheses.tolerance, x, predictors, samples[x], hypotheses.tilts, hypotheses.noise)
        count_checks(hypotheses.check, x, samples[x], hypotheses.tilts, hypotheses.noise)
    if numbers[HYP_WAITING] > 0.0:
        update_verdict(hypotheses)
    changed = False
    for x in range(tasks):
        changed = rule_out_by_evidence(hypotheses, x, 0, n) or changed
        changed = rule_out_by_comparisons(hypotheses, x) or changed
    return changed


@kernel_in_place
def _weigh_task(hypotheses: Hypotheses, x: int) -> None:
    """Compute the evidence of the bets of task ``x``."""
    weigh_bets(hypotheses, x, 0, hypotheses.evidence.shape[2])


@kernel_in_place
def _nothing_to_count(hypotheses: Hypotheses) -> bool:
    return False


count_or_weigh = if_counted(recount_task, _weigh_task)
recount_if_counted = if_counted(recount_all, _nothing_to_count)


@kernel_in_place
def refresh_evidence(hypotheses: Hypotheses) -> None:
    """Update all log evidence."""
    evidence_g, evidence, possible_g = hypotheses.evidence_g, hypotheses.evidence, hypotheses.possible_g
    for x in range(evidence.shape[1]):
        count_or_weigh(hypotheses, x)
    for g in range(evidence_g.size):
        evidence_g[g] = evidence_against(hypotheses.against, hypotheses.bets, g)
        if not possible_g[g]:  # its vectors reached the limit one after the other
            evidence_g[g] = max(evidence_g[g], hypotheses.numbers[HYP_LIMIT_G])


@kernel
def best_guess(hypotheses: Hypotheses) -> None:
    """Write the answer of a run that is cut short: the least evidence against it, then the best estimates."""
    refresh_evidence(hypotheses)
    possible_g, evidence_g = hypotheses.possible_g, hypotheses.evidence_g
    guess = -1
    for g in range(possible_g.size):
        if not possible_g[g]:
            continue
        if guess < 0 or evidence_g[g] < evidence_g[guess]:
            guess = g
        elif evidence_g[g] == evidence_g[guess] and sum_of_best_means(hypotheses, g) > sum_of_best_means(
            hypotheses, guess
        ):
            guess = g
    write_answer(hypotheses, guess, EXHAUSTED)
