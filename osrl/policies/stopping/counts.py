"""Rule `counts`: rule out hypotheses by evidence from counts, which holds for any sampling rule.

It is `osrl.policies.stopping.bets` with another kind of evidence. Counts need no probabilities, so nothing has to be
known about how the arms were chosen; but means have to stay the same. The evidence is computed again when there are 2 %
more samples (`osrl.evidence.counts`, `pairs`).

Parameters:

- ``vectors`` (1024): up to so many vectors of predictors are tested one by one (`osrl.hypotheses.product`).

>>> import osrl
>>> osrl.simulate("paper", sample="uniform", stop="counts", delta=0.1, runs=2).frame["tau"].to_list()
[45313, 20104]

References: H. Robbins, Statistical Methods Related to the Law of the Iterated Logarithm, Annals of Mathematical
Statistics 41, 1970 (mixtures). R. Krichevsky and V. Trofimov, The Performance of Universal Encoding, IEEE
Transactions on Information Theory 27, 1981 (the mixture for coins).
"""

from __future__ import annotations

from dataclasses import replace

from osrl.hypotheses.product import DEFAULT_VECTORS
from osrl.hypotheses.state import Hypotheses, new_hypotheses
from osrl.policies.contract import Problem
from osrl.policies.stopping import bets


def new(problem: Problem, draw: float, *, vectors: int = DEFAULT_VECTORS) -> Hypotheses:
    """Return hypotheses without samples; ``vectors`` as in `new_hypotheses`."""
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
