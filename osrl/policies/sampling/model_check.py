"""Sample for the model check (`osrl.hypotheses.model_check`): the rivals of the answer that were left alone.

The tests of representations leave arms alone as soon as another task speaks against them. A check needs
samples of each: an arm b that lacks evidence takes about need / kl(mean of b, mean of the answer + margin) of
them, and the answer as many as the root of the sum of their squares. These are drawn along with what the
other tests want, in the time that those take, and use the draws of the answer that they bring.
"""

from __future__ import annotations

import math
from typing import Any

from osrl.allocation.residual import PRIOR_SAMPLES, residual_need
from osrl.evidence.betting import shrunk_means
from osrl.hypotheses.model_check import if_checked
from osrl.hypotheses.state import PULLS, SUMS
from osrl.hypotheses.tolerance import EPSILON_G, NEAR_G, Tolerance, comparison
from osrl.jit.kernel import kernel_in_place
from osrl.jit.reductions import sum_of
from osrl.model.arrays import Floats
from osrl.model.families import divergence

LEAST_GAP = 0.5  # of the margin, by which an arm is taken to be worse than the answer with the margin added
EDGE = 0.01  # so far inside (0, 1) the means of coins are taken to be


@kernel_in_place
def _mix(check: Tolerance, hypotheses: Any, g: int, time: float, room: Floats, weights: Floats) -> None:
    """Change ``weights`` (X, n) so that the check of an answer with ``g`` ends when the other tests do.

    ``time``: the samples that those still take, 0 when they are done. ``room`` (2, X, n) is for sums.
    """
    tasks, n = weights.shape
    predictors = n // hypotheses.possible_g.size
    margin, limit, noise = check.numbers[EPSILON_G], check.numbers[NEAR_G], hypotheses.noise
    wanted, means = room[0], room[1]
    for x in range(tasks):
        shrunk_means(hypotheses.arms[PULLS, x], hypotheses.arms[SUMS, x], PRIOR_SAMPLES, means[x])
        answer = -1
        for a in range(g * predictors, (g + 1) * predictors):
            if hypotheses.possible_h[x, a] and (answer < 0 or means[x, a] > means[x, answer]):
                answer = a
        level = means[x, answer] + margin
        if noise == 0.0:
            level = min(level, 1.0 - EDGE)
        squares = 0.0
        for b in range(n):
            wanted[x, b] = 0.0
            if b != answer and not check.within[x, b, answer]:
                low = min(means[x, b], level - LEAST_GAP * margin)
                if noise == 0.0:
                    low = max(low, min(EDGE, 0.5 * level))
                need = residual_need(limit, comparison(check, x, b, answer))
                wanted[x, b] = need / divergence(low, level, noise)
                squares += wanted[x, b] * wanted[x, b]
        wanted[x, answer] = math.sqrt(squares)
        for a in range(n):
            wanted[x, a] = max(wanted[x, a] - time * weights[x, a], 0.0)
    total = sum_of(wanted)
    if total > 0.0:
        for x in range(tasks):
            for a in range(n):
                weights[x, a] = (time * weights[x, a] + wanted[x, a]) / (time + total)


@kernel_in_place
def _mix_nothing(check: None, hypotheses: Any, g: int, time: float, room: Floats, weights: Floats) -> None:
    pass


mix_checks = if_checked(_mix, _mix_nothing)
