"""The runs of a campaign: a frame with one row for each run, and a summary of each criterion."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl

from osrl.errors import OsrlError
from osrl.model.arrays import Floats
from osrl.model.instance import Instance
from osrl.model.outcome import EXHAUSTED, NO_SHARED, VERDICTS, WITHIN
from osrl.policies.contract import Criterion
from osrl.policies.registry import find
from osrl.simulation.campaign import Campaign
from osrl.simulation.chunk import Job
from osrl.simulation.store import ChunkFile, ResultsStore, open_store
from osrl.simulation.trace import Trace, trace_jobs

Z975 = 2.2414  # standard errors on either side of a mean in a 97.5 % interval
QUANTILES = (0.1, 0.9)
_CRITERION = ("policy", "threshold", "delta_g", "delta_h")
_COUNTED = ("verdict", "tau", "tau_g", "correct_g", "correct_h", "shortfall", "rounds")
_ROUNDING = 1e-12  # a difference of means that is meant to be epsilon is not more than it
_SCHEMA: dict[str, type[pl.DataType]] = {
    "policy": pl.String,
    "threshold": pl.String,
    "delta": pl.Float64,
    "delta_g": pl.Float64,
    "delta_h": pl.Float64,
    "epsilon_g": pl.Float64,
    "epsilon_h": pl.Float64,
    "proved": pl.Boolean,
    "seed": pl.Int64,
    "mean": pl.Float64,
    "median": pl.Float64,
    "ci975": pl.Float64,
    "std": pl.Float64,
    "min": pl.Int64,
    "max": pl.Int64,
    "tau_g_mean": pl.Float64,
    "tau_h_mean": pl.Float64,
    "error_g": pl.Float64,
    "error_h": pl.Float64,
    "error_eps": pl.Float64,
    "within_tolerance": pl.Int64,
    "no_shared": pl.Int64,
    "budget_exhausted": pl.Int64,
    "runs": pl.Int64,
    "rounds": pl.Int64,
    "seconds": pl.Float64,
}


class Runs:
    """Finished runs, which stay on disk and are read on demand."""

    def __init__(self, campaign: Campaign, store: ResultsStore) -> None:
        self.instance: Instance = campaign.jobs[0].instance
        self._campaign = campaign
        self._store = store  # keeps a temporary folder alive
        self._traces: dict[str, Trace] = {}

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row for each run of each criterion, as `osrl.simulation.chunk` describes them."""
        rows = pl.concat([self._read(part) for job in self._campaign.jobs for part in self._parts(job)])
        each = rows.sort("run", maintain_order=True).partition_by(_CRITERION, maintain_order=True)
        return pl.concat(each)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Runs:
        """Open the runs that ``simulate(..., out=folder)`` has kept, as far as every criterion has them."""
        store = open_store(folder)
        return cls(store.campaign, store)

    @property
    def answers(self) -> pl.DataFrame:
        """What was answered: one row for each run and task, with names; null where nothing was."""
        lists = ["representations", "predictors", "shortfall"]
        lists += ["correct_h"] if self.instance.in_model_class else []
        rows = self.frame.select(*_CRITERION, "run", "verdict", "correct_h", *lists[:3]).explode(lists)
        task = pl.Series("task", list(self.instance.tasks) * len(self.frame), dtype=pl.String)
        return rows.with_columns(task).select(
            *_CRITERION,
            "run",
            "verdict",
            "task",
            pl.col.representations.alias("representation"),
            pl.col.predictors.alias("predictor"),
            pl.col.correct_h if self.instance.in_model_class else pl.lit(None, pl.Boolean).alias("correct_h"),
            "shortfall",
        )

    @property
    def pulls(self) -> pl.DataFrame:
        """Samples of each arm: one row for each run, task, representation and predictor."""
        rows = self.frame.select(*_CRITERION, "run", "pulls")
        arms = list(product(self.instance.tasks, self.instance.representations, self.instance.predictors))
        names = [
            pl.Series(name, [arm[i] for arm in arms] * len(rows), dtype=pl.String)
            for i, name in enumerate(("task", "representation", "predictor"))
        ]
        return (
            rows.explode("pulls")
            .with_columns(*names)
            .select(*_CRITERION, "run", "task", "representation", "predictor", "pulls")
        )

    def plot(self) -> Any:
        """Draw when the runs stopped, and their mean against ln(1 / delta) with K, as an Altair chart."""
        from osrl.report.notebook import chart

        return chart(self)

    def _repr_html_(self) -> str:
        from osrl.report.notebook import html

        return html(self)

    def trace(self, name: str, every: int | None = None, runs: int | Sequence[int] | None = None) -> Trace:
        """Return the course of the runs: ``pulls``, ``means``, ``weights`` or ``evidence``.

        At every ``every`` rounds (default: about a hundred moments of the longest run) and at the end, for
        the first ``runs`` runs, those with these numbers, or all. The frame has the columns policy,
        threshold, delta_g, delta_h, run, round, task, representation, predictor and value; the evidence
        against a representation has no task and no predictor. Asked for again without arguments, it is the
        same trace.
        """
        if every is None and runs is None and name in self._traces:
            return self._traces[name]
        if every is None:
            every = max(int(self.frame["rounds"].max() or 1) // 100, 1)  # type: ignore[arg-type]
        if runs is None:
            runs = self._campaign.runs
        numbers = range(min(runs, self._campaign.runs)) if isinstance(runs, int) else runs
        self._traces[name] = trace_jobs(self._campaign.jobs, name, every, numbers)
        return self._traces[name]

    def summary(self, *, confidence: float = 0.975, quantiles: Sequence[float] = QUANTILES) -> pl.DataFrame:
        """Return one row for each criterion: policy, threshold and risks (``delta`` where both are the same).

        - ``proved``: whether the stopping rule is proved to keep its risks with this threshold;
        - ``mean``, ``median``, ``std``, ``min`` and ``max`` of tau, where runs that exhausted their budget
          count with the budget; ``q10``, ``q90``, or the ``quantiles`` that are asked for; ``ci975`` =
          2.2414 std / sqrt(runs), the half-width of a 97.5 % interval, or ``ci95`` with another
          ``confidence``;
        - ``tau_g_mean``, ``tau_h_mean``: samples until the representation was decided, and after it;
        - ``error_g``: the share of runs that answered with a wrong representation (where tasks are decided
          one by one, in some task), or that no representation is shared; ``error_h``: the largest share, over
          tasks, of runs with the right representation and a wrong predictor. Runs that exhausted their budget
          have not answered. Null outside the class M; ``no_shared``: the number of runs that answered that no
          representation is shared, which is right where that is so;
        - ``error_eps``: the largest share, over tasks, of runs whose answer is worse than the best arm by
          more than the tolerance (the larger one); null without one. ``within_tolerance``: the number of
          runs that ended by it;
        - ``budget_exhausted``: the number of those runs, among all ``runs``;
        - ``rounds`` that were simulated, and ``seconds`` of processor time that they took: the same
          ones for criteria that were read off the same runs.
        """
        interval = _name_of("ci", confidence)
        names = {q: _name_of("q", q) for q in quantiles}
        schema: dict[str, type[pl.DataType]] = {}
        for name, kind in _SCHEMA.items():
            schema[interval if name == "ci975" else name] = kind
            if name == "max":
                schema |= dict.fromkeys(names.values(), pl.Float64)
        z = Z975 if confidence == 0.975 else NormalDist().inv_cdf(0.5 + confidence / 2)
        rows = []
        for job in self._campaign.jobs:
            for row, tau in self._summaries(job):
                half = None if row["std"] is None else z * row["std"] / math.sqrt(row["runs"])
                spread = {name: _quantile(tau, q) for q, name in names.items()}
                rows.append({**row, interval: half, "median": _quantile(tau, 0.5), **spread})
        return pl.DataFrame(rows, schema=schema)

    def _parts(self, job: Job) -> list[ChunkFile]:
        """Return the files with runs of a job of this campaign: the folder may hold more."""
        return [part for part in self._store.parts(job.number) if part.header.first < self._campaign.runs]

    def _read(self, part: ChunkFile, columns: list[str] | None = None) -> pl.DataFrame:
        frame = pl.read_parquet(part.path, columns=columns, glob=False)
        return frame.filter(pl.col.run < self._campaign.runs)

    def _summaries(self, job: Job) -> Iterator[tuple[dict[str, Any], Floats]]:
        """Yield the summary of each criterion of a job, and its taus in order; one file after the other."""
        policy = find(job.policy)
        tallies = {criterion: _Totals(len(self.instance.tasks), max(job.epsilon)) for criterion in job.criteria}
        seconds = 0.0
        for part in self._parts(job):
            rows = self._read(part, [*_CRITERION, "run", *_COUNTED])
            for (_, *key), some in rows.partition_by(_CRITERION, as_dict=True).items():
                tallies[Criterion(*key)].add(some)
            seconds += part.header.seconds * len(rows) / (part.header.runs * len(job.criteria))
        for criterion, tally in tallies.items():
            row = {
                "policy": job.policy,
                **criterion._asdict(),
                "proved": policy.proves(criterion.threshold),
                "delta": criterion.delta_g if criterion.delta_g == criterion.delta_h else None,
                "epsilon_g": job.epsilon[0],
                "epsilon_h": job.epsilon[1],
                "seed": job.seed,
                **tally.summary(self.instance.in_model_class),
                "seconds": seconds,
            }
            yield row, np.sort(np.concatenate(tally.taus))


def _name_of(word: str, share: float) -> str:
    """Return the name of a column: ci975, q10."""
    if not 0 < share < 1:
        raise OsrlError(f"a share is {share}; give a number between 0 and 1, such as 0.95")
    digits = f"{share:.6f}"[2:].rstrip("0")
    return word + (digits if len(digits) > 1 else f"{digits}0")


def _quantile(tau: Floats, share: float) -> float:
    """Return the smallest tau that this share of the runs does not exceed; ``tau`` is in order."""
    return float(tau[max(math.ceil(share * len(tau)) - 1, 0)])


class _Totals:
    """Sums over the runs of a criterion: whole numbers, which add up the same in any order."""

    def __init__(self, tasks: int, epsilon: float) -> None:
        self.epsilon = epsilon
        self.runs = self.tau = self.squares = self.tau_g = self.rounds = 0
        self.exhausted = self.wrong_g = self.none = 0
        self.within = 0
        self.taus: list[Any] = []
        self.wrong_h, self.too_bad = np.zeros((2, tasks), np.int64)
        self.least, self.most = sys.maxsize, 0

    def add(self, rows: pl.DataFrame) -> None:
        """Count some more runs."""
        taus: list[int] = rows["tau"].to_list()
        self.runs += len(taus)
        self.taus.append(rows["tau"].to_numpy())
        self.tau += sum(taus)
        self.squares += sum(tau * tau for tau in taus)
        self.tau_g += sum(rows["tau_g"])
        self.rounds += sum(rows["rounds"])
        self.least, self.most = min(self.least, min(taus)), max(self.most, max(taus))
        answered = rows.filter(pl.col.verdict != VERDICTS[EXHAUSTED])
        self.exhausted += len(rows) - len(answered)
        self.within += int((rows["verdict"] == VERDICTS[WITHIN]).sum())
        named = answered.filter(pl.col.verdict != VERDICTS[NO_SHARED])
        self.none += len(answered) - len(named)
        given = named["shortfall"]
        if self.epsilon > 0 and len(given):
            short = given.explode().to_numpy().reshape(len(given), -1)
            self.too_bad += (short > self.epsilon + _ROUNDING).sum(axis=0)
        right = named.filter("correct_g")
        self.wrong_g += len(answered) - len(right)
        if len(right):
            self.wrong_h += (~right["correct_h"].explode().to_numpy().reshape(len(right), -1)).sum(axis=0)

    def summary(self, known: bool) -> dict[str, Any]:
        """Return means, spread and errors; ``known``: whether there is a right answer."""
        runs = self.runs
        std = None
        if runs > 1:
            std = math.sqrt((runs * self.squares - self.tau**2) / (runs * (runs - 1)))
        return {
            "mean": self.tau / runs,
            "std": std,
            "min": self.least,
            "max": self.most,
            "tau_g_mean": self.tau_g / runs,
            "tau_h_mean": (self.tau - self.tau_g) / runs,
            "error_g": self.wrong_g / runs if known else None,
            "error_h": int(self.wrong_h.max()) / runs if known else None,
            "error_eps": int(self.too_bad.max()) / runs if self.epsilon > 0 else None,
            "within_tolerance": self.within,
            "no_shared": self.none,
            "budget_exhausted": self.exhausted,
            "runs": runs,
            "rounds": self.rounds,
        }
