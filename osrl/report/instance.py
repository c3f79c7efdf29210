"""An instance in a few words."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from osrl.model.instance import Instance
from osrl.text import printable


def describe(instance: Instance) -> str:
    """The size of an instance, and what its rewards are.

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
    return f"{', '.join(many(n, word) for n, word in sizes)}; {rewards}"


def many(n: int, word: str) -> str:
    """A number of things, in running text.

    >>> many(1, "task"), many(1120, "run")
    ('1 task', '1,120 runs')
    """
    return f"{n} {word}" if n == 1 else f"{n:,} {word}s"


def means_tables(instance: Instance) -> list[Table]:
    """For each task the means: rows are representations, columns are predictors; * marks the best arm."""
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
