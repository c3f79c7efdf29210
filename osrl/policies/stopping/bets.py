"""Stop by bets: rule out what the evidence allows, until one possibility is left (`osrl.hypotheses`).

The evidence needs random draws with known probabilities; every sample counts for every test. The state is
that of the hypotheses. Gaussian rewards are judged by counts, which need no probabilities.
"""

from __future__ import annotations

from osrl.evidence.betting import new_bets
from osrl.hypotheses.refresh import best_guess
from osrl.hypotheses.state import Hypotheses, new_hypotheses
from osrl.hypotheses.trials import (
    clear_trials,
    forfeit_trial,
    pend_trial,
    take_reward,
    take_ticket,
    ticket_size,
)
from osrl.hypotheses.vectors import VECTORS
from osrl.jit.kernel import kernel
from osrl.policies.contract import Problem, StoppingRule
from osrl.policies.stopping.trace_readers import read_hypotheses


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
    vectors: int = VECTORS,
    model_check: float = 0.0,
) -> Hypotheses:
    """Everything is possible; the options are those of `new_bets`, and ``vectors`` of `new_hypotheses`.

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
def conclude(hypotheses: Hypotheses, criterion: int) -> None:
    """The best guess."""
    best_guess(hypotheses)


RULE = StoppingRule(
    name="bets",
    summary="bets on randomised draws rule out what is not best",
    state=Hypotheses,
    new=new,
    observe=take_reward,
    conclude=conclude,
    evidence=read_hypotheses,
    ticket_size=ticket_size,
    ticket=take_ticket,
    clear_pending=clear_trials,
    pend=pend_trial,
    forfeit=forfeit_trial,
    proofs={"own": "betting on draws with known probabilities, Ville's inequality: docs/guarantee.md"},
    tolerant=("own",),
    shares_runs=lambda options: False,
    randomised=True,
)
