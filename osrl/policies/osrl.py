"""`osrl`: one phase, betting evidence, every sample used for every test. The default policy.

The allocation is that of the joint program of Theorem 1 with *residual needs*: what each test still
lacks, log(1 / delta) + 1 - log E, finished tests left out. So the weights move from the
representation to the predictors by themselves, and the joint bound K is approached instead of
K_G + K_H. It is solved anew when the run has grown by ``growth`` and after each rejection.

A part of the mass, min(1/2, explore * sqrt(K / (4 t))), explores the arms that still matter, in
proportion to 1 / (1 + N): an arm that looked bad by bad luck is tried again soon, which is what keeps
the tail of the stopping time light.

The last representation stays under watch: where an arm of another one looks better, a part of the
mass asks whether any representation is shared, and the run does not end before that is settled.

Sampling is random with known probabilities, as the evidence needs. Tasks may be chosen by the
policy or be given; within a given task its weights are used relative to each other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.allocation import solve
from osrl.allocation.program import build_program
from osrl.arrays import Flags, Floats
from osrl.compiled import kernel, kernel_in_place
from osrl.errors import OsrlError
from osrl.evidence.betting import new_bets, shrunk_means
from osrl.glr import cheapest, new_glr, update_task
from osrl.policies.betting import clear_trials, forfeit_trial, pend_trial, take_reward, take_ticket
from osrl.policies.contract import Outcome, Policy, Problem, one_stream, register
from osrl.policies.hypotheses import Tests, best_guess, doubtful, look, new_tests, survivor

TOLERANCE = 1e-2  # certified gap of the weights
PRIOR = 3.0  # shrinkage of the estimates that the weights are made for
LEAST_NEED = 0.7  # of a test that is nearly done
DOUBT = 0.1  # share of the mass for tasks in which the last representation may not be right
LEAST_EVIDENCE = -5.0  # below which a test is not said to lack even more
LEAST_GAP = (
    0.02  # in standard deviations of a reward (of a fair coin), by which the best arm is taken to lead
)


class OsrlState(NamedTuple):
    """The tests, and the probabilities with which arms are drawn."""

    tests: Tests
    optimal: Floats  # (X, n) the last solution of the joint program
    weights: Floats  # (X, n) probabilities: the solution and exploration
    clock: Floats  # rounds, round of the next design
    outcome: Outcome
    growth: float
    explore: float


def new(
    problem: Problem,
    draw: float,
    *,
    growth: float = 0.1,
    explore: float = 1.0,
    smallest: float = 0.1,
    largest: float = 1.6,
    points: int = 5,
    power: float = 0.5,
    plugged: float = 0.1,
    idle: float = 0.25,
    shrinkage: float = 20.0,
    safe: float = 0.98,
) -> OsrlState:
    """The state before the first sample; the options of the bets are those of `new_bets`."""
    if not (0 < growth < math.inf and 0 < explore < math.inf):
        raise OsrlError("growth and explore are positive numbers")
    X, G, H = problem.shape
    n = G * H
    tests = new_tests(problem, new_bets(smallest, largest, points, power, plugged, idle, shrinkage, safe))
    return OsrlState(
        tests,
        np.full((X, n), 1.0 / (X * n)),
        np.full((X, n), 1.0 / (X * n)),
        np.zeros(2),
        tests.outcome,
        growth,
        explore,
    )


@kernel_in_place
def wants_design(state: OsrlState) -> bool:
    """Whether the weights are old."""
    clock = state.clock
    return bool(clock[0] >= clock[1])


@kernel
def design(state: OsrlState) -> None:
    """Solve the joint program for what the tests still lack, and add exploration."""
    tests, optimal, weights, clock = state.tests, state.optimal, state.weights, state.clock
    growth, explore = state.growth, state.explore
    pulls, sums, possible_g, possible_h = tests.pulls, tests.sums, tests.possible_g, tests.possible_h
    evidence_g, evidence_h, limits, noise = tests.evidence_g, tests.evidence_h, tests.limits, tests.noise
    tasks, n = pulls.shape
    predictors = n // possible_g.size
    arms = float(tasks * n)
    look(tests)
    means = np.empty((tasks, n))
    for x in range(tasks):
        shrunk_means(pulls[x], sums[x], PRIOR, means[x])
    g = believed(means, pulls, possible_g, noise)
    leader = np.empty(tasks, np.int64)
    need_g = np.zeros(possible_g.size)
    need_h = np.zeros((tasks, n))
    for other in range(possible_g.size):
        if other != g and possible_g[other]:
            need_g[other] = lacking(limits[0], evidence_g[other])
    for x in range(tasks):
        leader[x] = -1
        for a in range(g * predictors, (g + 1) * predictors):
            if possible_h[x, a] and (leader[x] < 0 or means[x, a] > means[x, leader[x]]):
                leader[x] = a
        separate(means[x], leader[x], noise)
        for a in range(g * predictors, (g + 1) * predictors):
            if a != leader[x] and possible_h[x, a]:
                need_h[x, a] = lacking(limits[1], evidence_h[x, a])
    if need_g.any() or need_h.any():
        program = build_program(
            means,
            leader,
            need_g,
            need_h,
            False,
            np.ones((tasks, n)),
            np.zeros(tasks, np.int64),
            np.ones(1),
            0.0,
            noise,
        )
        found = solve(program, optimal, TOLERANCE)
        for x in range(tasks):
            for r in range(n):
                optimal[x, program.arm[x, r]] = found.q[x, r]
    mix_exploration(
        optimal,
        pulls,
        possible_g,
        possible_h,
        min(0.5, explore * math.sqrt(arms / (4.0 * max(clock[0], 1.0)))),
        weights,
    )
    if survivor(possible_g) >= 0:
        mix_doubts(tests, survivor(possible_g), weights)
    clock[1] = max(clock[0] + max(4.0, 0.25 * arms), clock[0] * (1.0 + growth))


@kernel_in_place
def lacking(limit: float, evidence: float) -> float:
    """What a test still lacks, and a little more, because the last step goes beyond the limit."""
    return max(limit + 1.0 - max(evidence, LEAST_EVIDENCE), LEAST_NEED)


@kernel
def believed(means: Floats, pulls: Floats, possible: Flags, noise: float) -> int:
    """The possible representation that is cheapest to believe in; the first one left if none is."""
    tasks, n = means.shape
    glr = new_glr(tasks, possible.size, n // possible.size)
    for x in range(tasks):
        update_task(glr, x, means[x], pulls[x] + 1e-3, noise)
    total = glr.total
    for g in range(possible.size):
        if not possible[g] and possible.any():
            total[g] = math.inf
    return cheapest(glr, -1)


@kernel_in_place
def separate(means: Floats, leader: int, noise: float) -> None:
    """Make ``leader`` the best arm by a clear margin; means of coins stay inside (0, 1)."""
    gap = LEAST_GAP * (math.sqrt(noise) if noise > 0.0 else 0.5)
    top = means[leader] if noise > 0.0 else min(max(means[leader], 0.02), 0.99)
    for a in range(means.size):
        means[a] = min(means[a], top - gap)
        if noise == 0.0:
            means[a] = min(max(means[a], 0.005), 0.985)
    means[leader] = top


@kernel
def mix_exploration(
    optimal: Floats, pulls: Floats, possible_g: Flags, possible_h: Flags, share: float, weights: Floats
) -> None:
    """weights = (1 - share) optimal + share spread over the arms that still matter, as 1 / (1 + N)."""
    tasks, n = optimal.shape
    predictors = n // possible_g.size
    g = survivor(possible_g)
    spread = np.zeros((tasks, n))
    for x in range(tasks):
        if g >= 0 and survivor(possible_h[x, g * predictors : (g + 1) * predictors]) >= 0:
            continue
        for a in range(n):
            if possible_g[a // predictors]:
                spread[x, a] = 1.0 / (1.0 + pulls[x, a])
    total = spread.sum()
    if total == 0.0:
        share, total = 0.0, 1.0
    for x in range(tasks):
        for a in range(n):
            weights[x, a] = (1.0 - share) * optimal[x, a] + share * spread[x, a] / total
    weights /= weights.sum()


@kernel
def mix_doubts(tests: Tests, g: int, weights: Floats) -> None:
    """Where the last representation does not look right, a part of the mass asks whether any is.

    In such a task it goes to the arm that is in the way and to the arms of ``g``, in equal parts. It is a
    tenth, and everything when nothing else is open.
    """
    waiting = tests.waiting
    tasks, n = weights.shape
    predictors = n // tests.possible_g.size
    doubts = np.zeros((tasks, n))
    for x in range(tasks):
        rival = doubtful(tests, x, g)
        if rival >= 0:
            doubts[x, rival] = 0.5
            doubts[x, g * predictors : (g + 1) * predictors] = 0.5 / predictors
    total = doubts.sum()
    if total > 0.0:
        share = 1.0 if waiting[0] else DOUBT
        for x in range(tasks):
            for a in range(n):
                weights[x, a] = (1.0 - share) * weights[x, a] + share * doubts[x, a] / total


@kernel_in_place
def select(state: OsrlState, task: int, propensities: Floats) -> int:
    """The probability of each arm; in a given task, of its arms."""
    weights = state.weights
    tasks, n = weights.shape
    total = 0.0
    for x in range(tasks):
        for a in range(n):
            chosen = task < 0 or x == task
            propensities[x, a] = weights[x, a] if chosen else 0.0
            total += propensities[x, a]
    if task >= 0:
        for a in range(n):
            propensities[task, a] = propensities[task, a] / total if total > 0.0 else 1.0 / n
    return -1


@kernel_in_place
def ticket(state: OsrlState, x: int, a: int, propensities: Floats, room: Floats) -> int:
    """The terms of the bets on this trial."""
    return take_ticket(state.tests, x, a, propensities[x], room)


@kernel_in_place
def observe(state: OsrlState, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Settle the bets; design anew when something was rejected."""
    clock = state.clock
    changed = take_reward(state.tests, x, a, reward, ticket)
    clock[0] += 1.0
    if changed:
        clock[1] = clock[0]


@kernel
def conclude(state: OsrlState, column: int) -> None:
    """The best guess."""
    best_guess(state.tests)


@kernel
def clear_pending(state: OsrlState) -> None:
    """Forget which trials have not reported."""
    clear_trials(state.tests)


@kernel_in_place
def pend(state: OsrlState, x: int, a: int, ticket: Floats) -> None:
    """Count a trial that has not reported by its worst factor."""
    pend_trial(state.tests, x, a, ticket)


@kernel_in_place
def forfeit(state: OsrlState, x: int, a: int, ticket: Floats) -> None:
    """A trial that will never report keeps its worst factor."""
    forfeit_trial(state.tests, x, a, ticket)


policy = register(
    Policy(
        name="osrl",
        summary="one phase with betting evidence: the fewest samples for the same guarantee",
        state=OsrlState,
        new=new,
        wants_design=wants_design,
        design=design,
        select=select,
        observe=observe,
        conclude=conclude,
        ticket=ticket,
        stream=one_stream,
        given_tasks=True,
        shares_runs=lambda options: False,
        clear_pending=clear_pending,
        pend=pend,
        forfeit=forfeit,
    )
)
