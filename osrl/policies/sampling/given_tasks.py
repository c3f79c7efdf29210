"""Probabilities of the arms in a task that has arrived: decided questions are not sampled any more.

Weights are solved for all tasks at once. In a task without open questions only the residue of the solver is left of
them, which means nothing: divided by its sum it would draw all arms about equally often, also those that are ruled
out. So an arrival in a *settled* task gets its answer, except for a share ``holdout`` drawn evenly from all arms of
the task, to monitor it. In other tasks an arm that is ruled out gets nothing, unless it looks at least as good as
those that are not. A task in which a model check still lacks evidence (`osrl.hypotheses.model_check`) is not settled,
and needs arms that are ruled out.

None of this touches the proofs: these probabilities depend on the past only, as any others. A trial with one
possible arm multiplies the evidence by 1, and counts are valid for any sampling rule (`docs/guarantee.md`).
"""

from __future__ import annotations

import math

from osrl.hypotheses.model_check import is_check_open
from osrl.hypotheses.state import HYP_MEANS, HYP_WAITING, Hypotheses, best_rival_if_unclear
from osrl.hypotheses.tolerance import answer_within_tolerance
from osrl.jit import kernel_in_place
from osrl.jit.reductions import sequential_sum
from osrl.model.arrays import Floats
from osrl.model.outcome import sole_survivor


@kernel_in_place
def write_task_propensities(hypotheses: Hypotheses, x: int, holdout: float, arms: Floats) -> None:
    """Turn the weights ``arms`` (n,) of task ``x`` into the probabilities with which its arms are drawn."""
    possible_g, possible_h = hypotheses.possible_g, hypotheses.possible_h[x]
    means, waiting = hypotheses.arms[HYP_MEANS, x], hypotheses.numbers[HYP_WAITING]
    g = sole_survivor(possible_g, 0, possible_g.size) if waiting == 0.0 else int(waiting) - 1
    rival = best_rival_if_unclear(hypotheses, x, g) if g >= 0 else -1
    # While the verdict waits for this task, the weights are those of the doubt; none if it is a new one.
    if g >= 0 and (waiting == 0.0 or rival < 0 or sequential_sum(arms) == 0.0):
        answer = answer_within_tolerance(hypotheses.tolerance, x, g, means, possible_g, possible_h)
        if answer >= 0 and not is_check_open(hypotheses.check, x, answer):
            _play(answer, rival, holdout, arms)
            return
    if rival < 0 and (g < 0 or not is_check_open(hypotheses.check, x, _likely(hypotheses, x, g))):
        _leave_out(hypotheses, x, g, arms)
    total = sequential_sum(arms)
    for a in range(arms.size):
        arms[a] = arms[a] / total if total > 0.0 else 1.0 / arms.size


@kernel_in_place
def _likely(hypotheses: Hypotheses, x: int, g: int) -> int:
    """Return the arm of ``g`` that is the answer of task ``x``, or looks most like it."""
    means, possible_g, possible_h = hypotheses.arms[HYP_MEANS, x], hypotheses.possible_g, hypotheses.possible_h[x]
    answer = answer_within_tolerance(hypotheses.tolerance, x, g, means, possible_g, possible_h)
    if answer >= 0:
        return answer
    predictors = means.size // possible_g.size
    for a in range(g * predictors, (g + 1) * predictors):
        if possible_h[a] and (answer < 0 or means[a] > means[answer]):
            answer = a
    return answer


@kernel_in_place
def _play(answer: int, rival: int, holdout: float, arms: Floats) -> None:
    """Write probabilities that play the answer of a task; and as often its ``rival``, if there is one."""
    for a in range(arms.size):
        arms[a] = holdout / arms.size if rival < 0 else 0.0
    if rival < 0:
        arms[answer] += 1.0 - holdout
    else:
        arms[answer] = 0.5
        arms[rival] = 0.5


@kernel_in_place
def _leave_out(hypotheses: Hypotheses, x: int, g: int, arms: Floats) -> None:
    """Remove the weight of arms that are ruled out, unless they look as good as the best of the others.

    While several representations are possible (``g`` < 0) all arms of these stay: a representation is out
    only when every one of its predictors is. Where no arm that stays has any weight, they get the same.
    """
    means, possible_g, possible_h = hypotheses.arms[HYP_MEANS, x], hypotheses.possible_g, hypotheses.possible_h[x]
    predictors = arms.size // possible_g.size
    best, total = -math.inf, 0.0
    for a in range(arms.size):
        if possible_g[a // predictors] and possible_h[a]:
            best = max(best, means[a])
    for again in range(2):
        for a in range(arms.size):
            stays = possible_g[a // predictors] and (g < 0 or possible_h[a]) or means[a] >= best
            arms[a] = (1.0 if again else arms[a]) if stays else 0.0
            total += arms[a]
        if total > 0.0:
            return
