"""What the columns of a table mean: found by name, told by a mapping, put in order, and tidied."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

import polars as pl

from osrl.analysis.input import Source, as_type
from osrl.errors import OsrlError

NEEDED = ("task", "representation", "predictor", "reward")
OPTIONAL = ("propensity", "trial", "status")
NAMES = NEEDED[:3]
SHOWN = 3  # pairs of spellings that are named
_REMEDY = "give a time such as 2026-03-17T08:30:00Z, or a number, in every row"
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?")


def name_columns(source: Source, columns: Mapping[str, str]) -> tuple[Source, list[str]]:
    """The table with our names for its columns, and what there is to say about that."""
    frame, remarks = source.frame, []
    for role, name in columns.items():
        if role not in (*NEEDED, *OPTIONAL):
            raise OsrlError(f"there is no role {role!r}; map {', '.join((*NEEDED, *OPTIONAL))}")
        if name not in frame.columns:
            raise OsrlError(f"there is no column {name!r}; {_there(frame.columns, name)}")
    chosen, absent = dict(columns), []
    for role in (*NEEDED, *OPTIONAL):
        if role in chosen or role in frame.columns:
            continue
        alike = [name for name in frame.columns if plain(name) == role and name not in chosen.values()]
        if len(alike) == 1:
            chosen[role] = alike[0]
            remarks.append(f"column {alike[0]!r} is read as {role!r}")
        elif role in NEEDED:
            absent.append(role)
    if absent:
        raise OsrlError(
            f"there is no column {' and no column '.join(map(repr, absent))}; a table of trials has "
            f"{', '.join(NEEDED)}. Say which is which with --columns {absent[0]}=NAME,...; "
            f"{_there(frame.columns, absent[0])}"
        )
    twice = [name for name, number in Counter(chosen.values()).items() if number > 1]
    if twice:
        raise OsrlError(f"column {twice[0]!r} is mapped twice; give each column one role")
    replaced = [role for role in chosen if role in frame.columns and chosen[role] != role]
    renamed = frame.drop([role for role in replaced if role not in chosen.values()])
    return source._replace(frame=renamed.rename({name: role for role, name in chosen.items()})), remarks


def find_column(source: Source, column: str, what: str) -> pl.Series:
    """The column of this name, before columns have ours; ``what`` it is for."""
    if column not in source.frame.columns:
        raise OsrlError(f"there is no column {column!r} {what}; {_there(source.frame.columns, column)}")
    return source.frame[column]


def _there(columns: Sequence[str], wanted: str) -> str:
    """The columns that are there, and the one that may have been meant."""
    close = get_close_matches(plain(wanted), [plain(name) for name in columns], n=1, cutoff=0.75)
    meant = next((name for name in columns if close and plain(name) == close[0]), None)
    listed = ", ".join(map(repr, columns[:12])) + (", ..." if len(columns) > 12 else "")
    return f"there are {listed}" + ("" if meant is None else f"; did you mean {meant!r}?")


def plain(name: str) -> str:
    """A name without what is easily overlooked: case, blanks around it, and ``1.0`` for ``1``."""
    tidy = " ".join(name.split()).casefold()
    return str(int(float(tidy))) if _WHOLE.fullmatch(tidy) and len(tidy) < 16 else tidy


def spellings(source: Source, tidy: bool) -> tuple[Source, list[str]]:
    """Names that differ only in case or blanks: as one where ``tidy``, otherwise what to do about them."""
    frame, remarks = source.frame, []
    for column in NAMES:
        if frame[column].dtype != pl.String:
            continue
        counts = Counter(frame[column].to_list())
        groups: dict[str, list[str]] = {}
        for name in counts:
            if name is not None:
                groups.setdefault(plain(name), []).append(name)
        alike = [sorted(group, key=lambda name: -counts[name]) for group in groups.values()]
        alike = [group for group in alike if len(group) > 1]
        if tidy:
            merged = {name: group[0] for group in alike for name in group[1:]}
            frame = frame.with_columns(pl.col(column).replace(merged))
            remarks += [f"column {column!r}: {_several(group[1:])} read as {group[0]!r}" for group in alike[:SHOWN]]
        else:
            for common, *others in alike[:SHOWN]:
                row = int(frame[column].index_of(others[0]) or 0)
                remarks.append(
                    f"{source.where(row)}: column {column!r} has {others[0]!r}, elsewhere {common!r}: they "
                    "differ only in case or blanks, and count as two; --tidy reads them as one"
                )
    return source._replace(frame=frame), remarks


def _several(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names[:SHOWN])) + (" are" if len(names) > 1 else " is")


def without_copies(source: Source, key: str, keys: pl.Series) -> tuple[Source, list[str]]:
    """The table with one row for each of ``keys``, the values of the column ``key``.

    Rows with the same key must agree in everything that is read; the first one stays.
    """
    read = [name for name in source.frame.columns if name in NEEDED or name.startswith("propensity")]
    rows = source.frame.select(read).rows()
    first: dict[Any, int] = {}
    copies = []
    for i, value in enumerate(keys.to_list()):
        if value is None or not str(value).strip():
            source.complain(i, f"column {key!r} is empty; give the key of the row, or leave out --distinct")
            continue
        before = first.setdefault(value, i)
        if before < i:
            copies.append(i)
            other = next((name for name, a, b in zip(read, rows[i], rows[before], strict=True) if a != b), None)
            if other is not None:
                source.complain(
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


def in_order(source: Source, column: str) -> tuple[Source, list[str]]:
    """The rows by the time in a column; those of the same time stay as they are."""
    find_column(source, column, "to order by")
    times = _times(source, column)
    order = sorted(range(len(times)), key=times.__getitem__)
    where = source.where
    same = len(times) - len(set(times))
    remarks = [f"{same:,} rows have the time of another; these stay in the order of the file"] if same else []
    return source._replace(frame=source.frame[order], where=lambda i: where(order[i])), remarks


def _times(source: Source, column: str) -> list[Any]:
    """The values of a column as something that can be compared: numbers or times."""
    given = source.frame[column]
    comparable = given.dtype.is_temporal() or given.dtype.is_numeric()
    texts = as_type(given, pl.String, "times").str.strip_chars()
    empty = (given.is_null() | (texts == "").fill_null(False)).arg_true()
    if len(empty):
        raise OsrlError(f"{source.where(int(empty[0]))}: column {column!r} is empty; {_REMEDY}")
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
            raise OsrlError(f"{source.where(i)}: column {column!r} is {text!r:.60}; {_REMEDY}") from None
    zoned = [time.tzinfo is not None for time in times]
    if len(set(zoned)) > 1:
        i = zoned.index(not zoned[0])
        has = "has a" if zoned[i] else "has no"
        raise OsrlError(
            f"{source.where(i)}: column {column!r} {has} time zone, other than the rows before; write all "
            "times with their zone, or none"
        )
    return times
