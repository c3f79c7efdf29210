"""Rule `phases`: the stopping rule of the paper's algorithm OSRL-SC, first the representation, then the predictors.

Phase 1 stops when max_g Psi_t(g) exceeds the threshold (``theorem`` or ``released``), and answers with the
representation that is best under the estimate. With ``sharp`` both phases stop by evidence from counts instead,
exactly or within a tolerance (`osrl.policies.stopping.sharp_counts`).

Phase 2 finds the predictor of each task among the arms of that representation (`osrl.policies.stopping.phase2`). Its
rewards come from a stream of their own, so that its course depends on the representation alone. Criteria that chose the
same one share it.

Parameters:

- ``reuse`` (False): count the samples of phase 1 in phase 2. Phase 2 then depends on when phase 1 stopped, so
  criteria no longer share a run.

>>> import osrl
>>> runs = osrl.simulate("paper", policy="osrl-sc", threshold=["theorem", "sharp"], delta=0.1, runs=2)
>>> runs.frame["tau"].to_list()
[16256, 19103, 4674, 2535]

References: A. Russo and A. Proutiere, On the Sample Complexity of Representation Learning in Multi-task Bandits with
Global and Local Structure, AAAI 2023 (stopping rule, Theorem 2). A. Garivier and E. Kaufmann, Optimal Best Arm
Identification with Fixed Confidence, COLT 2016 (Theorem 10, phase 2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osrl.errors import OsrlError
from osrl.glr.statistic import Glr, cheapest, new_glr, update_task
from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.outcome import PREDICTOR, REPRESENTATION, Outcome, new_outcome, sole_survivor
from osrl.policies.contract import Criterion, Problem, StoppingRule
from osrl.policies.stopping.per_task_test import (
    TEST_MEANS,
    TEST_PULLS,
    PerTaskTest,
    add_reward,
    new_per_task_test,
    note_leading_reward,
    shared_representation,
    unique_leader,
)
from osrl.policies.stopping.phase2 import (
    Phase2,
    guess_phase_2,
    in_phase_2,
    keep_phase_1,
    new_phase_2,
    phase_2_observe,
    read_two_phase,
    start_next_test,
    stop_task,
    write_phase,
    write_representation,
)
from osrl.policies.stopping.sharp_counts import (
    SHARP,
    SharpCounts,
    epsilon_answer,
    judge_representations,
    new_sharp_counts,
    recount_due,
    split_risks,
)
from osrl.policies.stopping.thresholds import TERM_CONSTANT, TERM_EXPLORED, TERM_LOG_LOG_T, exploration_cost, threshold

PHASE1_ROUNDS, PHASE1_EXPLORATION_COST = range(2)  # places of `times`


class TwoPhaseStopping(NamedTuple):
    """The samples of the phase in progress, and what ends each phase."""

    contests: PerTaskTest
    leaders: Integers  # (X,) best arm of each task under the estimate of phase 1, -1 for a tie
    times: Floats  # (2,) rounds of phase 1, beta_1(N) = 3 sum ln(1 + ln N)
    glr: Glr
    threshold: Floats  # (R, 3) terms of each criterion
    counting: SharpCounts  # for criteria that stop by counts
    phase2: Phase2
    outcome: Outcome
    reuse: bool


def new(problem: Problem, draw: float, *, reuse: bool = False) -> TwoPhaseStopping:
    """Return the state before the first sample."""
    X, G, H = problem.shape
    n, noise = G * H, problem.family.noise
    criteria = problem.criteria
    exact = split_risks(problem.epsilon).exact_g
    deltas = tuple(exact * criterion.delta_g for criterion in criteria)
    if reuse and len(criteria) > 1:
        raise OsrlError("reuse makes phase 2 depend on the risk; give one risk and threshold at a time")
    phases = TwoPhaseStopping(
        contests=new_per_task_test(problem.shape, noise),
        leaders=np.full(X, -1),
        times=np.zeros(2),
        glr=new_glr(X, G, H),
        threshold=np.array([_terms(criterion, problem.shape) for criterion in criteria]),
        counting=new_sharp_counts(criteria, deltas, (1, n), G, noise),
        phase2=new_phase_2(problem),
        outcome=new_outcome(len(criteria), X, n),
        reuse=reuse,
    )
    if G == 1:
        for r in range(len(criteria)):
            write_representation(phases.outcome, r, 0, 0, phases.contests.arms[TEST_PULLS])
        start_next_test(phases.phase2, phases.contests, phases.outcome)
    return phases


def _terms(criterion: Criterion, shape: tuple[int, int, int]) -> tuple[float, ...]:
    """Return the threshold terms of a criterion; infinite for one that stops by counts."""
    if criterion.threshold == SHARP:
        return math.inf, 0.0, 0.0
    return threshold(criterion.threshold, shape, criterion.delta_g).terms[:TERM_LOG_LOG_T]


@kernel_in_place
def estimated_representation(phases: TwoPhaseStopping) -> int:
    """Return the best representation under the estimate, or -1 when the estimate is not in the class M."""
    _, tasks, n = phases.contests.arms.shape
    if phases.times[PHASE1_ROUNDS] < tasks * n:
        return -1
    return shared_representation(phases.leaders, phases.contests.predictors)


@kernel_in_place
def ticket(phases: TwoPhaseStopping, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """Write the phase of the trial: its reward may come late."""
    write_phase(phases.contests, ticket)


@kernel_in_place
def observe(phases: TwoPhaseStopping, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Add a reward, and stop what can be stopped."""
    contests, phase2, outcome = phases.contests, phases.phase2, phases.outcome
    if in_phase_2(contests):
        phase_2_observe(phase2, contests, outcome, x, a, reward, ticket, phases.reuse)
        return
    arms, times, glr = contests.arms, phases.times, phases.glr
    times[PHASE1_EXPLORATION_COST] -= exploration_cost(arms[TEST_PULLS, x, a])
    if phases.counting.wanted:
        note_leading_reward(contests, x, a, reward)
    add_reward(contests, x, a, reward)
    times[PHASE1_EXPLORATION_COST] += exploration_cost(arms[TEST_PULLS, x, a])
    times[PHASE1_ROUNDS] += 1.0
    phases.leaders[x] = unique_leader(arms[TEST_MEANS, x])
    update_task(glr, x, arms[TEST_MEANS, x], arms[TEST_PULLS, x], contests.noise)
    looked = recount_due(phases.counting, 0, times[PHASE1_ROUNDS])
    if looked:
        judge_representations(phases.counting, arms, phase2.near)
    g = estimated_representation(phases)
    evidence = glr.total[cheapest(glr, g)] if g >= 0 else -math.inf
    undecided = False
    for r in range(phases.threshold.shape[0]):
        if outcome.answer[REPRESENTATION, r, 0] < 0:
            if phases.counting.limit[r] < math.inf:
                best = sole_survivor(phases.counting.possible[r, 0], 0, phases.glr.total.size)
            elif (
                evidence
                > phases.threshold[r, TERM_CONSTANT]
                + phases.threshold[r, TERM_EXPLORED] * times[PHASE1_EXPLORATION_COST]
            ):
                best = g
            else:
                best = -1
            if best >= 0:
                write_representation(outcome, r, best, int(times[PHASE1_ROUNDS]), arms[TEST_PULLS])
            elif not (looked and stop_within_tolerance(phases, r)):
                undecided = True
    if not undecided:
        keep_phase_1(phase2, contests, phases.reuse)
        start_next_test(phase2, contests, outcome)


@kernel
def stop_within_tolerance(phases: TwoPhaseStopping, r: int) -> bool:
    """Stop criterion ``r`` within the tolerance with the most believable representation that allows it, if any."""
    near, means, glr = phases.phase2.near, phases.contests.arms[TEST_MEANS], phases.glr
    predictors, possible = phases.contests.predictors, phases.counting.possible[r, 0]
    found = -1
    if near.within.shape[2] == 0 or phases.counting.limit[r] == math.inf:
        return False
    for g in range(possible.size):
        good = possible[g] and (found < 0 or glr.total[g] < glr.total[found])
        for x in range(means.shape[0]):
            good = good and epsilon_answer(near.within[r, x], means[x], possible, g, predictors) >= 0
        if good:
            found = g
    if found < 0:
        return False
    near.used[r] = True
    pulls = phases.contests.arms[TEST_PULLS]
    write_representation(phases.outcome, r, found, int(phases.times[PHASE1_ROUNDS]), pulls)
    for x in range(means.shape[0]):
        c = epsilon_answer(near.within[r, x], means[x], possible, found, predictors)
        phases.outcome.answer[PREDICTOR, r, x] = c - found * predictors
        stop_task(phases.phase2, phases.outcome, r, x)
    return True


@kernel
def conclude(phases: TwoPhaseStopping, criterion: int) -> None:
    """Write the best guess: the representation that is cheapest to believe in, and its best predictors."""
    contests, outcome = phases.contests, phases.outcome
    if outcome.answer[REPRESENTATION, criterion, 0] < 0:
        g, rounds = cheapest(phases.glr, -1), int(phases.times[PHASE1_ROUNDS])
        write_representation(outcome, criterion, g, rounds, contests.arms[TEST_PULLS])
    means = phases.phase2.earlier[TEST_MEANS] if in_phase_2(contests) else contests.arms[TEST_MEANS]
    guess_phase_2(phases.phase2, contests, outcome, criterion, means)


@kernel_in_place
def stream(phases: TwoPhaseStopping) -> int:
    """Return the stream of rewards: phase 2 has its own, unless it builds on the samples of phase 1."""
    return 1 if in_phase_2(phases.contests) and not phases.reuse else 0


RULE = StoppingRule(
    name="phases",
    summary="the paper's: the representation first, then the predictor of each task",
    state=TwoPhaseStopping,
    new=new,
    observe=observe,
    conclude=conclude,
    evidence=read_two_phase,
    ticket_size=lambda phases: 1,
    ticket=ticket,
    stream=stream,
    thresholds=("theorem", "released", SHARP),
    proofs={
        "theorem": "Theorem 2 of the paper; predictors: Garivier and Kaufmann (2016, Theorem 10)",
        SHARP: "supermartingales of counts, Ville's inequality: docs/guarantee.md",
    },
    tolerant=(SHARP,),
    shares_runs=lambda options: not options.get("reuse", False),
)
