"""The columns of a table: found by name or by a mapping, ordered, tidied, and read as numbers.

Rewards and propensities are read as warehouses write them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from osrl.analysis.input import Source, as_type
from osrl.errors import OsrlError
from osrl.model.arrays import Floats

NEEDED = ("task", "representation", "predictor", "reward")
OPTIONAL = ("propensity", "trial", "status")
NAME_COLUMNS = NEEDED[:3]
MAX_SPELLINGS = 3  # pairs of spellings that are named
_TIME_REMEDY = "give a time such as 2026-03-17T08:30:00Z, or a number, in every row"
MISSING_NAMES = ("", "null", "NULL", "\\N", "NaN", "nan", "#N/A")  # in place of a name
MISSING_NUMBERS = ("", "null", "none", "nan", "na", "n/a", "#n/a", "\\n")  # in place of a number, in lower case
TRUTH_WORDS = {"true": "1", "false": "0", "t": "1", "f": "0", "yes": "1", "no": "0", "y": "1", "n": "0"}
_PROPENSITY_REMEDY = "correct the row, or leave out all columns of propensities to use the counts alone"
_GIVE_ALL = "give the propensities of all arms in columns propensity[g,h], or leave the column out"
_SUM_TOLERANCE = 1e-6
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?")


def name_columns(source: Source, columns: Mapping[str, str]) -> tuple[Source, list[str]]:
    """Return the table with our names for its columns, and remarks about them."""
    frame, remarks = source.frame, []
    for role, name in columns.items():
        if role not in (*NEEDED, *OPTIONAL):
            raise OsrlError(f"there is no role {role!r}; map {', '.join((*NEEDED, *OPTIONAL))}")
        if name not in frame.columns:
            raise OsrlError(f"there is no column {name!r}; {_columns_hint(frame.columns, name)}")
    chosen, absent = dict(columns), []
    for role in (*NEEDED, *OPTIONAL):
        if role in chosen or role in frame.columns:
            continue
        alike = [name for name in frame.columns if normalise_name(name) == role and name not in chosen.values()]
        if len(alike) == 1:
            chosen[role] = alike[0]
            remarks.append(f"column {alike[0]!r} is read as {role!r}")
        elif role in NEEDED:
            absent.append(role)
    if absent:
        raise OsrlError(
            f"there is no column {' and no column '.join(map(repr, absent))}; a table of trials has "
            f"{', '.join(NEEDED)}. Say which is which with --columns {absent[0]}=NAME,...; "
            f"{_columns_hint(frame.columns, absent[0])}"
        )
    twice = [name for name, number in Counter(chosen.values()).items() if number > 1]
    if twice:
        raise OsrlError(f"column {twice[0]!r} is mapped twice; give each column one role")
    replaced = [role for role in chosen if role in frame.columns and chosen[role] != role]
    renamed = frame.drop([role for role in replaced if role not in chosen.values()])
    return source._replace(frame=renamed.rename({name: role for role, name in chosen.items()})), remarks


def find_column(source: Source, column: str, what: str) -> pl.Series:
    """Return the column of this name, before columns have ours; ``what`` it is for."""
    if column not in source.frame.columns:
        raise OsrlError(f"there is no column {column!r} {what}; {_columns_hint(source.frame.columns, column)}")
    return source.frame[column]


def _columns_hint(columns: Sequence[str], wanted: str) -> str:
    """Return the columns that are there, and the one that may have been meant."""
    close = get_close_matches(normalise_name(wanted), [normalise_name(name) for name in columns], n=1, cutoff=0.75)
    meant = next((name for name in columns if close and normalise_name(name) == close[0]), None)
    listed = ", ".join(map(repr, columns[:12])) + (", ..." if len(columns) > 12 else "")
    return f"there are {listed}" + ("" if meant is None else f"; did you mean {meant!r}?")


def normalise_name(name: str) -> str:
    """Return a name without what is easily overlooked: case, blanks around it, and ``1.0`` for ``1``."""
    tidy = " ".join(name.split()).casefold()
    return str(int(float(tidy))) if _WHOLE.fullmatch(tidy) and len(tidy) < 16 else tidy


def merge_spellings(source: Source, tidy: bool) -> tuple[Source, list[str]]:
    """Merge names that differ only in case or blanks where ``tidy``; otherwise only remark on them."""
    frame, remarks = source.frame, []
    for column in NAME_COLUMNS:
        if frame[column].dtype != pl.String:
            continue
        counts = Counter(frame[column].to_list())
        groups: dict[str, list[str]] = {}
        for name in counts:
            if name is not None:
                groups.setdefault(normalise_name(name), []).append(name)
        alike = [sorted(group, key=lambda name: -counts[name]) for group in groups.values()]
        alike = [group for group in alike if len(group) > 1]
        if tidy:
            merged = {name: group[0] for group in alike for name in group[1:]}
            frame = frame.with_columns(pl.col(column).replace(merged))
            remarks += [
                f"column {column!r}: {_are_or_is(group[1:])} read as {group[0]!r}" for group in alike[:MAX_SPELLINGS]
            ]
        else:
            for common, *others in alike[:MAX_SPELLINGS]:
                row = int(frame[column].index_of(others[0]) or 0)
                remarks.append(
                    f"{source.where(row)}: column {column!r} has {others[0]!r}, elsewhere {common!r}: they "
                    "differ only in case or blanks, and count as two; --tidy reads them as one"
                )
    return source._replace(frame=frame), remarks


def _are_or_is(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names[:MAX_SPELLINGS])) + (" are" if len(names) > 1 else " is")


def drop_copies(source: Source, key: str, keys: pl.Series) -> tuple[Source, list[str]]:
    """Return the table with one row for each of ``keys``, the values of the column ``key``.

    Rows with the same key must agree in everything that is read; the first one stays.
    """
    read = [name for name in source.frame.columns if name in NEEDED or name.startswith("propensity")]
    rows = source.frame.select(read).rows()
    first: dict[Any, int] = {}
    copies = []
    for i, value in enumerate(keys.to_list()):
        if value is None or not str(value).strip():
            source.add_problem(i, f"column {key!r} is empty; give the key of the row, or leave out --distinct")
            continue
        before = first.setdefault(value, i)
        if before < i:
            copies.append(i)
            other = next((name for name, a, b in zip(read, rows[i], rows[before], strict=True) if a != b), None)
            if other is not None:
                source.add_problem(
                    i,
                    f"column {key!r} is {value!r:.60} as in {source.where(before)}, but column {other!r} "
                    "differs: these are not copies; correct the rows, or give another key",
                )
    if not copies:
        return source, []
    stay = sorted(set(range(len(rows))) - set(copies))
    where = source.where
    number = f"{len(copies):,} row{'s are copies' if len(copies) > 1 else ' is a copy'}"
    return source._replace(frame=source.frame[stay], where=lambda i: where(stay[i])), [
        f"{number} of another with the same {key!r}, and left out"
    ]


def order_rows(source: Source, column: str) -> tuple[Source, list[str]]:
    """Sort the rows by the time in a column; those of the same time stay as they are."""
    find_column(source, column, "to order by")
    times = _times(source, column)
    order = sorted(range(len(times)), key=times.__getitem__)
    where = source.where
    same = len(times) - len(set(times))
    remarks = [f"{same:,} rows have the time of another; these stay in the order of the file"] if same else []
    return source._replace(frame=source.frame[order], where=lambda i: where(order[i])), remarks


def _times(source: Source, column: str) -> list[Any]:
    """Return the values of a column as something that can be compared: numbers or times."""
    given = source.frame[column]
    comparable = given.dtype.is_temporal() or given.dtype.is_numeric()
    texts = as_type(given, pl.String, "times").str.strip_chars()
    empty = (given.is_null() | (texts == "").fill_null(False)).arg_true()
    if len(empty):
        raise OsrlError(f"{source.where(int(empty[0]))}: column {column!r} is empty; {_TIME_REMEDY}")
    if comparable:
        return given.to_list()
    numbers = texts.cast(pl.Float64, strict=False)
    if numbers.null_count() == 0 and numbers.is_finite().all():
        return numbers.to_list()
    times = []
    for i, text in enumerate(texts.to_list()):
        try:
            times.append(datetime.fromisoformat(text))
        except ValueError:
            raise OsrlError(f"{source.where(i)}: column {column!r} is {text!r:.60}; {_TIME_REMEDY}") from None
    zoned = [time.tzinfo is not None for time in times]
    if len(set(zoned)) > 1:
        i = zoned.index(not zoned[0])
        has = "has a" if zoned[i] else "has no"
        raise OsrlError(
            f"{source.where(i)}: column {column!r} {has} time zone, other than the rows before; write all "
            "times with their zone, or none"
        )
    return times


def read_numbers(source: Source, column: str, words: bool = False) -> Floats:
    """Read a column of numbers, NaN where it is empty; with ``words``, true and false are 1 and 0."""
    given = source.frame[column]
    if given.dtype != pl.String:
        numbers = as_type(given, pl.Float64, "numbers")
        empty = given.is_null() | numbers.is_nan().fill_null(False)
    else:
        texts = given.str.strip_chars().str.to_lowercase()
        empty = given.is_null() | texts.is_in(MISSING_NUMBERS)
        if words:
            texts = texts.replace(TRUTH_WORDS)
        if source.separator not in (None, ","):
            texts = texts.str.replace(r"^([+-]?\d+),(\d+)$", "$1.$2")
        numbers = texts.cast(pl.Float64, strict=False)
    wrong = ~empty & ~numbers.is_finite().fill_null(False)
    kinds = "a number, true, false, or nothing" if words else "a number, or nothing"
    for i in wrong.arg_true():
        source.add_problem(i, f"column {column!r} is {given[i]!r:.200}; give {kinds}")
    values: Floats = numbers.set(empty | wrong, None).fill_null(float("nan")).to_numpy().astype(float)
    return values


def read_rewards(source: Source) -> Floats:
    """Read the rewards, NaN where one is missing."""
    return read_numbers(source, "reward", words=True)


def read_propensities(
    source: Source,
    tasks: NDArray[np.int64],
    arms: NDArray[np.int64],
    shape: tuple[int, int, int],
    columns: list[str],
    uniform: bool,
) -> Floats | None:
    """Return the probabilities (rows, n) of all arms in each row, if they are known.

    A task or an arm is -1 where its row has no name for it.
    """
    there = [name for name in source.frame.columns if name.startswith("propensity[")]
    single = "propensity" in source.frame.columns
    if uniform and there:
        raise OsrlError(f"there is a column {there[0]!r}; leave out --uniform, or the columns of propensities")
    if uniform:
        return np.full((len(arms), len(columns)), 1 / len(columns))
    if there:
        return _read_all(source, arms, columns, there)
    return _read_drawn(source, tasks, arms, shape, columns) if single else None


def _read_all(source: Source, arms: NDArray[np.int64], columns: list[str], there: list[str]) -> Floats | None:
    """Read the propensities from a column for each arm."""
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
    reported = np.zeros(len(rows), np.bool_)
    for wrong, what in (
        (np.isnan(rows).any(axis=1), "some propensities are missing"),
        ((rows < 0).any(axis=1) | (rows > 1 + 1e-9).any(axis=1), "a propensity is not between 0 and 1"),
        (np.abs(rows.sum(axis=1) - 1) > _SUM_TOLERANCE, f"the propensities of the task's arms do not sum to 1{hint}"),
        (drawn <= 0, "the arm that was drawn has propensity 0"),
    ):
        for i in np.flatnonzero(wrong & ~reported).tolist():
            source.add_problem(i, f"{what}; {_PROPENSITY_REMEDY}")
        reported |= wrong
    with np.errstate(invalid="ignore"):
        shares: Floats = rows / rows.sum(axis=1, keepdims=True)
    return shares


def _read_drawn(
    source: Source,
    tasks: NDArray[np.int64],
    arms: NDArray[np.int64],
    shape: tuple[int, int, int],
    columns: list[str],
) -> Floats | None:
    """Read them from one column, of the arm that was drawn: enough where each task had one fixed split."""
    given = read_numbers(source, "propensity")
    if np.isnan(given).all():
        return None
    wrong = ~((given > 0) & (given <= 1 + 1e-9))
    for i in np.flatnonzero(wrong).tolist():
        what = "empty" if np.isnan(given[i]) else f"{given[i]:g}"
        source.add_problem(
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
        elif abs(split[x, a] - given[i]) > _SUM_TOLERANCE:
            source.add_problem(
                i,
                f"column 'propensity' is {given[i]:g}, and {split[x, a]:g} for the same arm in "
                f"{source.where(int(first[x, a]))}: where the split changes, it does not say how the other "
                f"arms were drawn; {_GIVE_ALL}",
            )
            return None  # so it will be in most rows
    for x in range(shape[0]):
        rest, unseen = 1 - np.nansum(split[x]), np.isnan(split[x])
        if abs(rest) > _SUM_TOLERANCE and (rest < 0 or unseen.sum() != 1):
            i = int(np.flatnonzero(tasks == x)[0])
            source.add_problem(
                i,
                f"column 'propensity': those of the arms of this task sum to {1 - rest:g}, not 1; {_GIVE_ALL}",
            )
        split[x, unseen] = max(rest, 0.0) if unseen.sum() == 1 else 0.0
    with np.errstate(invalid="ignore"):
        split /= split.sum(axis=1, keepdims=True)
    of_rows: Floats = split[tasks]
    return of_rows
