"""Instances for tests: the paper's means, random instances, and how a refusal must read."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from osrl.errors import OsrlError
from osrl.families import Family
from osrl.instance import Instance

PAPER = [
    [[0.50, 0.45], [0.35, 0.33], [0.10, 0.05]],
    [[0.50, 0.45], [0.10, 0.05], [0.35, 0.33]],
]


@contextmanager
def refused(message: str) -> Iterator[None]:
    """The block raises an OsrlError of one line that contains ``message`` and says what to do."""
    with pytest.raises(OsrlError, match=re.escape(message)) as caught:
        yield
    assert len(str(caught.value).splitlines()) == 1
    assert ";" in str(caught.value), "the part after the semicolon says what to do"


def table(**changes: Any) -> dict[str, Any]:
    """The keys of a small valid instance with ``changes``; None removes a key."""
    keys = {"family": "bernoulli", "means": [[[0.5, 0.4], [0.2, 0.1]]], **changes}
    return {key: value for key, value in keys.items() if value is not None}


unit = st.floats(0, 1)
real = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1).filter(str.strip)


@st.composite
def instances(draw: st.DrawFn, mean: st.SearchStrategy[float] | None = None) -> Instance:
    """Any instance; with ``mean``, Bernoulli instances with means from it."""
    shape = draw(st.tuples(*[st.integers(1, 4)] * 3))
    labels = [draw(st.none() | st.lists(names, min_size=n, max_size=n, unique=True)) for n in shape]
    family = Family("bernoulli")
    if mean is None:
        noise = st.floats(0.01, 100)
        family = draw(
            st.sampled_from([family, Family("bounded")]) | st.builds(Family, st.just("gaussian"), noise)
        )
        mean = real if family.name == "gaussian" else unit
    size = math.prod(shape)
    values = draw(st.lists(mean, min_size=size, max_size=size))
    return Instance(np.reshape(values, shape), family, *labels)


few_values = instances(st.sampled_from([0.1, 0.2, 0.3, 0.4]))
