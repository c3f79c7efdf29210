"""The rows and charts of a page: hypotheses on their way to the limit, evidence over time, rates of arms.

Marks are placed in percent of the width and height of a chart, so that it fits any screen.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from osrl.page.snapshot import History, Key
from osrl.report.numbers import decimal, decimal_interval, finite, progress_percent
from osrl.study.views.evidence import share_of_limit
from osrl.study.views.status import Status

MAX_LINES = 8  # of a chart of evidence
MAX_TABLE_ROWS = 24  # of the table behind it


class Tick(NamedTuple):
    """A line of the grid, and its label."""

    at: float  # in percent
    label: str


class Scale(NamedTuple):
    """Numbers from ``low`` to ``high``, as percent of a length."""

    low: float
    high: float

    def at(self, value: float | None) -> float | None:
        """Return where a number is on the length, never outside of it; None where there is none."""
        if value is None:
            return None
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def ticks(self, most: int = 5) -> list[Tick]:
        """Return ticks at round numbers along the length.

        >>> [tick.label for tick in Scale(0.0, 1.0).ticks()]
        ['0', '0.2', '0.4', '0.6', '0.8', '1.0']
        >>> [tick.label for tick in Scale(0.0, 5300.0).ticks(3)]
        ['0', '2,000', '4,000']
        """
        step = _step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        places = [i * step for i in range(first, last + 1)]
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return [Tick(self.at(each) or 0.0, _label(each, decimals)) for each in places]


def _step(width: float) -> float:
    """Return the round number next to a width."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= width * (1 - 1e-9))


def _label(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return ("−" + text[1:] if text.startswith("-") else text).rstrip() if value else "0"


def scale_of(values: Iterable[float | None]) -> Scale:
    """Return a scale that has room for all these numbers."""
    known = [each for each in values if each is not None and math.isfinite(each)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    step = _step((high - low) / 5)
    return Scale(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """Return points in percent, as SVG has them; the second number points upwards."""
    return " ".join(f"{x:.2f},{100 - y:.2f}" for x, y in points)


class Cell(NamedTuple):
    """A number of the status document: its path in the JSON document, its value, and its text."""

    key: str
    value: Any
    text: str


class HypothesisRow(NamedTuple):
    """A hypothesis on its way to the limit."""

    name: str
    share: float  # from 0 to 1
    percent: Cell
    state: str
    rejected: bool
    leads: bool
    log_evidence: Cell
    limit: Cell
    key: Key


class Group(NamedTuple):
    """Hypotheses that exclude each other."""

    title: str
    rivals: list[HypothesisRow]

    def rank(self, best: str | None) -> int:
        """Return the place of a group: representations, predictors of the best one, those of others."""
        _, g, h = self.rivals[0].key
        return 0 if h is None else 1 if g == best else 2


class Polyline(NamedTuple):
    """The evidence against a hypothesis over time."""

    name: str
    colour: int
    points: str
    percent: str
    rejected: bool


class EvidenceChart(NamedTuple):
    """The evidence of a group over time, with a table of some of its points."""

    title: str
    lines: list[Polyline]
    ticks: list[Tick]
    more: int  # lines that are not drawn
    header: list[str]
    rows: list[list[str]]


class ArmRow(NamedTuple):
    """The results of an arm, and where its marks are."""

    name: str
    best: bool
    mean: Cell
    lower: Cell
    upper: Cell
    interval: str
    told: Cell
    trials: Cell
    lift: Cell
    lift_interval: str
    at: float | None
    left: float
    right: float
    share: float  # of all trials


class TaskArms(NamedTuple):
    """The arms of a task."""

    task: str
    told: int
    rates: list[ArmRow]
    guide: float | None  # where the mean of the answer is


def list_groups(status: Status, ruled_out: dict[Key, int]) -> list[Group]:
    """Return the groups of hypotheses: representations first, then the predictors of the one that leads."""
    best = status.best
    left = Counter(
        (each.task, each.representation if each.predictor else None) for each in status.hypotheses if not each.rejected
    )
    groups: dict[str, list[HypothesisRow]] = {}
    for i, each in enumerate(status.hypotheses):
        task, g, h = each[:3]
        if h is None:
            title, leads = "Which one is the best in every task?", g == best.representation
            title = "Which one is the best?" if len(status.settings.tasks) == 1 else title
        else:
            title, leads = f"With {g}, which is the best in {task}?", h == best.predictors.get(str(task))
            leads = leads and g == best.representation
        leads = leads and status.told > 0
        only = left[task, g if h else None] == 1 and not each.rejected
        state = "the only one left" if only else "possible; the best guess" if leads else "possible"
        if each.rejected:
            trial = ruled_out.get((task, g, h))
            state = "ruled out" if trial is None else f"ruled out at trial {trial:,}"
        share = share_of_limit(each)
        evidence = f"{each.log_evidence:.2f}" if math.isfinite(each.log_evidence) else "infinite"
        row = HypothesisRow(
            h or g,
            share,
            Cell(f"evidence.{i}", share, progress_percent(share, each.rejected)),
            state,
            each.rejected,
            leads,
            Cell(f"evidence.{i}.log_evidence", finite(each.log_evidence), evidence),
            Cell(f"evidence.{i}.limit", each.limit, f"{each.limit:.2f}"),
            (task, g, h),
        )
        groups.setdefault(title, []).append(row)
    found = [Group(title, rivals) for title, rivals in groups.items()]
    return sorted(found, key=lambda group: group.rank(best.representation))


def draw_evidence(status: Status, history: History | None, groups: list[Group]) -> list[EvidenceChart]:
    """Return the charts of evidence over time; the last point of each line is that of the status."""
    if history is None or not history.points:
        return []
    handed_out = max(status.handed_out, 1)
    scale = Scale(0.0, float(handed_out))
    charts = []
    for group in groups:
        if group.rank(status.best.representation) > 1:
            continue  # predictors of a representation that does not lead
        order = sorted(group.rivals, key=lambda rival: rival.rejected)  # those that are open first
        lines, columns = [], []
        for i, rival in enumerate(order):
            points = [(0, 0.0)]
            points += [(p.trials, p.shares[rival.key]) for p in history.points if rival.key in p.shares]
            points = [*(each for each in points if each[0] < handed_out), (handed_out, rival.share)]
            if i < MAX_LINES:
                drawn = [(scale.at(x) or 0.0, 100 * y) for x, y in points]
                lines.append(Polyline(rival.name, i % 6, polyline(drawn), rival.percent.text, rival.rejected))
            columns.append(dict(points))
        seen = sorted({x for column in columns for x in column})
        if len(seen) > MAX_TABLE_ROWS:
            seen = sorted({seen[i * (len(seen) - 1) // (MAX_TABLE_ROWS - 1)] for i in range(MAX_TABLE_ROWS)})
        rows = [
            [f"{x:,}", *("–" if x not in column else f"{100 * column[x]:.0f} %" for column in columns)] for x in seen
        ]
        header = ["trials", *(rival.name for rival in order)]
        ticks = [tick for tick in scale.ticks(4) if tick.at <= 100]
        charts.append(EvidenceChart(group.title, lines, ticks, max(len(order) - MAX_LINES, 0), header, rows))
    return charts


def rate_scale(status: Status) -> Scale:
    """Return one scale for the rates of all tasks, so that they can be compared."""
    return scale_of(end for arm in status.arms for end in (arm.lower, arm.upper, arm.mean))


def list_arms(status: Status, scale: Scale) -> list[TaskArms]:
    """Return the arms of every task, with their marks on a scale."""
    best, total = status.best, max(status.handed_out, 1)
    one = len(status.settings.predictors) == 1
    tasks: dict[str, list[ArmRow]] = {task: [] for task in status.settings.tasks}
    guides: dict[str, float | None] = dict.fromkeys(tasks)
    for i, arm in enumerate(status.arms):
        task, g, h = arm[:3]
        leads = g == best.representations.get(task) and h == best.predictors.get(task) and arm.told > 0
        cells = {
            key: Cell(f"arms.{i}.{key}", getattr(arm, key), decimal(getattr(arm, key), sign=key == "lift"))
            for key in ("mean", "lower", "upper", "lift")
        }
        left, right = scale.at(arm.lower), scale.at(arm.upper)
        row = ArmRow(
            g if one else f"{g}, {h}",
            leads,
            cells["mean"],
            cells["lower"],
            cells["upper"],
            decimal_interval(arm.lower, arm.upper),
            Cell(f"arms.{i}.told", arm.told, f"{arm.told:,}"),
            Cell(f"arms.{i}.trials", arm.trials, f"{arm.trials:,}"),
            cells["lift"],
            decimal_interval(arm.lift_lower, arm.lift_upper, sign=True),
            scale.at(arm.mean),
            0.0 if left is None else left,
            100.0 if right is None else right,
            arm.trials / total,
        )
        tasks.setdefault(task, []).append(row)
        if leads:
            guides[task] = row.at
    return [
        TaskArms(task, sum(each.told.value for each in rows), rows, guides.get(task)) for task, rows in tasks.items()
    ]
