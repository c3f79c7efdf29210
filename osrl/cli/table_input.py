"""Input of many trials at once: rows of a file or of standard input, as CSV or JSON Lines."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from osrl.errors import OsrlError

MAX_FILE_BYTES = 50_000_000
_GUARDED = re.compile(r"^'('*[=+\-@])")  # as an export writes what a spreadsheet would take for a formula


def read_rows(file: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Read ``trial`` or ``key`` and the other ``columns`` of each row of a file; - is standard input.

    A file whose first letter is a brace is JSON Lines, any other is CSV with a heading.
    """
    wanted = ["trial", "key", *columns]
    what = f"CSV with the columns trial or key{''.join(f', {name}' for name in columns)}, or JSON Lines"
    try:
        text = _read(file)
    except (OSError, ValueError) as error:
        raise OsrlError(f"{file}: cannot be read ({error}); give {what}") from None
    lines = text.splitlines()
    if text.lstrip().startswith("{"):
        return [_object(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    reader = csv.DictReader(lines, restval="")
    heading = [name.strip() for name in reader.fieldnames or []]
    missing = [name for name in columns if name not in heading]
    if missing or not {"trial", "key"} & set(heading):
        raise OsrlError(f"{file}: the heading is {','.join(heading)!r:.80}; give {what}")
    reader.fieldnames = heading
    rows = []
    for row in reader:
        if None in row:
            raise OsrlError(f"{file}, line {reader.line_num}: more cells than the heading has; add the heading")
        cells = {name: cell.strip() for name, cell in row.items() if name in wanted}
        rows.append({name: read_cell(name, cell) for name, cell in cells.items() if cell})
    return rows


def read_cell(name: str, cell: str) -> Any:
    """Read a trial as its number or token, a reward as a number, and the rest as text."""
    if name == "trial":
        return int(cell) if cell.isascii() and cell.isdigit() else cell
    if name == "reward":
        return read_reward(cell)
    return _GUARDED.sub(r"\1", cell)


def read_reward(text: str) -> float | bool | str:
    """Read a number, true or false; its family will refuse a text that is neither."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text


def _read(file: str) -> str:
    if file == "-":
        content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    else:
        with Path(file).open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"more than {MAX_FILE_BYTES:,} bytes; split it")
    return content.decode("utf-8-sig")


def _object(file: str, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise OsrlError(f"{file}, line {number}: {line!r:.50} is no JSON object; give one on each line")
    return found
