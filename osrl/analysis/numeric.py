"""The numbers of a table: rewards and propensities, as warehouses write them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from osrl.analysis.input import Source, as_type
from osrl.errors import OsrlError
from osrl.model.arrays import Floats

NO_NAME = ("", "null", "NULL", "\\N", "NaN", "nan", "#N/A")  # in place of a name
NOTHING = ("", "null", "none", "nan", "na", "n/a", "#n/a", "\\n")  # in place of a number, in lower case
WORDS = {"true": "1", "false": "0", "t": "1", "f": "0", "yes": "1", "no": "0", "y": "1", "n": "0"}
_REMEDY = "correct the row, or leave out all columns of propensities to use the counts alone"
_ALL = "give the propensities of all arms in columns propensity[g,h], or leave the column out"
_CLOSE = 1e-6


def read_numbers(source: Source, column: str, words: bool = False) -> Floats:
    """A column of numbers; NaN where nothing stands. ``words``: true and false are 1 and 0."""
    given = source.frame[column]
    if given.dtype != pl.String:
        numbers = as_type(given, pl.Float64, "numbers")
        empty = given.is_null() | numbers.is_nan().fill_null(False)
    else:
        texts = given.str.strip_chars().str.to_lowercase()
        empty = given.is_null() | texts.is_in(NOTHING)
        if words:
            texts = texts.replace(WORDS)
        if source.separator not in (None, ","):
            texts = texts.str.replace(r"^([+-]?\d+),(\d+)$", "$1.$2")
        numbers = texts.cast(pl.Float64, strict=False)
    wrong = ~empty & ~numbers.is_finite().fill_null(False)
    kinds = "a number, true, false, or nothing" if words else "a number, or nothing"
    for i in wrong.arg_true():
        source.complain(i, f"column {column!r} is {given[i]!r:.200}; give {kinds}")
    values: Floats = numbers.set(empty | wrong, None).fill_null(float("nan")).to_numpy().astype(float)
    return values


def read_rewards(source: Source) -> Floats:
    """The rewards; NaN where one is missing."""
    return read_numbers(source, "reward", words=True)


def read_propensities(
    source: Source,
    tasks: NDArray[np.int64],
    arms: NDArray[np.int64],
    shape: tuple[int, int, int],
    columns: list[str],
    uniform: bool,
) -> Floats | None:
    """The probabilities (rows, n) of all arms in each row, if they are known.

    A task or an arm is -1 where its row has no name for it.
    """
    there = [name for name in source.frame.columns if name.startswith("propensity[")]
    single = "propensity" in source.frame.columns
    if uniform and there:
        raise OsrlError(f"there is a column {there[0]!r}; leave out --uniform, or the columns of propensities")
    if uniform:
        return np.full((len(arms), len(columns)), 1 / len(columns))
    if there:
        return _of_all(source, arms, columns, there)
    return _of_drawn(source, tasks, arms, shape, columns) if single else None


def _of_all(source: Source, arms: NDArray[np.int64], columns: list[str], there: list[str]) -> Floats | None:
    """From a column for each arm."""
    for name in there:
        if name not in columns:
            raise OsrlError(
                f"column {name!r} is of an arm that is not known; give the names with --representations "
                "and --predictors"
            )
    rows = np.column_stack([read_numbers(source, name) if name in there else np.zeros(len(arms)) for name in columns])
    if np.isnan(rows).all():
        return None
    drawn = np.where(arms < 0, 1.0, rows[np.arange(len(rows)), arms])  # which arm it was may not be known
    absent = [name for name in columns if name not in there]
    hint = f" (there is no column {absent[0]!r})" if absent else ""
    told = np.zeros(len(rows), np.bool_)
    for wrong, what in (
        (np.isnan(rows).any(axis=1), "some propensities are missing"),
        ((rows < 0).any(axis=1) | (rows > 1 + 1e-9).any(axis=1), "a propensity is not between 0 and 1"),
        (np.abs(rows.sum(axis=1) - 1) > _CLOSE, f"the propensities of the task's arms do not sum to 1{hint}"),
        (drawn <= 0, "the arm that was drawn has propensity 0"),
    ):
        for i in np.flatnonzero(wrong & ~told).tolist():
            source.complain(i, f"{what}; {_REMEDY}")
        told |= wrong
    with np.errstate(invalid="ignore"):
        shares: Floats = rows / rows.sum(axis=1, keepdims=True)
    return shares


def _of_drawn(
    source: Source,
    tasks: NDArray[np.int64],
    arms: NDArray[np.int64],
    shape: tuple[int, int, int],
    columns: list[str],
) -> Floats | None:
    """From one column, of the arm that was drawn: enough where each task had one fixed split."""
    given = read_numbers(source, "propensity")
    if np.isnan(given).all():
        return None
    wrong = ~((given > 0) & (given <= 1 + 1e-9))
    for i in np.flatnonzero(wrong).tolist():
        what = "empty" if np.isnan(given[i]) else f"{given[i]:g}"
        source.complain(
            i,
            f"column 'propensity' is {what}; give the probability of the arm that was drawn, above 0 and at "
            "most 1 (0.5, not 50)",
        )
    if wrong.any() or (arms < 0).any() or (tasks < 0).any():
        return None
    split = np.full((shape[0], len(columns)), np.nan)
    first = np.zeros(split.shape, np.int64)
    for i, (x, a) in enumerate(zip(tasks.tolist(), arms.tolist(), strict=True)):
        if np.isnan(split[x, a]):
            split[x, a], first[x, a] = given[i], i
        elif abs(split[x, a] - given[i]) > _CLOSE:
            source.complain(
                i,
                f"column 'propensity' is {given[i]:g}, and {split[x, a]:g} for the same arm in "
                f"{source.where(int(first[x, a]))}: where the split changes, it does not say how the other "
                f"arms were drawn; {_ALL}",
            )
            return None  # so it will be in most rows
    for x in range(shape[0]):
        rest, unseen = 1 - np.nansum(split[x]), np.isnan(split[x])
        if abs(rest) > _CLOSE and (rest < 0 or unseen.sum() != 1):
            i = int(np.flatnonzero(tasks == x)[0])
            source.complain(
                i, f"column 'propensity': those of the arms of this task sum to {1 - rest:g}, not 1; {_ALL}"
            )
        split[x, unseen] = max(rest, 0.0) if unseen.sum() == 1 else 0.0
    with np.errstate(invalid="ignore"):
        split /= split.sum(axis=1, keepdims=True)
    of_rows: Floats = split[tasks]
    return of_rows
