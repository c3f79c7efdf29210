"""Output of commands: one JSON document or a report on standard output, progress on standard error."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import typer

from osrl.text import printable_line

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")


class Report(Protocol):
    """A report that Rich can print, and that has a JSON document."""

    def document(self) -> Mapping[str, Any]:
        """Return the JSON document."""


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document on one line; a value that JSON lacks is a mistake of ours."""
    print(json.dumps(document, allow_nan=False), flush=True)


def echo(line: str, *, err: bool = False) -> None:
    """Print one line for the reader; names in it cannot steer the terminal."""
    typer.echo(printable_line(line), err=err)


def print_result(as_json: bool, document: Mapping[str, Any], *lines: str) -> None:
    """Print a JSON document, or lines for the reader."""
    if as_json:
        print_json(document)
    else:
        for line in lines:
            echo(line)


def print_report(report: Report, as_json: bool) -> None:
    """Print a report: as one JSON document, in colour on a terminal, as plain text elsewhere."""
    if as_json:
        print_json(report.document())
        return
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names may have letters that the terminal lacks
    Console(highlight=False, markup=False, emoji=False).print(report)


class Progress:
    """How much is done: shown on a terminal, and remembered everywhere."""

    def __init__(self, show: Callable[[int, int | None], None] | None = None) -> None:
        self.done = 0
        self.total: int | None = 0
        self._show = show

    def update(self, done: int, total: int | None) -> None:
        """Note how much is done, of how much in all, where that is known."""
        self.done, self.total = done, total
        if self._show is not None:
            self._show(done, total)


@contextmanager
def progress_bar(unit: str) -> Iterator[Progress]:
    """Show a bar with the time left, on a terminal; it vanishes when all is done."""
    from rich import progress as rich
    from rich.console import Console

    console = Console(stderr=True)
    if not _is_animated(console):
        yield Progress()
        return
    parts = (
        rich.BarColumn(bar_width=None),
        rich.MofNCompleteColumn(),
        rich.TextColumn(unit),
        rich.TimeRemainingColumn(elapsed_when_finished=True),
    )
    with rich.Progress(*parts, console=console, transient=True, expand=True) as bar:
        task = bar.add_task(unit, total=None)
        yield Progress(lambda done, total: bar.update(task, completed=done, total=total))


def counted(items: Iterable[T], bar: Progress, every: int = 500) -> Iterator[T]:
    """Yield the same items, with a bar that counts them."""
    for done, item in enumerate(items, 1):
        yield item
        if done % every == 0:
            bar.update(done, None)


@contextmanager
def working(message: str) -> Iterator[None]:
    """Show a message on a terminal as long as something is computed."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(message) if _is_animated(console) else nullcontext():
        yield


def _is_animated(console: Console) -> bool:
    """Tell whether a reader watches; Rich alone would also animate a log file where FORCE_COLOR is set."""
    return console.is_interactive and sys.stderr.isatty()
