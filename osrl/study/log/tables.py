"""Tables from files that anybody may have made: .csv, .jsonl and .parquet, with limits.

What is read decides nothing yet: a file that is damaged, of another kind, or far larger than an experiment
is refused with a sentence.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from osrl.errors import OsrlError
from osrl.files import open_file, read_file

SUFFIXES = (".csv", ".jsonl", ".parquet")
MOST_BYTES = 2**31
MOST_ROWS = 10**7
MOST_COLUMNS = 10**5
MOST_CELLS = 2 * 10**8
MOST_TEXT = 2**28  # bytes of text, once it is unpacked
MOST_UNPACKED = 20  # times the size of a larger file; a log has 6
_SLICE = 2**16  # rows of text that are read at once


def suffix_of(path: Path) -> str:
    """How a file is written; an error for one that we do not know."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise OsrlError(f"unknown suffix {suffix!r}; use one of {', '.join(SUFFIXES)}")
    return suffix


def read_frame(path: Path, what: str) -> pl.DataFrame:
    """The table in a file; ``what`` says what it should be. The columns of a .csv file are text."""
    suffix = suffix_of(path)
    content = _read(path, what)
    try:
        if suffix == ".csv":
            return pl.read_csv(io.BytesIO(content), infer_schema=False)
        if suffix == ".jsonl":
            return pl.read_ndjson(io.BytesIO(content), infer_schema_length=None)
        with _panics_unseen():
            return _read_parquet(content)
    except OsrlError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, RecursionError) as error:
        raise OsrlError(f"cannot be read ({short(error)}); give {what}") from None


def guarded(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table for .csv, with an apostrophe before what a spreadsheet would take for a formula."""
    texts = pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    return frame.with_columns(texts.str.replace(r"^('*[=+\-@\t\r])", "'${1}"))


def unguarded(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table of text that was `guarded`."""
    return frame.with_columns(pl.all().str.replace(r"^'('*[=+\-@\t\r])", "${1}"))


def read_lines(path: Path, what: str) -> Iterator[str]:
    """The lines of a text, one after the other: a long log does not have to fit into memory."""
    with (
        _refusals(what),
        open_file(path, MOST_BYTES) as file,
        io.TextIOWrapper(file, encoding="utf-8", newline="\n") as lines,
    ):
        yield from lines


def _read(path: Path, what: str) -> bytes:
    with _refusals(what):
        return read_file(path, MOST_BYTES)


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Say in one sentence why a file cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise OsrlError(f"no such file; give {what}") from None
    except (OSError, ValueError) as error:
        raise OsrlError(f"cannot be read ({short(error)}); give {what}") from None


def short(error: BaseException) -> str:
    """What a library says, on one line, and not all of it."""
    return " ".join(str(error).split())[:120]


def _read_parquet(content: bytes) -> pl.DataFrame:
    """A few bytes may stand for very many rows, or for long text: both are counted before all is read."""
    lazy = pl.scan_parquet(io.BytesIO(content))
    schema = lazy.collect_schema()
    if nested := [name for name, kind in schema.items() if kind.is_nested() or kind == pl.Object]:
        raise OsrlError(
            f"column {nested[0]!r:.60} holds {str(schema[nested[0]]):.40}; give plain columns, without lists "
            "and structures"
        )
    rows, columns = int(lazy.select(pl.len()).collect().item()), len(schema)
    if rows > MOST_ROWS or columns > MOST_COLUMNS or rows * columns > MOST_CELLS:
        raise OsrlError(
            f"it has {rows:,} rows and {columns:,} columns; at most {MOST_ROWS:,} rows and {MOST_CELLS:,} "
            "cells are read, split it"
        )
    texts = [name for name, kind in schema.items() if not (kind.is_numeric() or kind.is_temporal())]
    most = max(MOST_TEXT, MOST_UNPACKED * len(content))
    if sum(_text_sizes(lazy.select(texts), rows, most)) > most:
        raise OsrlError(f"its text has more than {most:,} bytes; leave out columns, or split it")
    return lazy.collect()


def _text_sizes(lazy: pl.LazyFrame, rows: int, most: int) -> Iterator[int]:
    """Yield the bytes of text of some rows after the other, until there are too many.

    So many rows are read at once as should fit, by what was seen before.
    """
    first = total = 0
    while first < rows and lazy.collect_schema() and total <= most:
        count = max(1, min(_SLICE, 2 * first, (most - total) * first // max(1, total)))
        part = int(lazy.slice(first, count).collect().estimated_size())
        yield part
        first, total = first + count, total + part


@contextmanager
def _panics_unseen() -> Iterator[None]:
    """Keep from the terminal what the library writes about its own mistakes: they become an error of ours."""
    try:
        sys.stderr.flush()
        kept = os.dup(2)
    except (OSError, AttributeError):  # there is no standard error
        yield
        return
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            said.truncate(0)
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            said.seek(0)
            with open(2, "wb", closefd=False) as stderr:
                stderr.write(said.read())
