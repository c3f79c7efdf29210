"""The history of a study, one row for each trial; and its evidence, one row for each hypothesis.

| column | content |
|---|---|
| `trial` | its number, from 1 |
| `task`, `representation`, `predictor` | what was tried |
| `given` | whether the task had arrived from outside |
| `reward` | null while it is pending, or when it was abandoned |
| `status` | `told`, `pending`, `abandoned` or `abandoned, ignorable` |
| `propensity` | the probability of this arm among the arms of its task; 1 where nothing was left to chance |
| `propensities` | those of all arms of the task, representation by representation; null where not drawn |
| `asked_at`, `ended_at` | when it was handed out, and when it was told or abandoned (UTC) |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from osrl.study.events import Abandoned, Asked, Created, Event, Told
from osrl.study.standing import Hypothesis

_TIME = pl.Datetime("us", "UTC")


def history(events: Iterable[Event]) -> pl.DataFrame:
    """The trials of a log, in order of hand-out."""
    rows: list[dict[str, Any]] = []
    place: dict[tuple[str, str], int] = {}
    names: tuple[Any, Any, Any] = ((), (), ())
    for event in events:
        match event.body:
            case Created() as created:
                names = created.tasks, created.representations, created.predictors
                place = {
                    (g, h): i * len(created.predictors) + j
                    for i, g in enumerate(created.representations)
                    for j, h in enumerate(created.predictors)
                }
            case Asked() as asked:
                rows.append(_row(asked, event.at, place))
            case Told() as told:
                rows[told.trial - 1] |= {"reward": told.reward, "status": "told", "ended_at": event.at}
            case Abandoned() as lost:
                status = "abandoned, ignorable" if lost.ignorable else "abandoned"
                rows[lost.trial - 1] |= {"status": status, "ended_at": event.at}
    return pl.DataFrame(rows, schema=_schema(*names))


def _row(asked: Asked, at: int, place: dict[tuple[str, str], int]) -> dict[str, Any]:
    within = None
    if asked.propensities is not None:
        total = sum(asked.propensities)
        within = [p / total for p in asked.propensities]
    own = 1.0 if within is None else within[place[asked.representation, asked.predictor]]
    return {
        "trial": asked.trial,
        "task": asked.task,
        "representation": asked.representation,
        "predictor": asked.predictor,
        "given": asked.given,
        "reward": None,
        "status": "pending",
        "propensity": own,
        "propensities": within,
        "asked_at": at,
        "ended_at": None,
    }


def _schema(tasks: Any, representations: Any, predictors: Any) -> dict[str, Any]:
    return {
        "trial": pl.Int64,
        "task": pl.Enum(tasks),
        "representation": pl.Enum(representations),
        "predictor": pl.Enum(predictors),
        "given": pl.Boolean,
        "reward": pl.Float64,
        "status": pl.Enum(["told", "pending", "abandoned", "abandoned, ignorable"]),
        "propensity": pl.Float64,
        "propensities": pl.List(pl.Float64),
        "asked_at": _TIME,
        "ended_at": _TIME,
    }


def evidence(hypotheses: Sequence[Hypothesis]) -> pl.DataFrame:
    """The hypotheses, with the log evidence against each."""
    names = ("task", "representation", "predictor")
    numbers = {"log_evidence": pl.Float64, "limit": pl.Float64, "rejected": pl.Boolean}
    return pl.DataFrame(hypotheses, schema={**dict.fromkeys(names, pl.String), **numbers}, orient="row")
