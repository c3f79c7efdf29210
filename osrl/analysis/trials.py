"""Tables of trials that were collected anywhere: a .csv, .jsonl or .parquet file, read and checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from osrl.arrays import Flags, Floats
from osrl.errors import OsrlError
from osrl.families import Family
from osrl.instance import MOST_LETTERS
from osrl.study.export import arm_columns
from osrl.study.frames import read_frame

MOST_ARMS = 10**6
NEEDED = ("task", "representation", "predictor", "reward")
_PROPENSITY = "propensity["
_REMEDY = "correct the row, or leave out all columns of propensities to use the counts alone"
_IGNORABLE = "abandoned, ignorable"  # in the column `status` that studies write


class Table(NamedTuple):
    """Trials in the order of hand-out, by index; a reward that is missing is NaN."""

    task_names: tuple[str, ...]
    representations: tuple[str, ...]
    predictors: tuple[str, ...]
    family: Family
    tasks: NDArray[np.int64]  # (rows,)
    arms: NDArray[np.int64]  # (rows,) g * H + h
    rewards: Floats  # (rows,)
    ignorable: Flags  # (rows,) dropping out tells nothing
    propensities: Floats | None  # (rows, n) of all arms of the task, sum 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of tasks, representations and predictors."""
        return len(self.task_names), len(self.representations), len(self.predictors)


def read_table(
    path: str | os.PathLike[str],
    *,
    family: str | None = None,
    noise_sd: float | None = None,
    representations: Sequence[str] | None = None,
    predictors: Sequence[str] | None = None,
) -> Table:
    """Read a table of trials.

    Names are those that occur, in their order, unless they are given. The family is bernoulli for
    rewards 0 and 1, and bounded for others in [0, 1], unless it is given.
    """
    path = Path(path)
    try:
        frame = read_frame(path, f"a table with the columns {', '.join(NEEDED)}")
        return _read_frame(frame, family, noise_sd, representations, predictors)
    except OsrlError as error:
        raise OsrlError(f"{path}: {error}") from None


def _read_frame(
    frame: pl.DataFrame,
    family: str | None,
    noise_sd: float | None,
    representations: Sequence[str] | None,
    predictors: Sequence[str] | None,
) -> Table:
    for name in NEEDED:
        if name not in frame.columns:
            raise OsrlError(f"there is no column {name!r}; a table of trials has {', '.join(NEEDED)}")
    if frame.is_empty():
        raise OsrlError("there are no rows; give a table with at least one trial")
    tasks, task_names = _index(frame, "task", None, ())
    there = [name for name in frame.columns if name.startswith(_PROPENSITY)]
    pairs = [name[len(_PROPENSITY) : -1].split(",") for name in there]
    clear = [pair for pair in pairs if len(pair) == 2]  # a comma in a name: only the rows can tell
    g, representations = _index(frame, "representation", representations, [pair[0] for pair in clear])
    h, predictors = _index(frame, "predictor", predictors, [pair[1] for pair in clear])
    if len(task_names) * len(representations) * len(predictors) > MOST_ARMS:
        raise OsrlError(
            f"{len(task_names):,} tasks, {len(representations):,} representations and {len(predictors):,} "
            f"predictors are more than {MOST_ARMS:,} arms; are these the right columns? Use fewer names"
        )
    rewards = _numbers(frame, "reward")
    found = _family(rewards, family, noise_sd)
    for i in np.flatnonzero(~np.isnan(rewards)).tolist():
        if not found.accepts_reward(float(rewards[i])):
            raise OsrlError(f"row {i + 1}: the reward is {rewards[i]:g}; give {found.reward_range}")
    arms = g * len(predictors) + h
    status = _cast(frame["status"], pl.String, "text").to_list() if "status" in frame.columns else []
    ignorable = np.array([each == _IGNORABLE for each in status] or [False] * len(frame))
    propensities = _propensities(frame, arms, arm_columns(representations, predictors))
    return Table(
        task_names, representations, predictors, found, tasks, arms, rewards, ignorable, propensities
    )


def _index(
    frame: pl.DataFrame, column: str, names: Sequence[str] | None, named: Sequence[str]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The names of a column as indices, and what they stand for: all that are ``named`` or occur."""
    given = _cast(frame[column], pl.String, "names")
    longest = given.str.len_chars().max()
    if isinstance(longest, int) and longest > MOST_LETTERS:
        raise OsrlError(f"column {column!r} has a name of {longest:,} letters; use at most {MOST_LETTERS:,}")
    values = given.to_list()
    known = tuple(dict.fromkeys([*named, *values])) if names is None else tuple(names)
    place = {name: i for i, name in enumerate(known)}
    for i, value in enumerate(values):
        if value is None or value not in place:
            what = "is missing" if value is None else f"is {value!r:.200}, which is not among the names given"
            raise OsrlError(f"row {i + 1}: the {column} {what}; correct the row")
    return np.array([place[value] for value in values]), known


def _cast(given: pl.Series, kind: type[pl.DataType], what: str) -> pl.Series:
    """A column as text or numbers, whatever it is; null where that makes no sense."""
    try:
        found = given.cast(kind, strict=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        found = None
    if found is None or found.dtype != kind:
        raise OsrlError(f"column {given.name!r} has values of type {given.dtype}; give {what}")
    return found


def _numbers(frame: pl.DataFrame, column: str) -> Floats:
    """A column of numbers; NaN where nothing stands."""
    given = frame[column]
    numbers = _cast(given, pl.Float64, "numbers")
    empty = given.is_null() | (given == "") if given.dtype == pl.String else given.is_null()
    wrong = (~empty & ~numbers.is_finite().fill_null(False)).arg_true()
    if len(wrong):
        i = int(wrong[0])
        raise OsrlError(f"row {i + 1}: the {column} is {given[i]!r:.200}; give a number, or nothing")
    found: Floats = numbers.fill_null(float("nan")).to_numpy()
    return found


def _family(rewards: Floats, family: str | None, noise_sd: float | None) -> Family:
    if family is not None:
        return Family(family, noise_sd)
    known = rewards[~np.isnan(rewards)]
    if np.isin(known, (0.0, 1.0)).all():
        return Family("bernoulli")
    if (known < 0).any() or (known > 1).any():
        raise OsrlError("some rewards are outside [0, 1]; give --family gaussian with --noise-sd")
    return Family("bounded")


def _propensities(frame: pl.DataFrame, arms: NDArray[np.int64], columns: list[str]) -> Floats | None:
    """The probabilities of all arms in each row, if every row has them."""
    there = [name for name in frame.columns if name.startswith(_PROPENSITY)]
    if not there:
        return None
    for name in there:
        if name not in columns:
            raise OsrlError(
                f"column {name!r} is of an arm that is not known; give the names with --representations "
                "and --predictors"
            )
    rows = np.column_stack(
        [_numbers(frame, name) if name in there else np.zeros(len(frame)) for name in columns]
    )
    if np.isnan(rows).all():
        return None
    drawn = rows[np.arange(len(rows)), arms]
    absent = [name for name in columns if name not in there]
    hint = f" (there is no column {absent[0]!r})" if absent else ""
    for wrong, what in (
        (np.isnan(rows).any(axis=1), "some propensities are missing"),
        ((rows < 0).any(axis=1) | (rows > 1 + 1e-9).any(axis=1), "a propensity is not between 0 and 1"),
        (np.abs(rows.sum(axis=1) - 1) > 1e-6, f"the propensities of the task's arms do not sum to 1{hint}"),
        (drawn <= 0, "the arm that was drawn has propensity 0"),
    ):
        if wrong.any():
            raise OsrlError(f"row {int(np.flatnonzero(wrong)[0]) + 1}: {what}; {_REMEDY}")
    found: Floats = rows / rows.sum(axis=1, keepdims=True)
    return found
