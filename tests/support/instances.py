"""Instances for tests: the paper's means, random instances, and how a refusal must read."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from osrl.errors import OsrlError
from osrl.model.families import Family
from osrl.model.instance import Instance

Array = NDArray[np.float64]
Shape = tuple[int, int, int]

PAPER = [
    [[0.50, 0.45], [0.35, 0.33], [0.10, 0.05]],
    [[0.50, 0.45], [0.10, 0.05], [0.35, 0.33]],
]


@contextmanager
def refused(message: str) -> Iterator[None]:
    """Check that the block raises an OsrlError of one line with ``message``, which also says what to do."""
    with pytest.raises(OsrlError, match=re.escape(message)) as caught:
        yield
    assert len(str(caught.value).splitlines()) == 1
    assert ";" in str(caught.value), "the part after the semicolon says what to do"


@contextmanager
def refused_among_others(message: str) -> Iterator[None]:
    """Check that the block raises an OsrlError with a line for each problem, one with ``message``."""
    with pytest.raises(OsrlError, match=re.escape(message)) as caught:
        yield
    problems = [line for line in str(caught.value).splitlines() if not line.endswith((" problems", " more"))]
    assert all(";" in problem for problem in problems), "the part after the semicolon says what to do"


def table(**changes: Any) -> dict[str, Any]:
    """Return the keys of a small valid instance with ``changes``; None removes a key."""
    keys = {"family": "bernoulli", "means": [[[0.5, 0.4], [0.2, 0.1]]], **changes}
    return {key: value for key, value in keys.items() if value is not None}


unit = st.floats(0, 1)
real = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1).filter(str.strip)


@st.composite
def instances(draw: st.DrawFn, mean: st.SearchStrategy[float] | None = None) -> Instance:
    """Draw any instance; with ``mean``, Bernoulli instances with means from it."""
    shape = draw(st.tuples(*[st.integers(1, 4)] * 3))
    labels = [draw(st.none() | st.lists(names, min_size=n, max_size=n, unique=True)) for n in shape]
    family = Family("bernoulli")
    if mean is None:
        noise = st.floats(0.01, 100)
        family = draw(st.sampled_from([family, Family("bounded")]) | st.builds(Family, st.just("gaussian"), noise))
        mean = real if family.name == "gaussian" else unit
    size = math.prod(shape)
    values = draw(st.lists(mean, min_size=size, max_size=size))
    return Instance(np.reshape(values, shape), family, *labels)


few_values = instances(st.sampled_from([0.1, 0.2, 0.3, 0.4]))


# Weighted means for kernels: any shape, ties, means at 0 and 1, arms without samples -----------------------


class Weighted(NamedTuple):
    """Means and weights (X, G, H) of a system, in the class M or not, and the noise of its family."""

    means: Array
    weights: Array
    noise: float


def _array(draw: st.DrawFn, shape: Shape, entries: st.SearchStrategy[float]) -> Array:
    size = math.prod(shape)
    return np.reshape(draw(st.lists(entries, min_size=size, max_size=size)), shape).astype(np.float64)


@st.composite
def weighted(draw: st.DrawFn, zeros: bool = True) -> Weighted:
    """Draw systems on which a kernel must equal the oracle; without ``zeros`` all weights are positive."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(2, 4), st.integers(1, 4)))
    noise = draw(st.sampled_from([0.0, 0.0, 0.25, 4.0]))
    # few values make ties; means strictly inside (0, 1) keep some distance, so that levels do not round to 1
    common = st.sampled_from([0.0, 1.0, 0.5, 0.3, 1e-6, 1 - 1e-6])
    entries = common | (st.floats(-9, 9) if noise > 0 else st.floats(1e-6, 1 - 1e-6))
    sizes = st.sampled_from([0.0, 1.0, 5.0]) | st.floats(1e-3, 1e3)
    means = _array(draw, shape, entries)
    if draw(st.booleans()):
        means[:] = means[0]  # identical tasks
    return Weighted(means, _array(draw, shape, sizes if zeros else sizes.filter(bool)), noise)


# Instances of the class M ---------------------------------------------------------------------------------


def random_means(rng: np.random.Generator, shape: Shape, noise: float = 0.0) -> Array:
    """Return means of the class M: each task's best arm is swapped with one of the last representation."""
    means = rng.normal(size=shape) if noise > 0 else rng.uniform(0.03, 0.97, shape)
    for x in range(shape[0]):
        g, h = np.unravel_index(means[x].argmax(), shape[1:])
        means[x, [g, -1], h] = means[x, [-1, g], h]
    return means


def random_instance(seed: int, shape: Shape, noise_sd: float | None = None) -> Instance:
    """Return the random instance of the class M with this seed; with ``noise_sd`` a Gaussian one."""
    rng = np.random.default_rng([seed, *shape])
    if noise_sd is None:
        return Instance.bernoulli(random_means(rng, shape))
    return Instance.gaussian(random_means(rng, shape, noise_sd**2), noise_sd)


def relabelled(instance: Instance, seed: int) -> tuple[Instance, tuple[NDArray[np.int64], ...]]:
    """Return the instance with tasks, representations and predictors in another order, and that order."""
    rng = np.random.default_rng(seed)
    order = tuple(rng.permutation(n) for n in instance.shape)
    return Instance(instance.means[np.ix_(*order)], instance.family), order
