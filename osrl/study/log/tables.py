"""Tables in files of unknown origin: .csv, .jsonl and .parquet, read with limits.

A file that is damaged, of another kind, or far larger than an experiment is refused with a sentence.
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
MAX_BYTES = 2**31
MAX_ROWS = 10**7
MAX_COLUMNS = 10**5
MAX_CELLS = 2 * 10**8
MAX_TEXT = 2**28  # bytes of text, once it is unpacked
MAX_INFLATION = 20  # times the size of a larger file; a log has 6
_SLICE = 2**16  # rows of text that are read at once


def suffix_of(path: Path) -> str:
    """Return the suffix of a file; refuse one that is not known."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise OsrlError(f"unknown suffix {suffix!r}; use one of {', '.join(SUFFIXES)}")
    return suffix


def read_frame(path: Path, what: str) -> pl.DataFrame:
    """Return the table in a file; ``what`` says what it should be. The columns of a .csv file are text."""
    suffix = suffix_of(path)
    with _refusals(what):
        content = read_file(path, MAX_BYTES)
    try:
        if suffix == ".csv":
            return pl.read_csv(io.BytesIO(content), infer_schema=False)
        if suffix == ".jsonl":
            return pl.read_ndjson(io.BytesIO(content), infer_schema_length=None)
        with _captured_stderr():
            return _read_parquet(content)
    except OsrlError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, RecursionError) as error:
        raise OsrlError(f"cannot be read ({short_message(error)}); give {what}") from None


def escape_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table for .csv, with an apostrophe before what a spreadsheet would take for a formula."""
    texts = pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    return frame.with_columns(texts.str.replace(r"^('*[=+\-@\t\r])", "'${1}"))


def unescape_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table of text that was `escape_formulas`."""
    return frame.with_columns(pl.all().str.replace(r"^'('*[=+\-@\t\r])", "${1}"))


def read_lines(path: Path, what: str) -> Iterator[str]:
    """Yield the lines of a text: a long log does not have to fit into memory."""
    with (
        _refusals(what),
        open_file(path, MAX_BYTES) as file,
        io.TextIOWrapper(file, encoding="utf-8", newline="\n") as lines,
    ):
        yield from lines


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Say in one sentence why a file cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise OsrlError(f"no such file; give {what}") from None
    except (OSError, ValueError) as error:
        raise OsrlError(f"cannot be read ({short_message(error)}); give {what}") from None


def short_message(error: BaseException) -> str:
    """Return the message of a library's error on one line, shortened."""
    return " ".join(str(error).split())[:120]


def _read_parquet(content: bytes) -> pl.DataFrame:
    """Read a table after counting its rows and its text: a few bytes may stand for very many of either."""
    lazy = pl.scan_parquet(io.BytesIO(content))
    schema = lazy.collect_schema()
    if nested := [name for name, kind in schema.items() if kind.is_nested() or kind == pl.Object]:
        raise OsrlError(
            f"column {nested[0]!r:.60} holds {str(schema[nested[0]]):.40}; give plain columns, without lists "
            "and structures"
        )
    rows, columns = int(lazy.select(pl.len()).collect().item()), len(schema)
    if rows > MAX_ROWS or columns > MAX_COLUMNS or rows * columns > MAX_CELLS:
        raise OsrlError(
            f"it has {rows:,} rows and {columns:,} columns; at most {MAX_ROWS:,} rows and {MAX_CELLS:,} "
            "cells are read, split it"
        )
    texts = [name for name, kind in schema.items() if not (kind.is_numeric() or kind.is_temporal())]
    most = max(MAX_TEXT, MAX_INFLATION * len(content))
    if sum(_text_sizes(lazy.select(texts), rows, most)) > most:
        raise OsrlError(f"its text has more than {most:,} bytes; leave out columns, or split it")
    return lazy.collect()


def _text_sizes(lazy: pl.LazyFrame, rows: int, most: int) -> Iterator[int]:
    """Yield the bytes of text in one slice of rows after the other, until there are too many.

    The size of a slice follows from the bytes per row so far, so that no slice is too large for memory.
    """
    first = total = 0
    while first < rows and lazy.collect_schema() and total <= most:
        count = max(1, min(_SLICE, 2 * first, (most - total) * first // max(1, total)))
        part = int(lazy.slice(first, count).collect().estimated_size())
        yield part
        first, total = first + count, total + part


@contextmanager
def _captured_stderr() -> Iterator[None]:
    """Keep the library's reports of its own panics off the terminal: they become an error of ours."""
    try:
        sys.stderr.flush()
        stderr_copy = os.dup(2)
    except (OSError, AttributeError):  # there is no standard error
        yield
        return
    with tempfile.TemporaryFile() as captured:
        os.dup2(captured.fileno(), 2)
        try:
            yield
        except BaseException:
            captured.truncate(0)
            raise
        finally:
            os.dup2(stderr_copy, 2)
            os.close(stderr_copy)
            captured.seek(0)
            with open(2, "wb", closefd=False) as stderr:
                stderr.write(captured.read())
