"""Generated instances: shapes of all kinds up to (6, 6, 6), with gaps as experiments have them."""

from __future__ import annotations

import numpy as np

from osrl.model.instance import Instance

SHAPES = [
    (2, 3, 2), (3, 4, 2), (4, 6, 3), (5, 5, 5), (2, 2, 2), (1, 3, 3), (6, 2, 2), (2, 6, 2), (2, 2, 6),
    (3, 3, 3), (4, 4, 4), (6, 6, 6), (3, 2, 4), (5, 3, 2), (2, 5, 4), (6, 4, 3), (3, 6, 6), (2, 4, 1),
    (4, 1, 3), (1, 6, 6), (6, 3, 5), (5, 6, 2), (3, 5, 3), (6, 6, 2),
]  # fmt: skip


def generated(shape: tuple[int, int, int], seed: int) -> Instance:
    """Generate an instance: best means in [0.4, 0.9], gaps to the others even on a log scale.

    They lie between 0.04 and 0.3 among the arms of the shared representation, and between 0.04 and 0.6
    elsewhere; no mean is below 0.02.
    """
    rng = np.random.default_rng([seed, *shape])
    X, G, H = shape
    shared = rng.integers(G)
    means = np.empty(shape)
    for x in range(X):
        top = rng.uniform(0.4, 0.9)
        means[x] = top - np.exp(rng.uniform(np.log(0.04), np.log(0.6), (G, H)))
        means[x, shared] = top - np.exp(rng.uniform(np.log(0.04), np.log(0.3), H))
        means[x, shared, rng.integers(H)] = top
    return Instance.bernoulli(np.maximum(means, 0.02))
