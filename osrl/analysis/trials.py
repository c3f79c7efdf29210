"""Tables of trials that were collected anywhere, read and checked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from osrl.analysis.columns import (
    MISSING_NAMES,
    drop_copies,
    find_column,
    merge_spellings,
    name_columns,
    order_rows,
    read_propensities,
    read_rewards,
)
from osrl.analysis.input import Source, as_type, from_frame, read_source
from osrl.errors import OsrlError
from osrl.model.arrays import Flags, Floats
from osrl.model.families import Family, read_limits
from osrl.model.instance import MAX_NAME_LETTERS
from osrl.study.log.tables import short_message
from osrl.study.views.history import arm_columns

MAX_ARMS = 10**6
_PROPENSITY = "propensity["
_OUTSIDE = ", or say with --low and --high between which limits, known beforehand, rewards lie"
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
    ignorable: Flags  # (rows,) whether the missing reward is ignorable
    propensities: Floats | None  # (rows, n) of all arms of the task, sum 1
    limits: tuple[float, float] = (0.0, 1.0)  # that became rewards 0 and 1
    remarks: tuple[str, ...] = ()  # about what was read, for the reader

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of tasks, representations and predictors."""
        return len(self.task_names), len(self.representations), len(self.predictors)


class TableOptions(TypedDict, total=False):
    """The meaning of columns, rows and rewards, where the table itself leaves it open.

    ``columns`` says which column is what, such as ``{"task": "market"}``. Rows are in the order of hand-out,
    or have a column of times to ``order_by``. ``distinct`` is a column of keys: rows with the same key are
    copies, of which one counts. ``uniform``: each arm of a task was drawn with the same probability. Names are
    those that occur, in their order, unless they are given; ``tidy``: those that differ only in case or blanks are
    one. The family is bernoulli for rewards 0 and 1, and bounded for others in [0, 1], unless it is given. ``low``
    and ``high`` are the smallest and the largest bounded reward that was possible, as far as that was known before
    there were rows.
    """

    columns: Mapping[str, str] | None
    order_by: str | None
    distinct: str | None
    uniform: bool
    tidy: bool
    family: str | None
    noise_sd: float | None
    low: float | None
    high: float | None
    representations: Sequence[str] | None
    predictors: Sequence[str] | None


def read_table(log: Any, **options: Unpack[TableOptions]) -> Table:
    """Read a table of trials: a file, or a frame; the options are those of `TableOptions`."""
    path = Path(log) if isinstance(log, str | os.PathLike) else None
    try:
        return _read_source(from_frame(_frame(log)) if path is None else read_source(path), **options)
    except OsrlError as error:
        if path is None:
            raise
        message, *details = error.args
        raise OsrlError(f"{path}: {message}", *details) from None


def _frame(given: Any) -> pl.DataFrame:
    """Return a frame of Polars, from anything that it can make one of."""
    if isinstance(given, pl.LazyFrame):
        return given.collect()
    try:
        return pl.DataFrame(given)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise OsrlError(
            f"the log is no table ({short_message(error)}); give a file, a frame, or a mapping of columns"
        ) from None


def _read_source(
    source: Source,
    *,
    columns: Mapping[str, str] | None = None,
    order_by: str | None = None,
    distinct: str | None = None,
    uniform: bool = False,
    tidy: bool = False,
    family: str | None = None,
    noise_sd: float | None = None,
    low: float | None = None,
    high: float | None = None,
    representations: Sequence[str] | None = None,
    predictors: Sequence[str] | None = None,
) -> Table:
    """Check the rows of a source, and return them as a table."""
    if source.frame.is_empty() and source.frame.width:
        raise OsrlError("there are no rows; give a table with at least one trial")
    remarks = []
    if order_by is not None:
        source, more = order_rows(source, order_by)
        remarks += more
    keys = None if distinct is None else find_column(source, distinct, "of keys")
    source, more = name_columns(source, columns or {})
    remarks += more
    if distinct is not None and keys is not None:
        source, more = drop_copies(source, distinct, keys)
        remarks += more
    _check_trials(source)
    source, more = merge_spellings(source, tidy)
    remarks += more
    frame = source.frame
    tasks, task_names = _index(source, "task", None, ())
    there = [name for name in frame.columns if name.startswith(_PROPENSITY)]
    pairs = [name[len(_PROPENSITY) : -1].split(",") for name in there]
    clear = [pair for pair in pairs if len(pair) == 2]  # a comma in a name: only the rows have the name
    g, names_g = _index(source, "representation", representations, [pair[0] for pair in clear])
    h, names_h = _index(source, "predictor", predictors, [pair[1] for pair in clear])
    if not (task_names and names_g and names_h):
        source.problems.refuse()
    shape = len(task_names), len(names_g), len(names_h)
    if math.prod(shape) > MAX_ARMS:
        raise OsrlError(
            f"{shape[0]:,} tasks, {shape[1]:,} representations and {shape[2]:,} "
            f"predictors are more than {MAX_ARMS:,} arms; are these the right columns? Use fewer names"
        )
    rewards = read_rewards(source)
    found, limits = _family(rewards, family, noise_sd, low, high)
    scaled = (rewards - limits[0]) / (limits[1] - limits[0])
    possible = found.reward_range if limits == (0, 1) else f"a number from {limits[0]:g} to {limits[1]:g}"
    for i in np.flatnonzero(~np.isnan(scaled)).tolist():
        if not found.accepts_reward(float(scaled[i])):
            source.add_problem(i, f"column 'reward' is {rewards[i]:g}; give {possible}{_OUTSIDE}")
    arms = np.where((g < 0) | (h < 0), -1, g * shape[2] + h)
    status = as_type(frame["status"], pl.String, "text").to_list() if "status" in frame.columns else []
    ignorable = np.array([each == _IGNORABLE for each in status] or [False] * len(frame))
    propensities = read_propensities(source, tasks, arms, shape, arm_columns(names_g, names_h), uniform)
    source.problems.refuse()
    return Table(
        task_names,
        names_g,
        names_h,
        found,
        tasks,
        arms,
        scaled,
        ignorable,
        propensities,
        limits,
        tuple(remarks),
    )


def _check_trials(source: Source) -> None:
    """Report trials that are there twice: a join has doubled them."""
    if "trial" not in source.frame.columns:
        return
    trials = source.frame["trial"]
    first: dict[Any, int] = {}
    for i in (trials.is_duplicated() & trials.is_not_null()).arg_true():
        before = first.setdefault(trials[i], i)
        if before < i:
            source.add_problem(
                i,
                f"column 'trial' is {trials[i]!r:.60} as in {source.where(before)}; a trial counts once, "
                "remove one of the rows, or say --distinct if they are copies",
            )


def _index(
    source: Source, column: str, names: Sequence[str] | None, named: Sequence[str]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the names of a column as indices, and what they stand for: all that are ``named`` or occur.

    The index of a row without a name, or with an unknown one, is -1.
    """
    given = as_type(source.frame[column], pl.String, "names")
    longest = given.str.len_chars().max()
    if isinstance(longest, int) and longest > MAX_NAME_LETTERS:
        raise OsrlError(f"column {column!r} has a name of {longest:,} letters; use at most {MAX_NAME_LETTERS:,}")
    values = given.to_list()
    there = [value for value in values if value is not None and value.strip() not in MISSING_NAMES]
    known = tuple(dict.fromkeys([*named, *there])) if names is None else tuple(names)
    place = {name: i for i, name in enumerate(known)}
    for i, value in enumerate(values):
        if value is None or value.strip() in MISSING_NAMES:
            what = "empty" if value is None or not value.strip() else repr(value)
            source.add_problem(
                i, f"column {column!r} is {what}; give the {column}, or remove the row if there was no trial"
            )
        elif value not in place:
            source.add_problem(
                i,
                f"column {column!r} is {value!r:.200}, not among the names given; correct the row, or add the name",
            )
    return np.array([place.get(value, -1) for value in values]), known


def _family(
    rewards: Floats, family: str | None, noise_sd: float | None, low: float | None, high: float | None
) -> tuple[Family, tuple[float, float]]:
    """Return the family that is given, or the one that the rewards have, and their limits."""
    if family is None and low is None and high is None:
        known = rewards[~np.isnan(rewards)]
        return Family("bernoulli" if np.isin(known, (0.0, 1.0)).all() else "bounded"), (0.0, 1.0)
    found = Family(family or "bounded", noise_sd)
    return found, read_limits(found.name, low, high)
