"""What commands write: one JSON document or a report on standard output, progress on standard error."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on one line; a value that JSON does not know is a mistake of ours."""
    print(json.dumps(document, allow_nan=False), flush=True)


def print_report(report: RenderableType) -> None:
    """A report for the reader: in colour on a terminal, as plain text elsewhere."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names may have letters that the terminal lacks
    Console(highlight=False).print(report)


@contextmanager
def working(message: str) -> Iterator[None]:
    """Show on a terminal that something is being computed; the line vanishes when it is done."""
    from rich.console import Console

    console = Console(stderr=True)
    # Rich alone would also animate a log file wherever FORCE_COLOR is set.
    with console.status(message) if console.is_interactive and sys.stderr.isatty() else nullcontext():
        yield
