"""Reports of `make validate`: files, the word for what was kept, and lines that show how far the work is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def write_report(file: str, text: str) -> None:
    """Write a report, with the folder that it is in."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def yes_or_no(kept: bool) -> str:
    """Return the cell of a table that says whether a promise was kept."""
    return "yes" if kept else "**no**"


def with_progress(cases: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    """Yield names and cases, and print to stderr which are done and how long each took."""
    for name, case in cases:
        began = time.monotonic()
        yield name, case
        print(f"{name}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
