"""What templates are filled with: the parts of the page, in the order of reading."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from osrl.page import sentences as words
from osrl.page.format import (
    age,
    date,
    interval,
    iso,
    number,
    rough,
    share_of,
    whole_percent,
)
from osrl.page.pending import LISTED, count_ages, list_waiting, oldest, read_health
from osrl.page.snapshot import Moment
from osrl.page.svg import Scale, Tick, polyline, scale_of
from osrl.page.timeline import Key
from osrl.report.study import in_words

LINES = 8  # of a chart of evidence
ROWS = 24  # of the table behind it
OPEN_TASKS = 12  # tasks up to which every chart is shown; more are folded away


class Cell(NamedTuple):
    """A number of the status document: where it stands there, its value, and how it is written."""

    key: str
    value: Any
    text: str


class Rival(NamedTuple):
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
    rivals: list[Rival]


class Line(NamedTuple):
    """The path of a hypothesis."""

    name: str
    colour: int
    points: str
    percent: str
    rejected: bool


class Path(NamedTuple):
    """The paths of a group, with a table of some of their points."""

    title: str
    lines: list[Line]
    ticks: list[Tick]
    more: int  # lines that are not drawn
    header: list[str]
    rows: list[list[str]]


class Rate(NamedTuple):
    """What an arm has brought, and where its marks are."""

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


class TaskRates(NamedTuple):
    """The arms of a task."""

    task: str
    told: int
    rates: list[Rate]
    guide: float | None  # where the mean of the answer is


def page_view(name: str, moment: Moment) -> dict[str, Any]:
    """All that the page of a study shows."""
    document = moment.document
    told_at = [] if moment.past is None else moment.past.told_at
    usual = (told_at[-1] - told_at[0]) / 1e6 / (len(told_at) - 1) if len(told_at) > 1 else None
    quiet = (moment.at - told_at[-1]) / 1e6 if told_at else None
    sentence = words.say(document, quiet, usual)
    groups = _groups(moment)
    scale = _rate_scale(document)
    return {
        "name": name,
        "document": document,
        "sentence": sentence,
        "over": document["verdict"] in words.OVER,
        "answered": document["verdict"] in words.ANSWERED,
        "facts": _facts(document),
        "forecast_of": moment.forecast_of,
        "last": None if not told_at else {"iso": iso(told_at[-1]), "age": age(told_at[-1], moment.at)},
        "groups": groups,
        "paths": _paths(moment, groups),
        "reading": moment.past is None,
        "tasks": _rates(document, scale),
        "ticks": scale.ticks(),
        "folded": len(document["tasks"]) > OPEN_TASKS,
        "coverage": f"{100 * document['coverage']:g} %",
        "why": _why(document, groups),
        "waiting": list_waiting(moment),
        "ages": count_ages(moment),
        "oldest": oldest(moment),
        "listed": LISTED,
        "health": read_health(moment, told_at),
        "sequence": moment.sequence,
        "at": date(moment.at),
        "at_iso": iso(moment.at),
    }


def _facts(document: dict[str, Any]) -> dict[str, Any]:
    trials, forecast, budget = document["trials"], document["forecast"], document["budget"]
    cells = {name: Cell(f"trials.{name}", trials[name], f"{trials[name]:,}") for name in trials}
    facts: dict[str, Any] = {"trials": cells, "budget": None, "needed": None, "time": None}
    if budget is not None:
        facts["budget"] = Cell("budget", budget, f"{budget:,}")
    if forecast is None or document["verdict"] != "running":
        return facts
    many = forecast["at_least"] and forecast["median"] == forecast["q90"]
    ends = ("median", "q10", "q90")
    rest = {"many": many, "at_least": forecast["at_least"], "in_budget": None}
    facts["needed"] = rest | {name: Cell(f"forecast.{name}", forecast[name], rough(forecast[name])) for name in ends}
    if forecast["in_budget"] is not None:
        share = f"{100 * forecast['in_budget']:.0f} %"
        facts["needed"]["in_budget"] = Cell("forecast.in_budget", forecast["in_budget"], share)
    if forecast["days"] is not None:
        keys = ("days", "days_10", "days_90")
        facts["time"] = rest | {
            name: Cell(f"forecast.{key}", forecast[key], in_words(86_400 * forecast[key]))
            for name, key in zip(ends, keys, strict=True)
        }
    return facts


def _groups(moment: Moment) -> list[Group]:
    """Representations first, then the predictors of the one that leads, task by task."""
    document = moment.document
    ruled = {} if moment.past is None else moment.past.ruled_out
    best = document["best"]
    left = Counter(
        (each["task"], each["representation"] if each["predictor"] else None)
        for each in document["evidence"]
        if not each["rejected"]
    )
    groups: dict[str, list[Rival]] = {}
    for i, each in enumerate(document["evidence"]):
        task, g, h = each["task"], each["representation"], each["predictor"]
        if h is None:
            title, leads = "Which one is the best in every task?", g == best["representation"]
            title = "Which one is the best?" if len(document["tasks"]) == 1 else title
        else:
            title, leads = f"With {g}, which is the best in {task}?", h == best["predictors"].get(task)
            leads = leads and g == best["representation"]
        share = share_of(each["log_evidence"], each["limit"])
        leads = leads and document["trials"]["told"] > 0
        only = left[task, g if h else None] == 1 and not each["rejected"]
        state = "the only one left" if only else "possible; the best guess" if leads else "possible"
        if each["rejected"]:
            trial = ruled.get((task, g, h))
            state = "ruled out" if trial is None else f"ruled out at trial {trial:,}"
        rival = Rival(
            h or g,
            share,
            Cell(f"evidence.{i}", share, whole_percent(share, each["rejected"])),
            state,
            each["rejected"],
            leads,
            Cell(
                f"evidence.{i}.log_evidence",
                each["log_evidence"],
                "infinite" if each["log_evidence"] is None else f"{each['log_evidence']:.2f}",
            ),
            Cell(f"evidence.{i}.limit", each["limit"], f"{each['limit']:.2f}"),
            (task, g, h),
        )
        groups.setdefault(title, []).append(rival)
    found = [Group(title, rivals) for title, rivals in groups.items()]
    return sorted(found, key=lambda group: _order(group, best["representation"]))


def _order(group: Group, best: str | None) -> int:
    _, g, h = group.rivals[0].key
    return 0 if h is None else 1 if g == best else 2


def _paths(moment: Moment, groups: list[Group]) -> list[Path]:
    """How the evidence against each came to where it is; the last point is that of the status."""
    if moment.past is None or not moment.past.points:
        return []
    handed_out = max(moment.document["trials"]["handed_out"], 1)
    scale = Scale(0.0, float(handed_out))
    paths = []
    for group in groups:
        if _order(group, moment.document["best"]["representation"]) > 1:
            continue  # those of a representation that does not lead
        order = sorted(group.rivals, key=lambda rival: rival.rejected)  # those that are open first
        lines, columns = [], []
        for i, rival in enumerate(order):
            points = [(0, 0.0)]
            points += [(p.trials, p.shares[rival.key]) for p in moment.past.points if rival.key in p.shares]
            points = [*(each for each in points if each[0] < handed_out), (handed_out, rival.share)]
            if i < LINES:
                drawn = [(scale.at(x) or 0.0, 100 * y) for x, y in points]
                lines.append(Line(rival.name, i % 6, polyline(drawn), rival.percent.text, rival.rejected))
            columns.append(dict(points))
        seen = sorted({x for column in columns for x in column})
        some = sorted({seen[i * (len(seen) - 1) // (ROWS - 1)] for i in range(ROWS)}) if len(seen) > ROWS else seen
        rows = [
            [f"{x:,}", *("–" if x not in column else f"{100 * column[x]:.0f} %" for column in columns)] for x in some
        ]
        header = ["trials", *(rival.name for rival in order)]
        ticks = [tick for tick in scale.ticks(4) if tick.at <= 100]
        paths.append(Path(group.title, lines, ticks, max(len(order) - LINES, 0), header, rows))
    return paths


def _rate_scale(document: dict[str, Any]) -> Scale:
    """One scale for all tasks, so that they can be compared."""
    arms = document["arms"]
    ends = [arm[end] for arm in arms for end in ("lower", "upper", "mean")]
    return scale_of(ends)


def _rates(document: dict[str, Any], scale: Scale) -> list[TaskRates]:
    best, total = document["best"], max(document["trials"]["handed_out"], 1)
    one = len(document["predictors"]) == 1
    tasks: dict[str, list[Rate]] = {task: [] for task in document["tasks"]}
    guides: dict[str, float | None] = dict.fromkeys(document["tasks"])
    for i, arm in enumerate(document["arms"]):
        task, g, h = arm["task"], arm["representation"], arm["predictor"]
        leads = g == best["representations"].get(task) and h == best["predictors"].get(task)
        leads = leads and arm["told"] > 0
        cells = {
            key: Cell(f"arms.{i}.{key}", arm[key], number(arm[key], sign=key == "lift"))
            for key in ("mean", "lower", "upper", "lift")
        }
        counts = {key: Cell(f"arms.{i}.{key}", arm[key], f"{arm[key]:,}") for key in ("told", "trials")}
        left, right = scale.at(arm["lower"]), scale.at(arm["upper"])
        rate = Rate(
            g if one else f"{g}, {h}",
            leads,
            cells["mean"],
            cells["lower"],
            cells["upper"],
            interval(arm["lower"], arm["upper"]),
            counts["told"],
            counts["trials"],
            cells["lift"],
            interval(arm["lift_lower"], arm["lift_upper"], sign=True),
            scale.at(arm["mean"]),
            0.0 if left is None else left,
            100.0 if right is None else right,
            arm["trials"] / total,
        )
        tasks.setdefault(task, []).append(rate)
        if leads:
            guides[task] = rate.at
    return [
        TaskRates(task, sum(each.told.value for each in rates), rates, guides.get(task))
        for task, rates in tasks.items()
    ]


def _why(document: dict[str, Any], groups: list[Group]) -> str:
    """Why trials go where they go."""
    if document["verdict"] in words.OVER:
        return "The study is over: no more trials are needed."
    best = document["best"]["representation"]
    if document["policy"].startswith("uniform"):
        return "This study spreads its trials evenly over all choices."
    open_still = [
        (rival.share, group.title, rival)
        for group in groups
        for rival in group.rivals
        if not rival.rejected and not rival.leads and _order(group, best) < 2
    ]
    if not document["trials"]["told"] or not open_still:
        return "Trials go where they bring evidence soonest."
    _, _, rival = min(open_still, key=lambda each: each[0])
    task, g, h = rival.key
    what = f"{g}. It" if h is None else f"{task}, where {h}"
    return (
        f"Trials go where they bring the study to its end soonest. What holds it up most now is {what} is "
        f"still possible, with {rival.percent.text} of the evidence that would rule it out."
    )
