"""The runs of a campaign: a frame with one row for each run, and a summary of each criterion."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from osrl.contract import Criterion
from osrl.instance import Instance
from osrl.outcome import EXHAUSTED, NO_SHARED, VERDICTS, WITHIN
from osrl.simulation.campaign import Campaign
from osrl.simulation.job import Job
from osrl.simulation.store import Part, Store

Z975 = 2.2414  # standard errors on either side of a mean in a 97.5 % interval
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
    "seed": pl.Int64,
    "mean": pl.Float64,
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
    "budget_exhausted": pl.Int64,
    "runs": pl.Int64,
    "rounds": pl.Int64,
    "seconds": pl.Float64,
}


class Runs:
    """Finished runs. They are on disk, and are read when they are asked for."""

    def __init__(self, campaign: Campaign, store: Store) -> None:
        self.instance: Instance = campaign.jobs[0].instance
        self._campaign = campaign
        self._store = store  # a temporary folder lives as long as its store

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row for each run of each criterion, as `osrl.simulation.table` describes them."""
        rows = pl.concat([self._read(part) for job in self._campaign.jobs for part in self._parts(job)])
        each = rows.sort("run", maintain_order=True).partition_by(_CRITERION, maintain_order=True)
        return pl.concat(each)

    def summary(self) -> pl.DataFrame:
        """One row for each criterion: policy, threshold and risks (``delta`` where both are the same).

        - ``mean``, ``std``, ``min`` and ``max`` of tau, where runs that exhausted their budget count
          with the budget; ``ci975`` = 2.2414 std / sqrt(runs), the half-width of a 97.5 % interval;
        - ``tau_g_mean``, ``tau_h_mean``: samples until the representation was decided, and after it;
        - ``error_g``: the share of runs that answered with a wrong representation; ``error_h``: the
          largest share, over tasks, of runs with the right representation and a wrong predictor.
          Runs that exhausted their budget have not answered. Null outside the class M;
        - ``error_eps``: the largest share, over tasks, of runs whose answer is worse than the best arm by
          more than the tolerance (the larger one); null without one. ``within_tolerance``: the number of
          runs that ended by it;
        - ``budget_exhausted``: the number of those runs, among all ``runs``;
        - ``rounds`` that were simulated, and ``seconds`` of processor time that they took: the same
          ones for criteria that were read off the same runs.
        """
        return pl.DataFrame(
            [row for job in self._campaign.jobs for row in self._summaries(job)], schema=_SCHEMA
        )

    def _parts(self, job: Job) -> list[Part]:
        """The files with runs of a job that belong to this campaign: the folder may hold more."""
        return [part for part in self._store.parts(job.number) if part.label.first < self._campaign.runs]

    def _read(self, part: Part, columns: list[str] | None = None) -> pl.DataFrame:
        frame = pl.read_parquet(part.path, columns=columns, glob=False)
        return frame.filter(pl.col.run < self._campaign.runs)

    def _summaries(self, job: Job) -> Iterator[dict[str, Any]]:
        """The summary of each criterion of a job. One file after the other, so that memory stays flat."""
        tallies = {
            criterion: _Tally(len(self.instance.tasks), max(job.epsilon)) for criterion in job.criteria
        }
        seconds = 0.0
        for part in self._parts(job):
            rows = self._read(part, [*_CRITERION, "run", *_COUNTED])
            for (_, *key), some in rows.partition_by(_CRITERION, as_dict=True).items():
                tallies[Criterion(*key)].add(some)
            seconds += part.label.seconds * len(rows) / (part.label.runs * len(job.criteria))
        for criterion, tally in tallies.items():
            yield {
                "policy": job.policy,
                **criterion._asdict(),
                "delta": criterion.delta_g if criterion.delta_g == criterion.delta_h else None,
                "epsilon_g": job.epsilon[0],
                "epsilon_h": job.epsilon[1],
                "seed": job.seed,
                **tally.summary(self.instance.in_model_class),
                "seconds": seconds,
            }


class _Tally:
    """What is counted over the runs of a criterion: whole numbers, which add up the same in any order."""

    def __init__(self, tasks: int, epsilon: float) -> None:
        self.epsilon = epsilon
        self.runs = self.tau = self.squares = self.tau_g = self.rounds = 0
        self.exhausted = self.wrong_g = 0
        self.within = 0
        self.wrong_h, self.too_bad = np.zeros((2, tasks), np.int64)
        self.least, self.most = sys.maxsize, 0

    def add(self, rows: pl.DataFrame) -> None:
        """Count some more runs."""
        taus: list[int] = rows["tau"].to_list()
        self.runs += len(taus)
        self.tau += sum(taus)
        self.squares += sum(tau * tau for tau in taus)
        self.tau_g += sum(rows["tau_g"])
        self.rounds += sum(rows["rounds"])
        self.least, self.most = min(self.least, min(taus)), max(self.most, max(taus))
        answered = rows.filter(pl.col.verdict != VERDICTS[EXHAUSTED])
        self.exhausted += len(rows) - len(answered)
        self.within += int((rows["verdict"] == VERDICTS[WITHIN]).sum())
        given = answered.filter(pl.col.verdict != VERDICTS[NO_SHARED])["shortfall"]
        if self.epsilon > 0 and len(given):
            short = given.explode().to_numpy().reshape(len(given), -1)
            self.too_bad += (short > self.epsilon + _ROUNDING).sum(axis=0)
        right = answered.filter("correct_g")
        self.wrong_g += len(answered) - len(right)
        if len(right):
            self.wrong_h += (~right["correct_h"].explode().to_numpy().reshape(len(right), -1)).sum(axis=0)

    def summary(self, known: bool) -> dict[str, Any]:
        """Means, spread and errors; ``known``: whether there is a right answer."""
        runs = self.runs
        std = None
        if runs > 1:
            std = math.sqrt((runs * self.squares - self.tau**2) / (runs * (runs - 1)))
        return {
            "mean": self.tau / runs,
            "ci975": None if std is None else Z975 * std / math.sqrt(runs),
            "std": std,
            "min": self.least,
            "max": self.most,
            "tau_g_mean": self.tau_g / runs,
            "tau_h_mean": (self.tau - self.tau_g) / runs,
            "error_g": self.wrong_g / runs if known else None,
            "error_h": int(self.wrong_h.max()) / runs if known else None,
            "error_eps": int(self.too_bad.max()) / runs if self.epsilon > 0 else None,
            "within_tolerance": self.within,
            "budget_exhausted": self.exhausted,
            "runs": runs,
            "rounds": self.rounds,
        }
