"""Rule `osrl`: sample for what the tests still need, in one phase, with every sample used for every test.

The allocation is that of the joint program of Theorem 1 with *residual needs*: what each test still needs,
log(1 / delta) + 1 - log E, without finished tests. So the weights move from the representation to the predictors by
themselves, and the joint bound K is approached instead of K_G + K_H. Arms of a representation with more evidence
against them than others have a head start, so that samples go to the arms behind. The program is solved again when
the run has grown by ``growth`` and after each rejection.

- *The shared choice comes first.* In the joint program all tests end together, and two predictors that are nearly
  equal would keep the representation open for as long as themselves. Where it would be open more than four times as
  long as necessary, half of the mass goes to the representation as if nothing else were asked.
- *Exploration.* A share min(1/2, explore * sqrt(K / (4 t))) goes to the arms that still matter, in proportion to
  1 / (1 + N): an arm that looked bad by bad luck is tried again soon, which keeps the tail of the stopping time light.
  An arm no longer matters when its predictor is ruled out, or every vector through it is struck.
- *Model check and tolerance.* Their needs are added (`osrl.policies.sampling.needs`).
- *Doubts.* Where an arm of another representation looks better than the last one left, a part of the mass asks
  whether any representation is shared, and the run does not end before that is settled.

Sampling is random with known probabilities, as bets require. Tasks may be chosen by the policy or be given; within a
given task its weights are used relative to each other, and a settled task plays its answer
(`osrl.policies.sampling.given_tasks`).

Parameters:

- ``growth`` (0.05): growth of the run after which weights are solved again;
- ``explore`` (1.0): factor of the share of exploration;
- ``holdout`` (0.0): share of arrivals in a settled task that is drawn evenly from all its arms. With 1, tasks are never
  treated as settled, as in studies from before the option existed.

>>> import osrl
>>> osrl.simulate("paper", policy="osrl", delta=0.1, runs=3).frame["tau"].to_list()
[6830, 3917, 4521]

Reference: A. Russo and A. Proutiere, On the Sample Complexity of Representation Learning in Multi-task Bandits with
Global and Local Structure, AAAI 2023 (Theorem 1, the joint program). Residual needs are new here: docs/solver.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.allocation.certificate import dual_total
from osrl.allocation.program import build_program
from osrl.allocation.residual import PRIOR_SAMPLES, enforce_margin, residual_need
from osrl.allocation.solver import solve
from osrl.errors import OsrlError
from osrl.evidence.betting import shrunk_means
from osrl.glr.statistic import cheapest, new_glr, update_task
from osrl.hypotheses.product import SEPARATE_SHARE, head_starts, mark_open_arms
from osrl.hypotheses.refresh import refresh_evidence
from osrl.hypotheses.state import (
    HYP_LIMIT_G,
    HYP_LIMIT_H,
    HYP_PULLS,
    HYP_RULED_OUT,
    HYP_SAMPLES,
    HYP_SUMS,
    HYP_WAITING,
    IN_REPRESENTATION,
    IN_TASK,
    Hypotheses,
    best_rival_if_unclear,
)
from osrl.jit import kernel, kernel_in_place
from osrl.jit.reductions import any_nonzero, sequential_sum
from osrl.model.arrays import Flags, Floats, Integers
from osrl.model.outcome import sole_survivor
from osrl.policies.contract import Problem, SamplingRule
from osrl.policies.sampling.given_tasks import write_task_propensities
from osrl.policies.sampling.needs import sample_checks, target_shorter_route

NEEDS_MAX_GAP = 1e-2  # certified gap of the weights
MAX_SLOWDOWN = 4.0  # times what a representation needs when it is asked for alone, by which it is to be decided
CLEAR_STANDARD_ERRORS = 2.0  # standard errors by which a ruled-out arm has to lead to count as the best
DOUBT_SHARE = 0.1  # share of the mass for tasks in which the last representation may not be right

SHARES_OPTIMAL, SHARES_DRAWN = range(2)  # rows of `shares`
DESIGN_DUE, DESIGN_RULED_OUT = range(2)  # places of `due`


class ResidualNeedsSampling(NamedTuple):
    """The probabilities with which arms are drawn, and when to solve for new ones."""

    shares: Floats  # (2, X, n) the best weights for the residual needs, and the probabilities made of them
    due: Floats  # (2,) samples at which to design again, and how many hypotheses were ruled out before
    growth: float
    explore: float
    holdout: float  # the share of arrivals in a settled task that does not get its answer


def new(
    problem: Problem, draw: float, *, growth: float = 0.05, explore: float = 1.0, holdout: float = 0.0
) -> ResidualNeedsSampling:
    """Return equal probabilities; the first design is due at once.

    ``holdout`` is the share of arrivals in a settled task that is drawn evenly from all its arms. With 1,
    tasks are never treated as settled, as in studies from before the option existed.
    """
    if not (0 < growth < math.inf and 0 < explore < math.inf):
        raise OsrlError("growth and explore are positive numbers")
    if not 0 <= holdout <= 1:
        raise OsrlError(f"holdout is {holdout}; give the share of a settled task's arrivals, from 0 to 1")
    X, G, H = problem.shape
    return ResidualNeedsSampling(
        shares=np.full((2, X, G * H), 1.0 / (X * G * H)),
        due=np.zeros(2),
        growth=growth,
        explore=explore,
        holdout=holdout,
    )


@kernel_in_place
def wants_design(needs: ResidualNeedsSampling, hypotheses: Hypotheses) -> bool:
    """Tell whether the weights are old, or something was ruled out since they were made."""
    due, numbers = needs.due, hypotheses.numbers
    return bool(numbers[HYP_SAMPLES] >= due[DESIGN_DUE] or numbers[HYP_RULED_OUT] != due[DESIGN_RULED_OUT])


@kernel
def design(needs: ResidualNeedsSampling, hypotheses: Hypotheses) -> None:
    """Solve for what the tests still need, and add exploration."""
    due, optimal, weights = needs.due, needs.shares[SHARES_OPTIMAL], needs.shares[SHARES_DRAWN]
    refresh_evidence(hypotheses)
    time = solve_for_needs(hypotheses, optimal)
    samples, arms = hypotheses.numbers[HYP_SAMPLES], float(weights.size)
    share = min(0.5, needs.explore * math.sqrt(arms / (4.0 * max(samples, 1.0))))
    explore_open_arms(hypotheses, optimal, share, weights)
    last = sole_survivor(hypotheses.possible_g, 0, hypotheses.possible_g.size)
    if last < 0 and hypotheses.numbers[HYP_WAITING] > 0.0:
        last = int(hypotheses.numbers[HYP_WAITING]) - 1
    if last >= 0:
        room = np.empty((2, weights.shape[0], weights.shape[1]))
        sample_checks(hypotheses.check, hypotheses, last, time, room, weights)
        sample_doubts(hypotheses, last, share, weights)
    due[DESIGN_DUE] = max(samples + max(4.0, 0.5 * arms), samples * (1.0 + needs.growth))
    due[DESIGN_RULED_OUT] = hypotheses.numbers[HYP_RULED_OUT]


@kernel
def solve_for_needs(hypotheses: Hypotheses, optimal: Floats) -> float:
    """Update ``optimal`` (X, n), the weights for what each test still needs; return the samples it takes."""
    arms, numbers, noise = hypotheses.arms, hypotheses.numbers, hypotheses.noise
    possible_g, possible_h = hypotheses.possible_g, hypotheses.possible_h
    tasks, n = possible_h.shape
    predictors = n // possible_g.size
    means = np.empty((tasks, n))
    for x in range(tasks):
        shrunk_means(arms[HYP_PULLS, x], arms[HYP_SUMS, x], PRIOR_SAMPLES, means[x])
    g = cheapest_possible(means, arms[HYP_PULLS], possible_g, noise)
    leader, answer = np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    need_g = np.zeros(possible_g.size)
    need_h = np.zeros((tasks, n))
    for other in range(possible_g.size):
        if other != g and possible_g[other]:
            own = slice(other * predictors, (other + 1) * predictors)
            need_g[other] = representation_need(hypotheses, other, need_h[:, own])
    for x in range(tasks):
        leader[x], answer[x] = g * predictors, -1
        for a in range(g * predictors, (g + 1) * predictors):
            if means[x, a] > means[x, leader[x]]:
                leader[x] = a
            if possible_h[x, a] and (answer[x] < 0 or means[x, a] > means[x, answer[x]]):
                answer[x] = a
        if any_nonzero(need_g):
            leader[x] = ruled_out_leader(means[x], arms[HYP_PULLS, x], leader[x], possible_g, noise)
        enforce_margin(means[x], arms[HYP_PULLS, x], arms[HYP_SUMS, x], leader[x], noise)
        for a in range(g * predictors, (g + 1) * predictors):
            if a != answer[x] and possible_h[x, a] and leader[x] // predictors == g:
                need_h[x, a] = residual_need(numbers[HYP_LIMIT_H], hypotheses.evidence[IN_REPRESENTATION, x, a])
    if hypotheses.tolerance.within.size > 0:
        target_shorter_route(hypotheses, g, answer, means, need_g, need_h)
    if not any_nonzero(need_g) and not any_nonzero(need_h):
        return 0.0
    time, share = solve_program(means, leader, need_g, need_h, noise, optimal)
    if any_nonzero(need_g) and share < 1.0 / MAX_SLOWDOWN:  # of the time, the representation takes at least this share
        alone = optimal.copy()
        for x in range(tasks):
            for a in range(n):
                need_h[x, a] = min(need_h[x, a], 0.0)
        time_g, _ = solve_program(means, leader, need_g, need_h, noise, alone)
        for x in range(tasks if time > MAX_SLOWDOWN * time_g else 0):
            for a in range(n):
                optimal[x, a] = 0.5 * (optimal[x, a] + alone[x, a])
    return time


@kernel_in_place
def ruled_out_leader(means: Floats, pulls: Floats, leader: int, possible_g: Flags, noise: float) -> int:
    """Return the best arm (n,) of ruled-out representations, if it clearly beats ``leader``; or the leader.

    It should not have been ruled out, and it is the strongest evidence against the others.
    """
    predictors = means.size // possible_g.size
    best = leader
    for a in range(means.size):
        spread = noise if noise > 0.0 else 0.25
        error = math.sqrt(spread * (1.0 / (1.0 + pulls[a]) + 1.0 / (1.0 + pulls[leader])))
        if not possible_g[a // predictors] and means[a] > max(
            means[best], means[leader] + CLEAR_STANDARD_ERRORS * error
        ):
            best = a
    return best


@kernel_in_place
def representation_need(hypotheses: Hypotheses, g: int, need_h: Floats) -> float:
    """Return what the test of ``g`` needs; write to ``need_h`` (X, H) how far ahead its arms are."""
    struck, limit, evidence = hypotheses.struck[g], hypotheses.numbers[HYP_LIMIT_G], hypotheses.evidence_g[g]
    tasks, predictors = need_h.shape
    of_task = hypotheses.evidence[IN_TASK, :, g * predictors : (g + 1) * predictors]
    least = head_starts(struck, of_task, need_h)
    need = residual_need(limit, max(evidence, least + math.log(SEPARATE_SHARE)) if struck.size > 0 else evidence)
    for x in range(tasks):
        for h in range(predictors):
            need_h[x, h] = -min(need_h[x, h], need)  # more is never asked for
    return need


@kernel
def solve_program(
    means: Floats, leader: Integers, need_g: Floats, need_h: Floats, noise: float, weights: Floats
) -> tuple[float, float]:
    """Write the best ``weights`` (X, n) for these needs, starting at those there; return the samples they take.

    Return also the share that representations have in the price of a sample: with their part of the dual weights
    alone the certificate proves that they take at least this share of the time.
    """
    tasks, n = means.shape
    costs, group = np.ones((tasks, n)), np.zeros(tasks, np.int64)
    program = build_program(means, leader, need_g, need_h, False, costs, group, np.ones(1), 0.0, noise)
    solution = solve(program, weights, NEEDS_MAX_GAP)
    for x in range(tasks):
        for r in range(n):
            weights[x, program.arm[x, r]] = solution.q[x, r]
    predictors = 0.0
    for x in range(tasks):
        for r in range(1, n):
            if program.cell[x, r] < 0:
                predictors += program.need_h[x, r] * solution.share[x, r]
    total = dual_total(program, solution.share, solution.test_dual)
    return 1.0 / solution.lower, 1.0 - predictors / total


@kernel
def cheapest_possible(means: Floats, pulls: Floats, possible: Flags, noise: float) -> int:
    """Return the possible representation that is cheapest to believe in; the first one left if none is."""
    tasks, n = means.shape
    glr = new_glr(tasks, possible.size, n // possible.size)
    held = np.empty(n)
    for x in range(tasks):
        for a in range(n):
            held[a] = pulls[x, a] + 1e-3
        update_task(glr, x, means[x], held, noise)
    total = glr.total
    for g in range(possible.size):
        if not possible[g] and any_nonzero(possible):
            total[g] = math.inf
    return cheapest(glr, -1)


@kernel
def explore_open_arms(hypotheses: Hypotheses, optimal: Floats, share: float, weights: Floats) -> None:
    """Write weights = (1 - share) optimal + share on the arms that still matter, as 1 / (1 + N)."""
    pulls, possible_g, possible_h = hypotheses.arms[HYP_PULLS], hypotheses.possible_g, hypotheses.possible_h
    tasks, n = optimal.shape
    predictors = n // possible_g.size
    g = sole_survivor(possible_g, 0, possible_g.size)
    spread = np.zeros((tasks, n))
    matters = np.empty((tasks, n), np.bool_)
    for other in range(possible_g.size):
        mark_open_arms(hypotheses.struck[other], matters[:, other * predictors : (other + 1) * predictors])
    for x in range(tasks):
        if g >= 0 and sole_survivor(possible_h[x], g * predictors, (g + 1) * predictors) >= 0:
            continue
        for a in range(n):
            if possible_g[a // predictors] and possible_h[x, a] and matters[x, a]:
                spread[x, a] = 1.0 / (1.0 + pulls[x, a])
    total = sequential_sum(spread)
    if total == 0.0:
        share, total = 0.0, 1.0
    for x in range(tasks):
        for a in range(n):
            weights[x, a] = (1.0 - share) * optimal[x, a] + share * spread[x, a] / total
    weights /= sequential_sum(weights)


@kernel
def sample_doubts(hypotheses: Hypotheses, g: int, explore: float, weights: Floats) -> None:
    """Move a part of the mass to tasks in which the last representation does not look right.

    In such a task half of it goes to the best rival, the other half to the arms of ``g``. It is a tenth of the mass,
    and all of it when nothing else is open; then a share ``explore`` of it goes to all arms of the task, as
    1 / (1 + N), because another arm may be the better rival and have had bad luck so far.
    """
    tasks, n = weights.shape
    predictors = n // hypotheses.possible_g.size
    pulls, waiting = hypotheses.arms[HYP_PULLS], hypotheses.numbers[HYP_WAITING] > 0.0
    doubts = np.zeros((tasks, n))
    for x in range(tasks):
        rival = best_rival_if_unclear(hypotheses, x, g)
        if rival >= 0:
            doubts[x, rival] = 0.5
            doubts[x, g * predictors : (g + 1) * predictors] = 0.5 / predictors
            if waiting:
                spread = 0.0
                for a in range(n):
                    spread += 1.0 / (1.0 + pulls[x, a])
                for a in range(n):
                    least = explore / ((1.0 + pulls[x, a]) * spread)
                    doubts[x, a] = (1.0 - explore) * doubts[x, a] + least
    total = sequential_sum(doubts)
    if total > 0.0:
        share = 1.0 if waiting else DOUBT_SHARE
        for x in range(tasks):
            for a in range(n):
                weights[x, a] = (1.0 - share) * weights[x, a] + share * doubts[x, a] / total


@kernel_in_place
def select(needs: ResidualNeedsSampling, hypotheses: Hypotheses, task: int, propensities: Floats) -> int:
    """Write the probability of each arm; in a given task, of its arms."""
    weights = needs.shares[SHARES_DRAWN]
    tasks, n = weights.shape
    total = 0.0
    for x in range(tasks):
        for a in range(n):
            chosen = task < 0 or x == task
            propensities[x, a] = weights[x, a] if chosen else 0.0
            total += propensities[x, a]
    if task >= 0 and needs.holdout < 1.0:
        write_task_propensities(hypotheses, task, needs.holdout, propensities[task])
    elif task >= 0:
        for a in range(n):
            propensities[task, a] = propensities[task, a] / total if total > 0.0 else 1.0 / n
    return -1


RULE = SamplingRule(
    name="needs",
    summary="the joint allocation for what the tests still lack, with exploration",
    state=ResidualNeedsSampling,
    new=new,
    wants_design=wants_design,
    design=design,
    select=select,
    given_tasks=True,
    knows_risk=True,
    draws=True,
    reads="evidence_g",
)
