"""Posterior draws of the means, given the rewards so far, for forecasts.

The means of all arms are taken to come from one distribution, whose centre and spread are learnt from the
rewards: a Beta distribution for rewards in [0, 1], a normal one for Gaussian rewards. So an arm, or a task,
without data is believed to be like the others, and estimates are drawn together as far as they differ by
chance alone. Tasks share their best representation. Near ties are as likely as the rewards leave them: a
belief that people compare what differs makes forecasts of clear cases shorter, and those of ties far too
short. It is a belief for forecasts; no claim rests on it.
"""

from __future__ import annotations

import numpy as np

from osrl.model.arrays import Floats

CANDIDATE_DRAWS = 64  # draws of a task among which one is chosen that fits the representation
_CENTRES = (np.arange(24) + 0.5) / 24
_STRENGTHS = np.geomspace(1.0, 30.0, 18)  # of the Beta distribution: its spread is about 1 / (2 sqrt(it))
_SPREADS = np.geomspace(0.02, 5.0, 18)  # of the normal one, in standard deviations of the noise
_WIDE = 10.0  # standard deviations of the noise by which an arm may lie away from where nothing is known


def plausible_means(
    pulls: Floats, sums: Floats, representations: int, noise: float, draws: int, rng: np.random.Generator
) -> Floats:
    """Draw means (draws, X, n) with one best representation in all tasks; ``pulls``, ``sums`` (X, n)."""
    posterior = _coins if noise == 0 else _normals
    return np.stack([_sharing(means, representations, rng) for means in posterior(pulls, sums, noise, draws, rng)])


def _coins(pulls: Floats, sums: Floats, noise: float, draws: int, rng: np.random.Generator) -> Floats:
    """Draw candidates (draws, CANDIDATE_DRAWS, X, n) for rewards in [0, 1]."""
    from scipy.special import betaln  # here: to load it takes longer than most commands

    a = (_STRENGTHS[:, None] * _CENTRES)[:, :, None, None]
    b = (_STRENGTHS[:, None] * (1 - _CENTRES))[:, :, None, None]
    likelihood = (betaln(a + sums, b + pulls - sums) - betaln(a, b)).sum(axis=(2, 3)).ravel()
    weights = np.exp(likelihood - likelihood.max())
    chosen = rng.choice(weights.size, draws, p=weights / weights.sum())
    first, second = (part.ravel()[chosen][:, None, None, None] for part in (a, b))
    shape = draws, CANDIDATE_DRAWS, *pulls.shape
    found: Floats = rng.beta(np.broadcast_to(first + sums, shape), np.broadcast_to(second + pulls - sums, shape))
    return found


def _normals(pulls: Floats, sums: Floats, noise: float, draws: int, rng: np.random.Generator) -> Floats:
    """Draw candidates (draws, CANDIDATE_DRAWS, X, n) for Gaussian rewards of variance ``noise``."""
    scale = np.sqrt(noise)
    known = pulls > 0
    means, variances = sums[known] / pulls[known], noise / pulls[known]
    middle = means.mean()
    spread = scale * _SPREADS[:, None]
    precision = 1 / (spread**2 + variances)
    total = precision.sum(axis=1) + 1 / (_WIDE**2 * noise)
    centre = middle + (precision * (means - middle)).sum(axis=1) / total
    away = precision * (means - centre[:, None]) ** 2
    likelihood = 0.5 * (np.log(precision).sum(axis=1) - away.sum(axis=1) - np.log(total))
    weights = np.exp(likelihood - likelihood.max())
    chosen = rng.choice(weights.size, draws, p=weights / weights.sum())
    centres = rng.normal(centre[chosen], 1 / np.sqrt(total[chosen]))[:, None, None, None]
    own = (1 / spread[chosen] ** 2)[:, None, None]
    with_data = pulls / noise + own
    posterior = (sums / noise + own * centres) / with_data
    found: Floats = rng.normal(
        np.broadcast_to(posterior, (draws, CANDIDATE_DRAWS, *pulls.shape)), 1 / np.sqrt(with_data)
    )
    return found


def _sharing(candidates: Floats, representations: int, rng: np.random.Generator) -> Floats:
    """Choose means (X, n) from candidates (C, X, n): a representation, and for each task one where it is best.

    A representation is as likely as it is the best in the candidates of all tasks. Where it never is in a
    task, the best arm of the task and the best one of the representation change places.
    """
    count, tasks, n = candidates.shape
    predictors = n // representations
    best = candidates.argmax(axis=2)
    chance = np.stack([(best // predictors == g).mean(axis=0) for g in range(representations)])
    log_chance = np.log(chance + 0.1 / count).sum(axis=1)
    weights = np.exp(log_chance - log_chance.max())
    g = int(rng.choice(representations, p=weights / weights.sum()))
    means = np.empty((tasks, n))
    for x in range(tasks):
        fits = np.flatnonzero(best[:, x] // predictors == g)
        i = int(rng.choice(fits)) if fits.size else int(rng.integers(count))
        means[x] = candidates[i, x]
        if not fits.size:
            own = g * predictors + int(means[x, g * predictors : (g + 1) * predictors].argmax())
            top = int(best[i, x])
            means[x, own], means[x, top] = means[x, top], means[x, own]
    return means
