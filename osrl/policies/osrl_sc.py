"""`osrl-sc`: Algorithm 1 of the paper, in its two phases.

Phase 1 finds the shared representation: D-tracking of q_sigma*(mu-hat), recomputed every ``period``
rounds (default GHX), with forced exploration below sqrt(t) - GHX / 2; while the estimate is not in
the model class M, the least pulled arm. It stops when max_g Psi_t(g) exceeds the threshold
(``theorem`` or ``released``), and answers with the representation that is best under the estimate. With
``sharp`` both phases stop by evidence from counts instead (`osrl.policies.sharp`).

Phase 2 finds the predictor of each task by track-and-stop among the arms of that representation,
with threshold ln(2 t (H - 1) / delta_H). Its rewards come from a stream of their own, so that its
course depends on the representation alone. Columns that chose the same one share it.

``reuse`` (off in the paper) lets the samples of phase 1 count in phase 2. Phase 2 then depends on
when phase 1 stopped, so columns no longer share a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from osrl.allocation import solve
from osrl.allocation.program import build_program
from osrl.arrays import Floats, Integers
from osrl.compiled import kernel, kernel_in_place
from osrl.errors import OsrlError
from osrl.glr import Glr, cheapest, new_glr, update_task
from osrl.hypotheses.possible import survivor
from osrl.outcome import REPRESENTATION, Outcome, new_outcome
from osrl.policies.contract import Column, Policy, Problem, register
from osrl.policies.phase2 import (
    Phase2,
    choose_representation,
    conclude_phase_2,
    in_phase_2,
    new_phase_2,
    next_contest,
    phase_2_design,
    phase_2_due,
    phase_2_observe,
    phase_2_select,
    phase_ticket,
)
from osrl.policies.sharp import SHARP, Counting, count_representations, look_due, new_counting
from osrl.policies.track_and_stop import LED_SUM, MEANS, PULLS, WEIGHTS, add_reward, leader_of
from osrl.policies.tracking import least_pulled, track
from osrl.thresholds import exploration, threshold

SIGMA = 1e5
TOLERANCE = 1e-3  # certified gap of the weights that are tracked

ROUNDS, DUE, EXPLORED = range(3)  # places of `times`


class OsrlScState(NamedTuple):
    """Estimates and weights of phase 1, the contests of phase 2, and where the run stands."""

    arms: Floats  # (7, X, n) of phase 1, as in `Contests`: rewards, estimates, q_sigma* at the last design
    leaders: Integers  # (X,) best arm of each task under the estimate, -1 for a tie
    times: Floats  # (3,) rounds of phase 1, round of the next design, beta_1(N) = 3 sum ln(1 + ln N)
    glr: Glr
    threshold: Floats  # (R, 3) terms of each column
    counting: Counting  # for columns that stop by counts
    phase2: Phase2
    outcome: Outcome
    inverse_sigma: float
    period: int
    reuse: bool
    noise: float

    @property
    def weights(self) -> Floats:
        """The allocation that phase 1 tracks, (X, n)."""
        return self.arms[WEIGHTS, :]

    @property
    def means(self) -> Floats:
        """The estimate of phase 1, (X, n)."""
        return self.arms[MEANS, :]


def new(
    problem: Problem, draw: float, *, sigma: float = SIGMA, period: int | None = None, reuse: bool = False
) -> OsrlScState:
    """The state before the first sample."""
    X, G, H = problem.shape
    n = G * H
    columns = problem.columns
    deltas = tuple(column.delta_g for column in columns)
    if not 0 < sigma < math.inf:
        raise OsrlError(f"sigma is {sigma}; give a positive number, such as {SIGMA:g}")
    if period is not None and period < 1:
        raise OsrlError(f"period is {period}; give the rounds between two designs, at least 1")
    if reuse and len(columns) > 1:
        raise OsrlError("reuse makes phase 2 depend on the risk; give one column at a time")
    state = OsrlScState(
        arms=np.zeros((7, X, n)),
        leaders=np.full(X, -1),
        times=np.zeros(3),
        glr=new_glr(X, G, H),
        threshold=np.array([_terms(column, problem.shape) for column in columns]),
        counting=new_counting(columns, deltas, (1, n), G, problem.family.noise),
        phase2=new_phase_2(problem),
        outcome=new_outcome(len(columns), X, n),
        inverse_sigma=1.0 / sigma,
        period=X * n if period is None else period,
        reuse=reuse,
        noise=problem.family.noise,
    )
    state.arms[WEIGHTS] = 1.0 / (X * n)
    if G == 1:
        for column in range(len(columns)):
            choose_representation(state.outcome, column, 0, 0, state.arms[PULLS])
        next_contest(state.phase2, state.outcome)
    return state


def _terms(column: Column, shape: tuple[int, int, int]) -> tuple[float, float, float]:
    """The threshold of a column; one that stops by counts never exceeds it."""
    if column.threshold == SHARP:
        return math.inf, 0.0, 0.0
    return threshold(column.threshold, shape, column.delta_g).terms


@kernel_in_place
def shared_representation(leaders: Integers, predictors: int) -> int:
    """The representation of all leaders, or -1 when they disagree or a task has none."""
    if leaders[0] < 0:
        return -1
    g = int(leaders[0]) // predictors
    for x in range(1, leaders.size):
        if leaders[x] < 0 or leaders[x] // predictors != g:
            return -1
    return g


@kernel_in_place
def _estimate_of(state: OsrlScState) -> int:
    """The best representation under the estimate, or -1 when the estimate is not in the class M."""
    _, tasks, n = state.arms.shape
    if state.times[ROUNDS] < tasks * n:
        return -1
    return shared_representation(state.leaders, n // state.glr.total.size)


@kernel_in_place
def wants_design(state: OsrlScState) -> bool:
    """Whether the weights are old: in phase 1 every ``period`` rounds, if the estimate is in M."""
    if in_phase_2(state.phase2):
        return phase_2_due(state.phase2)
    return bool(state.times[ROUNDS] >= state.times[DUE] and _estimate_of(state) >= 0)


@kernel
def design(state: OsrlScState) -> None:
    """New weights: q_sigma*(mu-hat) in phase 1, those of the task in progress in phase 2."""
    if in_phase_2(state.phase2):
        phase_2_design(state.phase2)
        return
    _, tasks, n = state.arms.shape
    weights = state.arms[WEIGHTS]
    representations = state.glr.total.size
    need_g = np.ones(representations)
    need_g[_estimate_of(state)] = 0.0
    program = build_program(
        state.arms[MEANS],
        state.leaders,
        need_g,
        np.zeros((tasks, n)),
        False,
        np.ones((tasks, n)),
        np.zeros(tasks, np.int64),
        np.ones(1),
        state.inverse_sigma,
        state.noise,
    )
    solution = solve(program, weights, TOLERANCE)
    for x in range(tasks):
        for r in range(n):
            weights[x, program.arm[x, r]] = solution.q[x, r]
    state.times[DUE] = state.times[ROUNDS] + state.period


@kernel_in_place
def select(state: OsrlScState, task: int, propensities: Floats) -> int:
    """The arm that lags behind its share, among all in phase 1 and within a task in phase 2."""
    if in_phase_2(state.phase2):
        return phase_2_select(state.phase2)
    if _estimate_of(state) < 0:
        return least_pulled(state.arms[PULLS])
    return track(state.arms[PULLS], state.arms[WEIGHTS], state.times[ROUNDS])


@kernel_in_place
def ticket(state: OsrlScState, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    """Which phase the trial belongs to: its reward may come late."""
    phase_ticket(state.phase2, ticket)


@kernel_in_place
def observe(state: OsrlScState, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Take in a reward, and stop what can be stopped."""
    if in_phase_2(state.phase2):
        phase_2_observe(state.phase2, state.outcome, x, a, reward, ticket, state.reuse)
        return
    arms, times, glr, outcome = state.arms, state.times, state.glr, state.outcome
    times[EXPLORED] -= exploration(arms[PULLS, x, a])
    add_reward(arms, x, a, reward)
    times[EXPLORED] += exploration(arms[PULLS, x, a])
    times[ROUNDS] += 1.0
    state.leaders[x] = leader_of(arms[MEANS, x])
    update_task(glr, x, arms[MEANS, x], arms[PULLS, x], state.noise)
    if look_due(state.counting, 0, times[ROUNDS]):
        count_representations(state.counting, arms)
    g = _estimate_of(state)
    evidence = glr.total[cheapest(glr, g)] if g >= 0 else -math.inf
    undecided = False
    for r in range(state.threshold.shape[0]):
        if outcome.answer[REPRESENTATION, r, 0] < 0:
            if state.counting.limit[r] < math.inf:
                best = survivor(state.counting.possible[r, 0])
            elif evidence > state.threshold[r, 0] + state.threshold[r, 1] * times[EXPLORED]:
                best = g
            else:
                best = -1
            if best >= 0:
                choose_representation(outcome, r, best, int(times[ROUNDS]), arms[PULLS])
            else:
                undecided = True
    if not undecided:
        if state.reuse:
            _count_earlier(state.phase2, arms)
        next_contest(state.phase2, outcome)


@kernel
def _count_earlier(phase: Phase2, arms: Floats) -> None:
    """Let the samples of phase 1 count from the start of phase 2."""
    phase.earlier[:] = arms[: LED_SUM + 1]


@kernel
def conclude(state: OsrlScState, column: int) -> None:
    """The best guess: the representation that is cheapest to believe in, and its best predictors."""
    arms, outcome = state.arms, state.outcome
    if outcome.answer[REPRESENTATION, column, 0] < 0:
        choose_representation(outcome, column, cheapest(state.glr, -1), int(state.times[ROUNDS]), arms[PULLS])
    conclude_phase_2(state.phase2, outcome, column, arms[MEANS])


@kernel_in_place
def stream(state: OsrlScState) -> int:
    """Phase 2 has rewards of its own, unless it builds on those of phase 1."""
    return 1 if in_phase_2(state.phase2) and not state.reuse else 0


def shares_runs(options: Mapping[str, Any]) -> bool:
    """Columns share a run unless phase 2 builds on the samples of phase 1."""
    return not options.get("reuse", False)


policy = register(
    Policy(
        name="osrl-sc",
        summary="the paper's algorithm: phase 1 finds the representation, phase 2 the predictors",
        state=OsrlScState,
        new=new,
        wants_design=wants_design,
        design=design,
        select=select,
        observe=observe,
        conclude=conclude,
        ticket_size=lambda state: 1,
        ticket=ticket,
        stream=stream,
        thresholds=("theorem", "released", SHARP),
        unproved=("released",),
        shares_runs=shares_runs,
    )
)
