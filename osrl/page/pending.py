"""Trials that have not reported, and the health of a study."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from osrl.page.format import age, date, iso, things
from osrl.page.snapshot import Moment
from osrl.report.numbers import count

LISTED = 20  # pending trials that are named


class Waiting(NamedTuple):
    """A trial that has not reported."""

    trial: int
    task: str
    arm: str
    key: str | None
    token: str
    asked_at: int
    since: str
    age: str
    overdue: bool


def list_waiting(moment: Moment) -> list[Waiting]:
    """The trials that have been out longest."""
    found = []
    one = len(moment.document["predictors"]) == 1
    for each in moment.document["pending"][:LISTED]:
        asked_at = _microseconds(each["asked_at"])
        until = None if each["until"] is None else _microseconds(each["until"])
        arm = each["representation"] if one else f"{each['representation']}, {each['predictor']}"
        found.append(
            Waiting(
                each["trial"],
                each["task"],
                arm,
                each["key"],
                each["token"],
                asked_at,
                iso(asked_at),
                age(asked_at, moment.at),
                until is not None and until < moment.at,
            )
        )
    return found


def count_ages(moment: Moment) -> list[tuple[str, int, float]]:
    """How many trials have been out for how long, and what share of all."""
    ages = moment.document["pending_ages"]
    names = {name: name if name == "longer" else f"less than one {name}" for name in ages}
    every = max(sum(ages.values()), 1)
    return [(names[name], number, number / every) for name, number in ages.items() if number]


def oldest(moment: Moment) -> str | None:
    """For how long the first of them has been out."""
    pending = moment.document["pending"]
    return age(min(_microseconds(each["asked_at"]) for each in pending), moment.at) if pending else None


def read_health(moment: Moment, told_at: list[int]) -> dict[str, Any]:
    """The pace, the versions, and what people have done."""
    rate = None
    if len(told_at) > 1 and told_at[-1] > told_at[0]:
        per_day = (len(told_at) - 1) / ((told_at[-1] - told_at[0]) / 86_400e6)
        hourly = per_day >= 48
        rate = f"{count(per_day / 24 if hourly else per_day)} results {'an hour' if hourly else 'a day'}"
        rate += f", by the last {things(len(told_at), 'result')}"
    deeds = [] if moment.past is None else moment.past.deeds
    return {
        "rate": rate,
        "versions": moment.versions,
        "deeds": [
            {
                "date": date(each.at),
                "iso": iso(each.at),
                "what": each.what,
                "reason": each.reason,
                "by": each.by,
            }
            for each in reversed(deeds)
        ],
    }


def _microseconds(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1e6)
