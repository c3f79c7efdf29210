"""`osrl-sc`: Algorithm 1 of the paper, in its two phases.

Phase 1 finds the shared representation: D-tracking of q_sigma*(mu-hat), recomputed every ``period``
rounds (default GHX), with forced exploration below sqrt(t) - GHX / 2; while the estimate is not in
the model class M, the least pulled arm. It stops when max_g Psi_t(g) exceeds the threshold
(``theorem`` or ``released``), and answers with the representation that is best under the estimate.

Phase 2 finds the predictor of each task by track-and-stop among the arms of that representation,
with threshold ln(2 t (H - 1) / delta_H). Its rewards come from a stream of their own, so that its
course depends on the representation alone. Columns that chose the same one share it.

``reuse`` (off in the paper) lets the samples of phase 1 count in phase 2. Phase 2 then depends on
when phase 1 stopped, so columns no longer share a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from osrl.allocation import solve
from osrl.allocation.program import build_program
from osrl.alternatives import Floats, Integers
from osrl.compiled import kernel
from osrl.glr import Glr, cheapest, new_glr, update_task
from osrl.policies.contest import (
    Contests,
    contest_design,
    contest_due,
    contest_evidence,
    contest_observe,
    contest_select,
    contest_stops,
    leader_of,
    new_contests,
)
from osrl.policies.contract import (
    DECIDED,
    EXHAUSTED,
    Outcome,
    Policy,
    Problem,
    new_outcome,
    no_ticket,
    register,
)
from osrl.policies.tracking import least_pulled, track
from osrl.thresholds import exploration, threshold

SIGMA = 1e5
TOLERANCE = 1e-3  # certified gap of the weights that are tracked

ROUNDS, DUE, REPRESENTATION, TASK = 0, 1, 2, 3


class OsrlScState(NamedTuple):
    """Estimates and weights of phase 1, the contests of phase 2, and where the run stands."""

    pulls: Floats  # (X, n) in phase 1
    sums: Floats  # (X, n)
    means: Floats  # (X, n)
    weights: Floats  # (X, n) q_sigma* of the estimate at the last design
    explored: Floats  # (1,) beta_1(N) = 3 sum ln(1 + ln N)
    leaders: Integers  # (X,) best arm of each task under the estimate, -1 for a tie
    glr: Glr
    threshold: Floats  # (R, 3) terms of each column
    contests: Contests  # phase 2, on the arms of representation clock[REPRESENTATION]
    stopped: Integers  # (R, X) pulls of phase 2 when the task stopped, 0 before
    clock: Integers  # rounds of phase 1, round of the next design, representation and task of phase 2
    outcome: Outcome
    inverse_sigma: float
    period: int
    reuse: bool
    noise: float


def new(
    problem: Problem, draw: float, *, sigma: float = SIGMA, period: int | None = None, reuse: bool = False
) -> OsrlScState:
    """The state before the first sample."""
    X, G, H = problem.shape
    n = G * H
    columns = problem.columns
    state = OsrlScState(
        np.zeros((X, n)),
        np.zeros((X, n)),
        np.zeros((X, n)),
        np.full((X, n), 1.0 / (X * n)),
        np.zeros(1),
        np.full(X, -1),
        new_glr(X, G, H),
        np.array([threshold(c.threshold, problem.shape, c.delta_g).terms for c in columns]),
        new_contests(X, H, tuple(c.delta_h for c in columns), problem.family.noise),
        np.zeros((len(columns), X), np.int64),
        np.array([0, 0, -1, 0]),
        new_outcome(len(columns), X, n),
        1.0 / sigma,
        X * n if period is None else period,
        reuse,
        problem.family.noise,
    )
    if G == 1:
        for column in range(len(columns)):
            _end_phase_1(state, column, 0)
        next_contest(state)
    return state


@kernel
def shared_representation(leaders: Integers, predictors: int) -> int:
    """The representation of all leaders, or -1 when they disagree or a task has none."""
    if leaders[0] < 0:
        return -1
    g = int(leaders[0]) // predictors
    for x in range(1, leaders.size):
        if leaders[x] < 0 or leaders[x] // predictors != g:
            return -1
    return g


@kernel
def _estimate_of(state: OsrlScState) -> int:
    """The best representation under the estimate, or -1 when the estimate is not in the class M."""
    if state.clock[ROUNDS] < state.pulls.size:
        return -1
    return shared_representation(state.leaders, state.contests.pulls.shape[1])


@kernel
def wants_design(state: OsrlScState) -> bool:
    """Whether the weights are old: in phase 1 every ``period`` rounds, if the estimate is in M."""
    if state.clock[REPRESENTATION] >= 0:
        return contest_due(state.contests, state.clock[TASK])
    return state.clock[ROUNDS] >= state.clock[DUE] and _estimate_of(state) >= 0


@kernel
def design(state: OsrlScState) -> None:
    """New weights: q_sigma*(mu-hat) in phase 1, those of the task in progress in phase 2."""
    if state.clock[REPRESENTATION] >= 0:
        contest_design(state.contests, state.clock[TASK])
        return
    tasks, n = state.pulls.shape
    representations = state.glr.total.size
    need_g = np.ones(representations)
    need_g[_estimate_of(state)] = 0.0
    program = build_program(
        state.means,
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
    found = solve(program, state.weights, TOLERANCE)
    for x in range(tasks):
        for r in range(n):
            state.weights[x, program.arm[x, r]] = found.q[x, r]
    state.clock[DUE] = state.clock[ROUNDS] + state.period


@kernel
def select(state: OsrlScState, task: int, propensities: Floats) -> int:
    """The arm that lags behind its share, among all in phase 1 and within a task in phase 2."""
    predictors, n = int(state.contests.pulls.shape[1]), int(state.pulls.shape[1])
    if state.clock[REPRESENTATION] >= 0:
        x, g = int(state.clock[TASK]), int(state.clock[REPRESENTATION])
        return x * n + g * predictors + contest_select(state.contests, x)
    if _estimate_of(state) < 0:
        return least_pulled(state.pulls)
    return track(state.pulls, state.weights, float(state.clock[ROUNDS]))


@kernel
def observe(state: OsrlScState, x: int, a: int, reward: float, ticket: Floats) -> None:
    """Take in a reward, and stop what can be stopped."""
    if state.clock[REPRESENTATION] >= 0:
        _observe_contest(state, x, a, reward)
        return
    state.explored[0] -= exploration(state.pulls[x, a])
    state.pulls[x, a] += 1.0
    state.explored[0] += exploration(state.pulls[x, a])
    state.sums[x, a] += reward
    state.means[x, a] = state.sums[x, a] / state.pulls[x, a]
    state.leaders[x] = leader_of(state.means[x])
    state.clock[ROUNDS] += 1
    update_task(state.glr, x, state.means[x], state.pulls[x], state.noise)
    g = _estimate_of(state)
    if g < 0:
        return
    evidence = state.glr.total[cheapest(state.glr, g)]
    undecided = False
    for r in range(state.threshold.shape[0]):
        if state.outcome.tau_g[r] == 0:
            if evidence > state.threshold[r, 0] + state.threshold[r, 1] * state.explored[0]:
                _end_phase_1(state, r, g)
            else:
                undecided = True
    if not undecided:
        next_contest(state)


@kernel
def _end_phase_1(state: OsrlScState, r: int, g: int) -> None:
    """Column ``r`` has found representation ``g``."""
    tasks, n = state.pulls.shape
    out = state.outcome
    out.tau_g[r] = state.clock[ROUNDS]
    out.tau[r] = state.clock[ROUNDS]
    for x in range(tasks):
        out.representation[r, x] = g
        for a in range(n):
            out.pulls[r, x, a] = np.int64(state.pulls[x, a])


@kernel
def next_contest(state: OsrlScState) -> None:
    """Begin the next contest of phase 2, or end the run when no column needs another one.

    One pass for each representation that some open column has chosen, task after task.
    """
    predictors = state.contests.pulls.shape[1]
    tasks = state.pulls.shape[0]
    if predictors == 1:
        for r in range(state.stopped.shape[0]):
            for x in range(tasks):
                state.outcome.predictor[r, x] = 0
            state.outcome.status[r] = DECIDED
        return
    for r in range(state.stopped.shape[0]):
        for x in range(tasks):
            if state.stopped[r, x] == 0:
                g = state.outcome.representation[r, x]
                if g != state.clock[REPRESENTATION]:
                    _begin_contests(state, g)
                state.clock[TASK] = x
                return


@kernel
def _begin_contests(state: OsrlScState, g: int) -> None:
    """Set up the contests of phase 2 among the arms of ``g``."""
    contests = state.contests
    tasks, predictors = contests.pulls.shape
    state.clock[REPRESENTATION] = g
    contests.weights[:] = 1.0 / predictors
    contests.pulls[:] = 0.0
    contests.sums[:] = 0.0
    contests.means[:] = 0.0
    if state.reuse:
        for x in range(tasks):
            for h in range(predictors):
                a = g * predictors + h
                contests.pulls[x, h] = state.pulls[x, a]
                contests.sums[x, h] = state.sums[x, a]
                contests.means[x, h] = state.means[x, a]
    for x in range(tasks):
        contests.rounds[x] = contests.pulls[x].sum()
        contests.due[x] = max(contests.rounds[x], float(predictors))


@kernel
def _observe_contest(state: OsrlScState, x: int, a: int, reward: float) -> None:
    """Phase 2: take in a reward, and note which columns have found the predictor of task ``x``."""
    predictors = state.contests.pulls.shape[1]
    g, h = a // predictors, a % predictors
    contest_observe(state.contests, x, h, reward)
    evidence = contest_evidence(state.contests, x)
    undecided = False
    for r in range(state.stopped.shape[0]):
        if state.outcome.representation[r, x] == g and state.stopped[r, x] == 0:
            if contest_stops(state.contests, x, evidence, r):
                _note_predictor(state, r, x)
                if np.all(state.stopped[r] > 0):
                    state.outcome.status[r] = DECIDED
            else:
                undecided = True
    if not undecided:
        next_contest(state)


@kernel
def _note_predictor(state: OsrlScState, r: int, x: int) -> None:
    """Write down the predictor of task ``x`` for column ``r`` and what it has cost."""
    contests, out = state.contests, state.outcome
    predictors = contests.pulls.shape[1]
    out.predictor[r, x] = np.argmax(contests.means[x])
    spent = 0
    for h in range(predictors):
        a = out.representation[r, x] * predictors + h
        count = int(contests.pulls[x, h])
        if state.reuse:
            count -= int(state.pulls[x, a])
        out.pulls[r, x, a] += count
        spent += count
    out.tau[r] += spent
    state.stopped[r, x] = max(spent, 1)


@kernel
def conclude(state: OsrlScState, column: int) -> None:
    """The best guess: the representation that is cheapest to believe in, and its best predictors."""
    tasks, predictors = state.contests.pulls.shape
    out = state.outcome
    if out.tau_g[column] == 0:
        _end_phase_1(state, column, cheapest(state.glr, -1))
    g = out.representation[column, 0]
    running = state.clock[REPRESENTATION] == g
    for x in range(tasks):
        if state.stopped[column, x] > 0:
            continue
        if running and state.contests.rounds[x] > 0:
            _note_predictor(state, column, x)
        else:
            out.predictor[column, x] = np.argmax(state.means[x, g * predictors : (g + 1) * predictors])
    out.status[column] = EXHAUSTED


@kernel
def stream(state: OsrlScState) -> int:
    """Phase 2 has rewards of its own, unless it builds on those of phase 1."""
    return 1 if state.clock[REPRESENTATION] >= 0 and not state.reuse else 0


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
        ticket=no_ticket,
        stream=stream,
        thresholds=("theorem", "released"),
        shares_runs=shares_runs,
    )
)
