"""Rule `bets`: rule out hypotheses by betting on randomised draws, until one answer is left (`osrl.hypotheses`).

Each hypothesis has a bettor who bets against it. Under a true hypothesis the wealth is not expected to grow, so by
Ville's inequality it ever reaches 1 / delta with probability at most delta: then the hypothesis is ruled out
(docs/guarantee.md). The arms must be drawn with known probabilities; every sample counts for every test. Gaussian
rewards are judged by counts, which need no probabilities.

Parameters:

- ``smallest`` (0.1), ``largest`` (0.8), ``points`` (4): the geometric grid of bets;
- ``power`` (1.0), ``peak`` (0.2): the weight of a bet falls as this power on both sides of the peak;
- ``plugged`` (0.1), ``idle`` (0.1): weights of the growth-optimal bet, and of not betting;
- ``shrinkage`` (60.0): samples by which estimates are shrunk to their mean;
- ``safe`` (0.98): no factor falls below 1 - safe;
- ``vectors`` (1024): up to so many vectors of predictors are tested one by one (`osrl.hypotheses.product`);
- ``model_check`` (0.0): margin of the model check (`osrl.hypotheses.model_check`), 0 for none.

>>> import osrl
>>> runs = osrl.simulate("paper", policy="osrl", delta=0.1, runs=3)
>>> set(runs.frame["verdict"])
{'decided'}

References: J. Ville, Etude critique de la notion de collectif, 1939. I. Waudby-Smith and A. Ramdas, Estimating Means of
Bounded Random Variables by Betting, Journal of the Royal Statistical Society B 86, 2024.
"""

from __future__ import annotations

import math

import numpy as np

from osrl.evidence.betting import BET_LOCAL, log_mixture, new_bets
from osrl.hypotheses.product import DEFAULT_VECTORS, evidence_against
from osrl.hypotheses.refresh import best_guess, count_predictors, count_representation, task_samples
from osrl.hypotheses.state import LOCAL_PENDING, LOCAL_WEALTH, Hypotheses, new_hypotheses
from osrl.hypotheses.trials import (
    clear_pending,
    forfeit_trial,
    observe_reward,
    pend_trial,
    ticket_size,
    write_trial_ticket,
)
from osrl.jit import kernel
from osrl.model.arrays import Floats
from osrl.policies.contract import Problem, StoppingRule


def new(
    problem: Problem,
    draw: float,
    *,
    smallest: float = 0.1,
    largest: float = 0.8,
    points: int = 4,
    power: float = 1.0,
    plugged: float = 0.1,
    idle: float = 0.1,
    shrinkage: float = 60.0,
    safe: float = 0.98,
    peak: float = 0.2,
    vectors: int = DEFAULT_VECTORS,
    model_check: float = 0.0,
) -> Hypotheses:
    """Return hypotheses without samples; the options are those of `new_bets`, and ``vectors`` of `new_hypotheses`.

    ``model_check`` is the margin of the check of the model, 0 for none.
    """
    criterion = problem.criteria[0]
    bets = new_bets(smallest, largest, points, power, plugged, idle, shrinkage, safe, peak)
    risks = (criterion.delta_g, criterion.delta_h)
    return new_hypotheses(
        problem.shape,
        problem.family,
        risks,
        bets,
        epsilon=problem.epsilon,
        vectors=vectors,
        margin=model_check,
    )


@kernel
def read_hypotheses(hypotheses: Hypotheses, of_g: Floats, of_h: Floats) -> None:
    """Write the log evidence; that of counts is computed again."""
    if hypotheses.by_counts:
        of_g[:] = 0.0
        for x in range(of_h.shape[0]):
            samples, of_task = task_samples(hypotheses, x), np.empty(of_h.shape[1])
            for g in range(of_g.size):
                of_g[g] += count_representation(hypotheses, samples, g, -math.inf, of_task)[0]
                count_predictors(hypotheses, samples, x, g, -math.inf, of_h[x])
        return
    for g in range(of_g.size):
        of_g[g] = evidence_against(hypotheses.against, hypotheses.bets, g)
    wealth = hypotheses.wealth
    for x in range(of_h.shape[0]):
        for a in range(of_h.shape[1]):
            held = wealth[LOCAL_WEALTH, x, a] + wealth[LOCAL_PENDING, x, a]
            of_h[x, a] = log_mixture(held, hypotheses.bets.grid[BET_LOCAL])


@kernel
def conclude(hypotheses: Hypotheses, criterion: int) -> None:
    """Write the best guess."""
    best_guess(hypotheses)


RULE = StoppingRule(
    name="bets",
    summary="bets on randomised draws rule out what is not best",
    state=Hypotheses,
    new=new,
    observe=observe_reward,
    conclude=conclude,
    evidence=read_hypotheses,
    ticket_size=ticket_size,
    ticket=write_trial_ticket,
    clear_pending=clear_pending,
    pend=pend_trial,
    forfeit=forfeit_trial,
    proofs={"own": "betting on draws with known probabilities, Ville's inequality: docs/guarantee.md"},
    tolerant=("own",),
    shares_runs=lambda options: False,
    randomised=True,
)
