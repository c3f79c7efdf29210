"""Tables for people: `Grid` is made once, for the terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_STYLES = {"": "", "good": "green", "bad": "yellow", "quiet": "dim", "strong": "bold"}


def new_table(gap: int = 2) -> Table:
    """Return an empty table with ``gap`` characters between its columns."""
    return Table(box=SIMPLE, padding=(0, gap, 0, 0), pad_edge=False)


class Cell(NamedTuple):
    """Text with a tone: good, bad, quiet or strong."""

    text: str
    tone: str = ""


class Grid(NamedTuple):
    """A title, columns, and rows in groups that a line divides; nothing in them is read as markup."""

    title: str
    columns: Sequence[str]
    groups: Sequence[Sequence[Sequence[str | Cell]]]
    right: frozenset[int] = frozenset()  # columns of numbers, which stand on the right
    wrapped: frozenset[int] = frozenset()  # columns of sentences, which a narrow terminal may break
    notes: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the grid on the terminal."""
        table = Table(box=SIMPLE, padding=0, pad_edge=False)
        for i, name in enumerate(self.columns):
            side: JustifyMethod = "right" if i in self.right else "left"
            table.add_column(Text(name), justify=side, no_wrap=i not in self.wrapped)
        for group in self.cells():
            for row in group:
                table.add_row(*(Text(cell.text, _STYLES[cell.tone]) for cell in row))
            table.add_section()
        yield Text(self.title, "bold")
        yield table
        for note in self.notes:
            yield Padding(Text(note), (0, 0, 0, 1))
        yield ""

    def cells(self) -> list[list[list[Cell]]]:
        """Return the rows of each group, every entry as a cell."""
        return [[[_cell(entry) for entry in row] for row in group] for group in self.groups]


def _cell(cell: str | Cell) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)
