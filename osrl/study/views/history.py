"""The history of a study, one row for each trial; and its evidence, one row for each hypothesis.

| column | content |
|---|---|
| `trial` | its number, from 1 |
| `task`, `representation`, `predictor` | what was tried |
| `given` | whether the task had arrived from outside |
| `reward` | null while it is pending, or when it was abandoned; the right one, when it was corrected |
| `status` | `told`, `pending`, `abandoned` or `abandoned, ignorable` |
| `propensity` | the probability of this arm among the arms of its task; 1 where nothing was left to chance |
| `propensities` | those of all arms of the task, representation by representation; null where not drawn |
| `key`, `note` | what it was asked for with: the note as a JSON text; null where there is none |
| `asked_at`, `ended_at` | when it was handed out, and when it was told or abandoned (UTC) |
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from osrl.hypotheses.summary import Hypothesis
from osrl.study.log.chain import Stored, read_event
from osrl.study.log.events import ArmsChanged, Created
from osrl.study.log.export import write_frame

_TIME = pl.Datetime("us", "UTC")


def history(pages: Iterable[Sequence[Stored]]) -> tuple[pl.DataFrame, Created]:
    """Return the trials of a log, in order of hand-out, and what the study was created with."""
    created: Created | None = None
    asks, ends = [], []
    stages = _Stages()
    for page in pages:
        if created is None:
            first = read_event(*page[0][:3], page[0][4]).body
            assert isinstance(first, Created)
            created = first
            stages.begin(first.tasks, first.representations, first.predictors)
        _, at, kind, trial, payload, _ = zip(*page, strict=True)
        stages.follow(page)
        frame = pl.DataFrame([at, kind, trial, payload], schema=_STORED)
        asks.append(_fields(frame, ["ask"], _ASKED).with_columns(_notes(frame)))
        ends.append(_fields(frame, ["tell", "abandon", "correct"], _ENDED))
    assert created is not None
    created = replace(created, tasks=stages.tasks, representations=stages.representations, predictors=stages.predictors)
    g, h = (pl.Enum(names) for names in (created.representations, created.predictors))
    asked = stages.align(pl.concat(asks)).with_columns(pl.col("representation").cast(g), pl.col("predictor").cast(h))
    ended = pl.concat(ends).select("trial", "kind", "reward", "ignorable", ended_at="at")
    if ended["kind"].eq("correct").any():
        ended = ended.unique("trial", keep="last", maintain_order=True)
    status = (
        pl.when(pl.col("kind").is_in(["tell", "correct"]))
        .then(pl.lit("told"))
        .when(pl.col("ignorable"))
        .then(pl.lit("abandoned, ignorable"))
        .when(pl.col("kind") == "abandon")
        .then(pl.lit("abandoned"))
        .otherwise(pl.lit("pending"))
    )
    own = pl.col("representation").to_physical() * len(created.predictors) + pl.col("predictor").to_physical()
    within = pl.col("propensities").list.eval(pl.element() / pl.element().sum())
    frame = asked.rename({"at": "asked_at"}).drop("kind").join(ended, on="trial", how="left", maintain_order="left")
    frame = frame.with_columns(status=status, propensities=within)
    drawn = pl.col("propensities").list.get(own.cast(pl.Int64))
    frame = frame.with_columns(propensity=pl.when(pl.col("propensities").is_null()).then(1.0).otherwise(drawn))
    schema = _schema(created.tasks, created.representations, created.predictors)
    return frame.select([pl.col(name).cast(kind) for name, kind in schema.items()]), created


class _Stages:
    """The arms of a study over time. Those that were withdrawn have probability 0 from then on."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.representations: list[str] = []
        self.predictors: list[str] = []
        self._asked = 0
        self._stages: list[tuple[int, Sequence[str], Sequence[str]]] = []  # trials before, and the arms

    def begin(self, tasks: Sequence[str], representations: Sequence[str], predictors: Sequence[str]) -> None:
        """Add the tasks and the arms that are there from the next trial on."""
        self.tasks += [name for name in tasks if name not in self.tasks]
        self.representations += [name for name in representations if name not in self.representations]
        self.predictors += [name for name in predictors if name not in self.predictors]
        self._stages.append((self._asked, representations, predictors))

    def follow(self, page: Sequence[Stored]) -> None:
        """Follow the rows of a log."""
        for seq, at, kind, _, payload, _ in page:
            if kind == "ask":
                self._asked += 1
            elif kind == "stage":
                body = read_event(seq, at, kind, payload).body
                assert isinstance(body, ArmsChanged)
                self.begin(body.tasks or (), body.representations, body.predictors)

    def align(self, asked: pl.DataFrame) -> pl.DataFrame:
        """Return the asks with the probabilities of the arms of all stages, in one order."""
        if len(self._stages) == 1:
            return asked
        lists = asked["propensities"].to_list()
        ends = [before for before, *_ in self._stages[1:]] + [len(lists)]
        size, H = len(self.representations) * len(self.predictors), len(self.predictors)
        for (first, representations, predictors), end in zip(self._stages, ends, strict=True):
            rows, columns = map(self.representations.index, representations), list(predictors)
            place = [g * H + self.predictors.index(h) for g in rows for h in columns]
            for i in range(first, end):
                if lists[i] is not None:
                    full = [0.0] * size
                    for j, value in zip(place, lists[i], strict=True):
                        full[j] = value
                    lists[i] = full
        return asked.with_columns(pl.Series("propensities", lists, pl.List(pl.Float64)))


_STORED = {"at": pl.Int64, "kind": pl.String, "trial": pl.Int64, "payload": pl.String}
_ASKED = pl.Struct(
    {
        "task": pl.String,
        "representation": pl.String,
        "predictor": pl.String,
        "propensities": pl.List(pl.Float64),
        "given": pl.Boolean,
        "key": pl.String,
    }
)
_ENDED = pl.Struct({"reward": pl.Float64, "ignorable": pl.Boolean})


def _notes(rows: pl.DataFrame) -> pl.Series:
    """Return the notes of the asks, each as a JSON text: their fields are not known in advance."""
    payloads = rows.filter(pl.col("kind") == "ask")["payload"]
    if not payloads.str.contains('"note":', literal=True).any():
        return pl.Series("note", [None] * len(payloads), pl.String)
    notes = (json.loads(payload).get("note") for payload in payloads)
    texts = [None if note is None else json.dumps(note, ensure_ascii=False) for note in notes]
    return pl.Series("note", texts, pl.String)


def _fields(rows: pl.DataFrame, kinds: Sequence[str], fields: pl.Struct) -> pl.DataFrame:
    """Return the fields of the events of these kinds, one column each."""
    wanted = rows.filter(pl.col("kind").is_in(kinds))
    return wanted.with_columns(pl.col("payload").str.json_decode(fields)).unnest("payload")


def write_trials(pages: Iterable[Sequence[Stored]], path: str | os.PathLike[str]) -> None:
    """Write the history as a table with a column `propensity[g,h]` for each arm, empty where not drawn.

    `osrl analyse` reads such tables. A file at ``path`` is replaced whole or not at all.
    """
    frame, created = history(pages)
    columns = arm_columns(created.representations, created.predictors)
    parts = [pl.col("propensities").list.get(i).alias(name) for i, name in enumerate(columns)]
    write_frame(frame.with_columns(parts).drop("propensities"), path)


def arm_columns(representations: Sequence[str], predictors: Sequence[str]) -> list[str]:
    """Return the names of the columns that hold the propensity of each arm of a trial's task."""
    return [f"propensity[{g},{h}]" for g in representations for h in predictors]


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
        "key": pl.String,
        "note": pl.String,
        "asked_at": _TIME,
        "ended_at": _TIME,
    }


def evidence_frame(hypotheses: Sequence[Hypothesis]) -> pl.DataFrame:
    """Return the hypotheses as a table, with the log evidence against each."""
    names = ("task", "representation", "predictor")
    numbers = {"log_evidence": pl.Float64, "limit": pl.Float64, "rejected": pl.Boolean}
    return pl.DataFrame(hypotheses, schema={**dict.fromkeys(names, pl.String), **numbers}, orient="row")


def arms_frame(arms: Sequence[Sequence[object]]) -> pl.DataFrame:
    """Return the rates of arms as a table, see `osrl.study.views.arms.ArmRate`."""
    names, counts = ("task", "representation", "predictor"), ("trials", "told")
    numbers = ("mean", "lower", "upper", "lift", "lift_lower", "lift_upper")
    kinds = dict.fromkeys(names, pl.String) | dict.fromkeys(counts, pl.Int64)
    return pl.DataFrame(arms, schema=kinds | dict.fromkeys(numbers, pl.Float64), orient="row")
