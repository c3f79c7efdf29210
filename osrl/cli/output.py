"""What commands write: one JSON document or a report on standard output, progress on standard error."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from osrl.text import shown

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

T = TypeVar("T")


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on one line; a value that JSON does not know is a mistake of ours."""
    print(json.dumps(document, allow_nan=False), flush=True)


def echo(line: str, *, err: bool = False) -> None:
    """One line for the reader; names in it cannot steer the terminal."""
    typer.echo(shown(line), err=err)


def print_report(report: RenderableType) -> None:
    """A report for the reader: in colour on a terminal, as plain text elsewhere."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names may have letters that the terminal lacks
    Console(highlight=False, markup=False, emoji=False).print(report)


class Progress:
    """How far something is: shown on a terminal, and remembered everywhere."""

    def __init__(self, show: Callable[[int, int | None], None] | None = None) -> None:
        self.done = 0
        self.total: int | None = 0
        self._show = show

    def update(self, done: int, total: int | None) -> None:
        """So much is done, of all that there is, where that is known."""
        self.done, self.total = done, total
        if self._show is not None:
            self._show(done, total)


@contextmanager
def progress_bar(unit: str) -> Iterator[Progress]:
    """A bar with the time left, on a terminal; it vanishes when all is done."""
    from rich import progress as rich
    from rich.console import Console

    console = Console(stderr=True)
    if not _animated(console):
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
    """The same items, with a bar that says how many there were."""
    for done, item in enumerate(items, 1):
        yield item
        if done % every == 0:
            bar.update(done, None)


@contextmanager
def working(message: str) -> Iterator[None]:
    """Show on a terminal that something is being computed; the line vanishes when it is done."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(message) if _animated(console) else nullcontext():
        yield


def _animated(console: Console) -> bool:
    """Whether a reader watches; Rich alone would also animate a log file where FORCE_COLOR is set."""
    return console.is_interactive and sys.stderr.isatty()
