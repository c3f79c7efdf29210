"""Files as warehouses export them: text with any separator, JSON Lines, Parquet, perhaps packed by gzip.

Values stay as they were written. A file that cannot be read is refused with the line and the remedy. A `Source`
has the line of each of its rows. Problems of rows are collected, and reported together.
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from osrl.errors import OsrlError
from osrl.files import read_file
from osrl.study.log import tables as frames
from osrl.study.log.tables import read_frame, short_message, unescape_formulas

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
SEPARATORS = ",\t;|"
ACCEPTED = "a table of trials as .csv, .tsv, .jsonl or .parquet, packed by gzip or not"
MAX_LISTED_PROBLEMS = 20  # problems of a table
_GZIP = b"\x1f\x8b"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, RecursionError)


class Problems:
    """The problems of a table, to be reported together."""

    def __init__(self) -> None:
        self._listed: list[str] = []
        self._count = 0

    def add(self, describe: Callable[[], str]) -> None:
        """Add a problem; it is described only if it will be listed."""
        self._count += 1
        if len(self._listed) < MAX_LISTED_PROBLEMS:
            self._listed.append(describe())

    def refuse(self) -> None:
        """Refuse the table if something is wrong with it."""
        if self._count == 1:
            raise OsrlError(self._listed[0])
        if self._count > 1:
            rest = self._count - len(self._listed)
            more = [f"and {rest:,} more"] if rest else []
            raise OsrlError(f"{self._count:,} problems", *self._listed, *more)


class Source(NamedTuple):
    """A table, and the place of each of its rows: ``where(16)`` is such as ``line 18``."""

    frame: pl.DataFrame
    where: Callable[[int], str]
    problems: Problems
    separator: str | None = None  # of a text

    def add_problem(self, row: int, what: str) -> None:
        """Add a problem of a row."""
        self.problems.add(lambda: f"{self.where(row)}: {what}")


def from_frame(frame: pl.DataFrame) -> Source:
    """Return the source of a table that is in memory already."""
    return Source(frame, lambda i: f"row {i + 1}", Problems())


def as_type(given: pl.Series, kind: type[pl.DataType], what: str) -> pl.Series:
    """Return a column as text or numbers, whatever it is; null where that makes no sense."""
    try:
        found = given.cast(kind, strict=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        found = None
    if found is None or found.dtype != kind:
        raise OsrlError(f"column {given.name!r} has values of type {given.dtype}; give {what}")
    return found


def read_source(path: Path) -> Source:
    """Read the table in a file."""
    packed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if packed else path).suffix.lower()
    if suffix == ".parquet" and not packed:
        return from_frame(read_frame(path, ACCEPTED))
    if suffix not in (*TEXT_SUFFIXES, *JSON_LINES_SUFFIXES):
        excel = "; save the sheet as CSV" if suffix in (".xlsx", ".xls", ".ods") else ""
        raise OsrlError(f"unknown suffix {path.suffix!r}; give {ACCEPTED}{excel}")
    content = _decode(_unpack(path))
    return _read_lines(content) if suffix in JSON_LINES_SUFFIXES else _read_text(content)


def _unpack(path: Path) -> bytes:
    try:
        content = read_file(path, frames.MAX_BYTES)
        if content.startswith(_GZIP):
            with gzip.open(io.BytesIO(content)) as file:
                content = file.read(frames.MAX_TEXT + 1)
            if len(content) > frames.MAX_TEXT:
                raise OsrlError(f"unpacked it has more than {frames.MAX_TEXT:,} bytes; unpack it first")
        return content
    except FileNotFoundError:
        raise OsrlError(f"no such file; give {ACCEPTED}") from None
    except (EOFError, zlib.error) as error:
        raise OsrlError(f"the packed file is cut or damaged ({short_message(error)}); export it again") from None
    except OSError as error:
        raise OsrlError(f"cannot be read ({short_message(error)}); give {ACCEPTED}") from None


def _decode(content: bytes) -> str:
    """Decode a file: UTF-8, or UTF-16 where its first bytes say so."""
    try:
        text = content.decode("utf-16" if content.startswith(_UTF_16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise OsrlError(f"line {line}: its bytes are not UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise OsrlError(f"line {line}: there is a NUL character; export the table as text again")
    return text


# Text with a separator ------------------------------------------------------------------------------


def _read_text(text: str) -> Source:
    if not text.strip():
        raise OsrlError(f"it is empty; give {ACCEPTED}")
    text = text.lstrip("\r\n")
    separator = _find_separator(text)
    header = next(_records(text, separator))[1]
    if twice := [name for i, name in enumerate(header) if name in header[:i]]:
        raise OsrlError(f"line 1: column {twice[0]!r} is there twice; leave one of them out")
    try:
        read = pl.read_csv(io.BytesIO(text.encode()), separator=separator, infer_schema=False)
        frame = unescape_formulas(read)
    except _ERRORS as error:
        _refuse_ragged(text, separator, len(header))
        raise OsrlError(f"cannot be read ({short_message(error)}); give {ACCEPTED}") from None
    filled = pl.all().is_not_null() & (pl.all().str.strip_chars() != "")
    there = frame.select(pl.any_horizontal(filled).alias("there"))["there"]
    if frame.width > 1 and frame.to_series(-1).null_count():
        _refuse_ragged(text, separator, len(header))
    rows = there.arg_true()

    @functools.cache  # only needed for the line of a problem
    def lines() -> list[int]:
        return [line for line, _ in _records(text, separator)]

    return Source(frame.filter(there), lambda i: f"line {lines()[int(rows[i]) + 1]}", Problems(), separator)


def _find_separator(text: str) -> str:
    """Return the separator that stands most often in the first line, outside of quotation marks."""
    first = text.split("\n", 1)[0]
    bare = "".join(first.split('"')[::2])
    return max(SEPARATORS, key=bare.count)


def _records(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield every record of a text, with the line in which it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise OsrlError(f"line {line}: cannot be read ({short_message(error)}); correct the line") from None


def _refuse_ragged(text: str, separator: str, columns: int) -> None:
    """Refuse a record with more or fewer fields than the header has."""
    for line, fields in _records(text, separator):
        if len(fields) != columns and any(field.strip() for field in fields):
            raise OsrlError(
                f"line {line}: {len(fields)} fields, and {columns} columns in the header; put values that "
                f"hold {separator!r} into quotation marks, close them, or correct the line"
            )


# JSON Lines -----------------------------------------------------------------------------------------


def _read_lines(text: str) -> Source:
    numbers = [i for i, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not numbers:
        raise OsrlError(f"it is empty; give {ACCEPTED}")
    try:
        frame = pl.read_ndjson(io.BytesIO(text.encode()), infer_schema_length=None)
    except _ERRORS as error:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip() and not _is_object(line):
                raise OsrlError(f"line {number}: not a JSON object; correct or remove the line") from None
        raise OsrlError(f"cannot be read ({short_message(error)}); give {ACCEPTED}") from None
    return Source(frame, lambda i: f"line {numbers[i]}", Problems())


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line, parse_constant=lambda name: json.loads("")), dict)
    except (ValueError, RecursionError):
        return False
