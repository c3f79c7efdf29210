"""The variables of the page's template: the parts of the page, in the order of reading."""

from __future__ import annotations

from typing import Any, NamedTuple

from osrl.page.charts import Cell, Group, draw_evidence, list_arms, list_groups, rate_scale
from osrl.page.sentences import headline
from osrl.page.snapshot import NO_HISTORY, History, PageSnapshot
from osrl.report.numbers import age, count, count_noun, date, iso, two_digits
from osrl.report.sentences import assumed_by_study, days, remarks
from osrl.study.views.arms import COVERAGE
from osrl.study.views.status import Status

MAX_PENDING_LISTED = 20  # pending trials that are named
MAX_OPEN_TASKS = 12  # tasks up to which every chart is shown; more are folded away


class PendingRow(NamedTuple):
    """A trial that has not reported."""

    trial: int
    task: str
    arm: str
    key: str | None
    token: str
    since: str
    age: str
    overdue: bool


def page_view(name: str, snapshot: PageSnapshot) -> dict[str, Any]:
    """Return everything that the page of a study shows."""
    status, at, history = snapshot.status, snapshot.at, snapshot.history or NO_HISTORY
    last = history.told_at[-1] if history.told_at else None
    groups = list_groups(status, history.ruled_out)
    scale = rate_scale(status)
    return {
        "name": name,
        "status": status,
        "settings": status.settings,
        "assumed": assumed_by_study(status),
        "remarks": remarks(status.settings),
        "sentence": headline(status, None if last is None else at - last, history.usual_wait),
        "facts": _facts(status),
        "forecast_of": snapshot.forecast_of,
        "last": None if last is None else {"iso": iso(last), "age": age(last, at)},
        "groups": groups,
        "paths": draw_evidence(status, snapshot.history, groups),
        "reading": snapshot.history is None,
        "tasks": list_arms(status, scale),
        "ticks": scale.ticks(),
        "folded": len(status.settings.tasks) > MAX_OPEN_TASKS,
        "coverage": f"{100 * COVERAGE:g} %",
        "why": _why(status, groups),
        "pending": _list_pending(status, at),
        "ages": _list_ages(status),
        "oldest": age(min(each.asked_at for each in status.pending), at) if status.pending else None,
        "listed": MAX_PENDING_LISTED,
        "health": {"rate": _pace(history), "versions": snapshot.versions, "actions": _list_actions(history)},
        "sequence": snapshot.sequence,
        "at": date(at),
        "at_iso": iso(at),
    }


def _facts(status: Status) -> dict[str, Any]:
    trials = {
        "handed_out": status.handed_out,
        "told": status.told,
        "pending": status.waiting,
        "abandoned": status.abandoned,
    }
    cells = {name: Cell(f"trials.{name}", value, f"{value:,}") for name, value in trials.items()}
    facts: dict[str, Any] = {"trials": cells, "budget": None, "needed": None, "time": None}
    forecast, budget = status.forecast, status.settings.budget
    if budget is not None:
        facts["budget"] = Cell("budget", budget, f"{budget:,}")
    if forecast is None or status.verdict != "running":
        return facts
    many = forecast.at_least and forecast.median == forecast.q90
    rest = {"many": many, "at_least": forecast.at_least, "in_budget": None}
    values = forecast._asdict()
    ends = {"median": "days", "q10": "days_10", "q90": "days_90"}
    facts["needed"] = rest | {name: Cell(f"forecast.{name}", values[name], two_digits(values[name])) for name in ends}
    if forecast.in_budget is not None:
        share = f"{100 * forecast.in_budget:.0f} %"
        facts["needed"]["in_budget"] = Cell("forecast.in_budget", forecast.in_budget, share)
    if forecast.days is not None:
        facts["time"] = rest | {
            name: Cell(f"forecast.{key}", values[key], days(values[key])) for name, key in ends.items()
        }
    return facts


def _why(status: Status, groups: list[Group]) -> str:
    """Say why trials go where they go."""
    if status.is_over:
        return "The study is over: no more trials are needed."
    if status.settings.policy.startswith("uniform"):
        return "This study spreads its trials evenly over all choices."
    open_still = [
        (rival.share, group.title, rival)
        for group in groups
        for rival in group.rivals
        if not rival.rejected and not rival.leads and group.rank(status.best.representation) < 2
    ]
    if not status.told or not open_still:
        return "Trials go where they bring evidence soonest."
    _, _, rival = min(open_still, key=lambda each: each[0])
    task, g, h = rival.key
    what = f"{g}. It" if h is None else f"{task}, where {h}"
    return (
        f"Trials go where they bring the study to its end soonest. What holds it up most now is {what} is "
        f"still possible, with {rival.percent.text} of the evidence that would rule it out."
    )


def _list_pending(status: Status, at: int) -> list[PendingRow]:
    """Return the trials that have been out longest."""
    one = len(status.settings.predictors) == 1
    return [
        PendingRow(
            each.id,
            each.task,
            each.representation if one else f"{each.representation}, {each.predictor}",
            each.key,
            each.token,
            iso(each.asked_at),
            age(each.asked_at, at),
            each.until is not None and each.until < at,
        )
        for each in status.pending[:MAX_PENDING_LISTED]
    ]


def _list_ages(status: Status) -> list[tuple[str, int]]:
    """Return how many trials have been out for how long."""
    ages = status.pending_ages._asdict()
    return [(name if name == "longer" else f"less than one {name}", number) for name, number in ages.items() if number]


def _pace(history: History) -> str | None:
    per_day = history.results_per_day
    if per_day is None:
        return None
    rate = f"{count(per_day / 24)} results an hour" if per_day >= 48 else f"{count(per_day)} results a day"
    return f"{rate}, by the last {count_noun(len(history.told_at), 'result')}"


def _list_actions(history: History) -> list[dict[str, Any]]:
    return [{"date": date(each.at), "iso": iso(each.at), **each._asdict()} for each in reversed(history.actions)]
