"""An instance in a few words, and an allocation over its arms as heat maps, or as a list where there are many."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from rich.box import SIMPLE
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from osrl.model.arrays import Floats
from osrl.model.instance import BestArms, Instance
from osrl.report.numbers import count_noun
from osrl.text import printable

MAX_CELLS = 100  # arms up to which every one is shown
MAX_LISTED = 12  # arms that are listed where there are more
BAR = 20  # characters of the longest bar
MAX_NAME_WIDTH = 24
MIN_SHARE = 0.0005

# Light to dark, each with a colour of text that can be read on it.
SHADES = (
    Style(color="black", bgcolor="#deebf7"),
    Style(color="black", bgcolor="#9ecae1"),
    Style(color="black", bgcolor="#6baed6"),
    Style(color="white", bgcolor="#2171b5"),
    Style(color="white", bgcolor="#08306b"),
)


def describe(instance: Instance) -> str:
    """Say the size of an instance, and the family of its rewards.

    >>> describe(Instance.load("paper"))
    '2 tasks, 3 representations, 2 predictors; rewards 0 or 1'
    """
    family = instance.family
    rewards = {
        "bernoulli": "rewards 0 or 1",
        "gaussian": f"normal rewards with standard deviation {family.noise_sd}",
        "bounded": "rewards in [0, 1]",
    }[family.name]
    sizes = zip(instance.shape, ("task", "representation", "predictor"), strict=True)
    return f"{', '.join(count_noun(n, word) for n, word in sizes)}; {rewards}"


def means_tables(instance: Instance) -> list[Table]:
    """Return a table of means for each task: rows are representations, columns are predictors; * marks the best arm."""
    tables = []
    for x, task in enumerate(instance.tasks):
        table = Table(box=SIMPLE, title=Text(printable(task), "bold"), padding=(0, 1))
        table.add_column("")
        for predictor in instance.predictors:
            table.add_column(Text(printable(predictor)), justify="right")
        for g, representation in enumerate(instance.representations):
            best = instance.means[x].max()
            row = [f"{'*' if mean == best else ''}{mean:.4g}" for mean in instance.means[x, g]]
            table.add_row(Text(printable(representation)), *row)
        tables.append(table)
    return tables


class AllocationView(NamedTuple):
    """The shares of all arms, with the best arm of each task marked by a star."""

    instance: Instance
    weights: Floats  # (X, G, H)
    best: BestArms

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print heat maps where they fit, otherwise a list."""
        if self.weights.size <= MAX_CELLS:
            maps = [self._heat_map(x) for x in range(len(self.instance.tasks))]
            unlimited = options.update(max_width=10**6)
            if max(console.measure(one, options=unlimited).maximum for one in maps) <= options.max_width:
                yield Text("Share of the samples, in %; * marks the best arm of the task")
                yield Columns([Padding(one, (0, 0, 1, 0)) for one in maps], padding=(0, 4), equal=True)
                return
        yield self._list("#" if options.ascii_only else "█")

    def _heat_map(self, x: int) -> Table:
        """Return the table of a task: rows are representations, columns are predictors."""
        table = Table(box=None, padding=0, title=_name(self.instance.tasks[x], "bold"), title_style="")
        table.add_column("", min_width=1 + max(_name(g).cell_len for g in self.instance.representations))
        for predictor in self.instance.predictors:
            header = _name(predictor)
            table.add_column(header, justify="right", min_width=max(header.cell_len + 2, 7))
        for g, representation in enumerate(self.instance.representations):
            cells = [self._cell(x, g, h) for h in range(len(self.instance.predictors))]
            table.add_row(_name(representation), *cells)
        return table

    def _cell(self, x: int, g: int, h: int) -> Text:
        """Return a share whose background fills the cell."""
        share = float(self.weights[x, g, h])
        star = "*" if self._is_best(x, g, h) else ""
        if share < MIN_SHARE:
            return Text(f"{star}-")
        depth = share / float(self.weights.max())
        return Text(f"{star}{100 * share:.1f}", SHADES[min(int(depth * len(SHADES)), len(SHADES) - 1)])

    def _list(self, block: str) -> RenderableType:
        """Return a table of the arms with the largest shares, and what is left for all the others."""
        order = largest_shares(self.weights)[:MAX_LISTED]
        largest = float(self.weights.max())
        table = Table(
            box=SIMPLE,
            title=f"The {len(order)} largest shares of the samples; * marks the best arm of the task",
            title_style="",
            title_justify="left",
        )
        for header in ("task", "representation", "predictor"):
            table.add_column(header)
        table.add_column("share", justify="right")
        table.add_column("")
        for x, g, h in order:
            share = float(self.weights[x, g, h])
            table.add_row(
                _name(self.instance.tasks[x]),
                _name(self.instance.representations[g]),
                _name(self.instance.predictors[h]),
                f"{'*' if self._is_best(x, g, h) else ''}{100 * share:.1f} %",
                Text(block * round(BAR * share / largest), style="blue"),
            )
        if others := self.weights.size - len(order):
            left = 1 - sum(float(self.weights[arm]) for arm in order)
            table.add_section()
            table.add_row(f"{others:,} others", "", "", f"{100 * max(left, 0.0):.1f} %", "")
        return table

    def _is_best(self, x: int, g: int, h: int) -> bool:
        return (g, h) == (self.best.representation, self.best.predictors[x])


def largest_shares(weights: Floats) -> list[tuple[int, int, int]]:
    """Return arms (x, g, h) by decreasing share; shares that print alike keep the order of the instance."""
    order = np.argsort(-weights.round(4), axis=None, kind="stable")
    x, g, h = (indices.tolist() for indices in np.unravel_index(order, weights.shape))
    return list(zip(x, g, h, strict=True))


def _name(name: str, style: str = "") -> Text:
    """Return a name for a table, shortened where it would take too much room."""
    text = Text(printable(name), style)
    text.truncate(MAX_NAME_WIDTH, overflow="ellipsis")
    return text
