"""The published numbers, transcribed from the paper: nothing in this file was computed here.

*On the Sample Complexity of Representation Learning in Multi-task Bandits with Global and Local
Structure*: Tables 1 and 2, and what its section on the experiments says in words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RUNS = 1120
RISKS = (0.1, 0.05, 0.01)  # delta = delta_G = delta_H
SIGMA = 1e5
FILTER_ORDER, FILTER_FREQUENCY = 8, 0.025  # Butterworth low-pass, as a share of the Nyquist frequency

TOTAL, PHASE_1, PHASE_2, TAS = "total", "phase 1", "phase 2", "tas"


class Published(NamedTuple):
    """One row of Table 1: samples over 1120 runs. ``ci975`` is the half-width of the 97.5 % interval."""

    average: float
    ci975: float
    min: float
    max: float
    std: float


TABLE_1 = {
    (0.1, TOTAL): Published(21278.80, 430.37, 5254.0, 46876.0, 6423.03),
    (0.1, PHASE_1): Published(3578.38, 43.31, 2163.0, 7014.0, 646.46),
    (0.1, PHASE_2): Published(17700.42, 428.39, 1554.0, 43270.0, 6393.44),
    (0.1, TAS): Published(26456.83, 510.60, 4544.0, 54566.0, 7620.35),
    (0.05, TOTAL): Published(22671.50, 420.40, 6068.0, 48184.0, 6274.13),
    (0.05, PHASE_1): Published(3651.99, 41.86, 2358.0, 6245.0, 624.72),
    (0.05, PHASE_2): Published(19019.51, 417.81, 2207.0, 45298.0, 6235.60),
    (0.05, TAS): Published(27735.38, 534.35, 7675.0, 58227.0, 7974.87),
    (0.01, TOTAL): Published(25765.90, 436.13, 8951.0, 55809.0, 6508.94),
    (0.01, PHASE_1): Published(3829.56, 45.93, 2358.0, 7354.0, 685.44),
    (0.01, PHASE_2): Published(21936.34, 434.09, 5398.0, 52002.0, 6478.57),
    (0.01, TAS): Published(30970.94, 536.99, 9538.0, 70319.0, 8014.26),
}

# Table 2, (X, G, H): average proportion of pulls at tau_G, and the allocation printed as q_sigma*(mu).
PULLS = np.array(
    [
        [[0.14, 0.05], [0.02, 0.02], [0.12, 0.15]],
        [[0.14, 0.05], [0.12, 0.16], [0.02, 0.02]],
    ]
)
ALLOCATION = np.array(
    [
        [[0.18, 5e-3], [6e-4, 7e-4], [0.13, 0.18]],
        [[0.18, 5e-3], [0.13, 0.18], [6e-4, 7e-4]],
    ]
)
PULLS_DIGIT = 0.01  # one unit of the last printed digit
ALLOCATION_DIGIT = np.where(ALLOCATION >= 0.1, 0.01, np.where(ALLOCATION >= 1e-3, 1e-3, 1e-4))

# In words. "between delta = 0.1 and 0.05 there is a relative increase ... of roughly 2 %", then "5 %";
# both are true of phase 1.
GROWTH = {(0.1, 0.05): 0.02, (0.05, 0.01): 0.05}
# "the average absolute change in each component of the reference vector is very small, below 3 % after
# few dozens of steps"
SUP_CHANGE, SUP_CHANGE_FROM = 0.03, 36
# "the relative difference between q_sigma*(mu-hat_t) and q_sigma*(mu) around t = 2500 is upper bounded by
# roughly 1/9"
DISTANCE, DISTANCE_AT = 1 / 9, 2500
