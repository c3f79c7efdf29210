"""Instances: what is accepted, what is refused and in which words, and the best arms."""

import copy
import dataclasses
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from osrl.errors import OsrlError
from osrl.model.families import Family
from osrl.model.instance import BestArms, Instance
from tests.support.instances import PAPER, few_values, refused, table

# Construction -----------------------------------------------------------------------------------


def test_an_instance_holds_means_family_and_default_names() -> None:
    instance = Instance.bernoulli(PAPER)
    assert instance.shape == (2, 3, 2)
    assert instance.means.dtype == np.float64
    assert instance.means[1, 2, 0] == 0.35
    assert instance.family == Family("bernoulli")
    assert instance.tasks == ("x1", "x2")
    assert instance.representations == ("g1", "g2", "g3")
    assert instance.predictors == ("h1", "h2")


def test_given_names_are_kept() -> None:
    instance = Instance.bounded(PAPER, tasks=["age<40", "age≥40"], predictors=("low dose", "high dose"))
    assert instance.tasks == ("age<40", "age≥40")
    assert instance.predictors == ("low dose", "high dose")
    assert instance.representations == ("g1", "g2", "g3")
    assert instance.family == Family("bounded")


def test_gaussian_means_may_be_any_finite_numbers() -> None:
    instance = Instance.gaussian([[[-3, 1e6]]], noise_sd=2)
    assert instance.family == Family("gaussian", 2.0)
    assert instance.means.tolist() == [[[-3.0, 1e6]]]


@pytest.mark.parametrize(
    "means",
    [
        np.array(PAPER),
        [np.array(block) for block in PAPER],
        tuple(tuple(map(tuple, block)) for block in PAPER),
        [[[np.float64(value) for value in row] for row in block] for block in PAPER],
        [[[Fraction(str(value)) for value in row] for row in block] for block in PAPER],
    ],
)
def test_means_may_be_arrays_or_nested_sequences(means: Any) -> None:
    assert Instance.bernoulli(means) == Instance.bernoulli(PAPER)


@pytest.mark.parametrize("remake", [lambda i: i, copy.deepcopy, lambda i: pickle.loads(pickle.dumps(i))])
def test_an_instance_cannot_change(remake: Any) -> None:
    source = np.array(PAPER)
    instance = remake(Instance.bernoulli(source))
    source[0, 0, 0] = 0.0
    assert instance.means[0, 0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        instance.means[0, 0, 0] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        instance.tasks = ("a", "b")


def test_the_boundaries_of_the_family_are_inside() -> None:
    assert Instance.bernoulli([[[0, 1]]]).means.tolist() == [[[0.0, 1.0]]]


def test_repr_is_short() -> None:
    assert repr(Instance.bernoulli(PAPER)) == "Instance(bernoulli, 2 tasks, 3 representations, 2 predictors)"
    small = Instance.gaussian([[[1.0]]], 0.5)
    assert repr(small) == "Instance(gaussian, noise_sd=0.5, 1 task, 1 representation, 1 predictor)"


# Equality ---------------------------------------------------------------------------------------


def test_equality_and_hash_are_by_content() -> None:
    one, same = Instance.bernoulli(PAPER), Instance.bernoulli(np.array(PAPER), tasks=["x1", "x2"])
    assert one == same and hash(one) == hash(same)
    others = [
        Instance.bounded(PAPER),
        Instance.gaussian(PAPER, 1.0),
        Instance.gaussian(PAPER, 2.0),
        Instance.bernoulli(PAPER[::-1]),
        Instance.bernoulli(PAPER, tasks=["x1", "x3"]),
        Instance.bernoulli(PAPER, representations=["g1", "g2", "g4"]),
        Instance.bernoulli(PAPER, predictors=["h2", "h1"]),
        Instance.bernoulli(np.reshape(PAPER, (2, 2, 3))),
        "paper",
    ]
    assert len({one, same, *others}) == 1 + len(others)


def test_minus_zero_is_zero() -> None:
    assert Instance.bernoulli([[[-0.0, 0.5]]]) == Instance.bernoulli([[[0.0, 0.5]]])
    assert hash(Instance.bernoulli([[[-0.0, 0.5]]])) == hash(Instance.bernoulli([[[0.0, 0.5]]]))


# Refused means ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("means", "message"),
    [
        (0.5, "means is 0.5, not a list of blocks; means needs one block for each task"),
        ("0.5", "means is '0.5', not a list of blocks"),
        ({"x1": [[0.5]]}, "means is {'x1': [[0.5]]}, not a list of blocks"),
        (
            [0.5, 0.4],
            "means[x1] is 0.5, not a list of rows; every block needs one row for each representation",
        ),
        ([[0.5, 0.4]], "means[x1][g1] is 0.5, not a list of numbers; every row needs one number for each"),
        ([[["0.5"]]], "means[x1][g1][h1] is '0.5'; give a number"),
        ([[[[0.5]]]], "means[x1][g1][h1] is [0.5]; give a number"),
        ([[[0.5, None]]], "means[x1][g1][h2] is None; give a number"),
        ([[[True, 0.5]]], "means[x1][g1][h1] is True; give a number"),
        (np.array([[[True, False]]]), "means[x1][g1][h1] is True; give a number"),
        (np.array([[[0.5j]]]), "means[x1][g1][h1] is 0.5j; give a number"),
        ([[[0.5, 10**400]]], "means[x1][g1][h2] is too large"),
        ([], "means is empty; means needs one block for each task"),
        ([[[0.5]], []], "means[x2] is empty; every block needs one row for each representation"),
        ([[[0.5], []]], "means[x1][g2] is empty; every row needs one number for each predictor"),
        (np.zeros((2, 0, 3)), "means[x1] is empty"),
        (
            [PAPER[0], PAPER[1][:2]],
            "means[x2] has 2 rows but means[x1] has 3; every block needs one row for each representation",
        ),
        (
            [PAPER[0], [*PAPER[1][:2], [0.35]]],
            "means[x2][g3] has 1 number but means[x1][g1] has 2; every row needs one number",
        ),
        ([[[0.5], [0.4, 0.3]]], "means[x1][g2] has 2 numbers but means[x1][g1] has 1"),
    ],
)
@pytest.mark.parametrize("family", [Family("bernoulli"), Family("gaussian", 1.0)])
def test_misshapen_means_are_refused(means: Any, message: str, family: Family) -> None:
    with refused(message):
        Instance(means, family)


@pytest.mark.parametrize("family", ["bernoulli", "bounded"])
@pytest.mark.parametrize("value", [-0.01, 1.01, 50.0, math.nan, math.inf, -math.inf])
def test_means_outside_the_family_are_refused(family: str, value: float) -> None:
    with refused(f"means[x1][g2][h1] is {value}; give numbers in [0, 1] for the {family} family"):
        Instance([[[0.5, 0.4], [value, 0.1]]], Family(family))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_gaussian_means_must_be_finite(value: float) -> None:
    with refused(f"means[x1][g1][h2] is {value}; give finite numbers for the gaussian family"):
        Instance.gaussian([[[0.5, value]]], 1.0)


def test_places_are_called_by_the_given_names() -> None:
    with refused("means[old][linear][h2] is 2.0"):
        Instance.bernoulli([[[0.5, 0.1]], [[0.5, 2.0]]], tasks=["young", "old"], representations=["linear"])
    with refused("means[x2] has 1 row but means[only] has 2"):
        Instance.bernoulli([[[0.5], [0.4]], [[0.5]]], tasks=["only"])


@pytest.mark.parametrize("value", ["1", True, [1.0]])
def test_noise_must_be_a_number(value: Any) -> None:
    with refused(f"noise_sd is {value!r}; give a number"):
        Instance.gaussian(PAPER, value)
    with refused(f"noise_sd is {value!r}; give a number"):
        Instance.from_dict(table(family="gaussian", noise_sd=value))


# Refused names ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tasks", "x1", "tasks is 'x1'; give a list of names, one for each task"),
        ("tasks", 3, "tasks is 3; give a list of names, one for each task"),
        (
            "tasks",
            [],
            "tasks has 0 names but means has 1 task; give one name for each task, or leave tasks out",
        ),
        ("tasks", ["a", "b"], "tasks has 2 names but means has 1 task"),
        ("representations", ["a"], "representations has 1 name but means has 2 representations"),
        ("predictors", ["a", "b", "c"], "predictors has 3 names but means has 2 predictors"),
        (
            "predictors",
            ["a", "a"],
            "predictors repeats 'a' (names 1 and 2); give each predictor its own name",
        ),
        ("representations", ["a", ""], "name 2 of representations is ''; a name is one line of text"),
        ("representations", ["  ", "b"], "name 1 of representations is ' '; a name is one line of text"),
        ("representations", ["a", 2], "name 2 of representations is 2; a name is one line of text"),
        (
            "representations",
            ["a", "b\nc"],
            r"name 2 of representations is 'b\nc'; a name is one line of text",
        ),
        ("representations", ["a", "\ud800"], r"name 2 of representations is '\ud800'; a name is one line"),
    ],
)
def test_bad_names_are_refused(key: str, value: Any, message: str) -> None:
    with refused(message):
        Instance.from_dict(table(**{key: value}))


# Best arms --------------------------------------------------------------------------------------


def test_the_best_arms_of_the_paper() -> None:
    instance = Instance.load("paper")
    assert instance.best == BestArms(representation=0, predictors=(0, 0))
    assert instance.in_model_class


def test_each_task_has_its_own_best_predictor() -> None:
    instance = Instance.bernoulli([[[0.1, 0.2], [0.3, 0.9]], [[0.5, 0.2], [0.6, 0.5]]])
    assert instance.best == BestArms(representation=1, predictors=(1, 0))


def test_a_tie_has_no_best_arm() -> None:
    instance = Instance.bernoulli([[[0.9, 0.1]], [[0.5, 0.5]]], tasks=["a", "b"])
    with refused("task b has 2 best arms, (g1,h1), (g1,h2), with mean 0.5; each task needs a single best arm"):
        _ = instance.best
    with refused("task x1 has 4 best arms, (g1,h1), (g1,h2), (g2,h1), ..., with mean 0.5"):
        _ = Instance.bernoulli([[[0.5, 0.5], [0.5, 0.5]]]).best


def test_tasks_must_share_the_best_representation() -> None:
    instance = Instance.bernoulli([[[0.9], [0.1]], [[0.8], [0.1]], [[0.1], [0.9]]])
    with refused(
        "task x1 is best with (g1,h1) but task x3 with (g2,h1); one representation must be best in every task"
    ):
        _ = instance.best


def literal_best(instance: Instance) -> BestArms | None:
    """Find the best arms by the paper's definition of M, by trial of every answer; None outside the class."""
    X, G, H = instance.shape
    found = []
    for g in range(G):
        predictors = []
        for x in range(X):
            for h in range(H):
                rivals = [instance.means[x, i, j] for i in range(G) for j in range(H) if (i, j) != (g, h)]
                if all(instance.means[x, g, h] > rival for rival in rivals):
                    predictors.append(h)
        if len(predictors) == X:
            found.append(BestArms(g, tuple(predictors)))
    assert len(found) <= 1
    return found[0] if found else None


@given(few_values)
@example(Instance.bernoulli(PAPER))
@example(Instance.bernoulli([[[0.5]]]))
def test_best_is_the_papers_definition(instance: Instance) -> None:
    expected = literal_best(instance)
    assert instance.in_model_class == (expected is not None)
    if expected is None:
        with pytest.raises(OsrlError, match="^task "):
            _ = instance.best
    else:
        assert instance.best == expected


@given(few_values | st.just(Instance.bernoulli(PAPER)), st.data())
def test_relabelling_moves_the_best_arms_along(instance: Instance, data: st.DataObject) -> None:
    orders = [data.draw(st.permutations(range(n))) for n in instance.shape]

    labels = (instance.tasks, instance.representations, instance.predictors)
    moved_labels = ([names[i] for i in order] for names, order in zip(labels, orders, strict=True))
    moved = Instance(instance.means[np.ix_(*orders)], instance.family, *moved_labels)
    assert moved.in_model_class == instance.in_model_class
    if instance.in_model_class:
        assert named_best(moved) == named_best(instance)


def named_best(instance: Instance) -> tuple[str, dict[str, str]]:
    best = instance.best
    chosen = [instance.predictors[h] for h in best.predictors]
    return instance.representations[best.representation], dict(zip(instance.tasks, chosen, strict=True))
