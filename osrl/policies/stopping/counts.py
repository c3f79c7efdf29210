"""Stop by counts: as `osrl.policies.stopping.bets`, with evidence that holds for any sampling rule.

Counts need no probabilities, so there is nothing to know about how the arms were chosen; they are looked
at again when there are 2 % more samples (`osrl.evidence.counts`, `pairs`).
"""

from __future__ import annotations

from dataclasses import replace

from osrl.hypotheses.product import DEFAULT_VECTORS
from osrl.hypotheses.state import Hypotheses, new_hypotheses
from osrl.policies.contract import Problem
from osrl.policies.stopping import bets


def new(problem: Problem, draw: float, *, vectors: int = DEFAULT_VECTORS) -> Hypotheses:
    """Everything is possible; ``vectors`` as in `new_hypotheses`."""
    criterion = problem.criteria[0]
    risks = (criterion.delta_g, criterion.delta_h)
    return new_hypotheses(
        problem.shape, problem.family, risks, epsilon=problem.epsilon, by_counts=True, vectors=vectors
    )


RULE = replace(
    bets.RULE,
    name="counts",
    summary="counts rule out what is not best, whatever the sampling",
    new=new,
    proofs={"own": "supermartingales of counts, Ville's inequality; steady means: docs/guarantee.md"},
    randomised=False,
)
