"""Finished runs as a table: one row for each run and criterion, in a Parquet file that says what it holds.

| column | content |
|---|---|
| `policy`, `threshold`, `delta_g`, `delta_h`, `epsilon_g`, `epsilon_h`, `seed` | what was asked for |
| `run` | the number of the run, from 0 |
| `verdict` | `decided`, `decided within the tolerance`, `no shared representation` or `budget exhausted` |
| `tau`, `tau_g`, `tau_h` | samples used, until the representation was decided, and after it |
| `representations`, `predictors` | the answer, one name for each task; a guess if the budget was exhausted |
| `correct_g`, `correct_h` | whether every representation is right; each predictor; null outside the class M |
| `as_good` | the arms that are as good as the answer within the tolerance: task, representation, predictor |
| `shortfall` | how much worse the answer of each task is than its best arm |
| `pulls` | samples of each arm, in the order of the means: task, representation, predictor |
| `rounds` | rounds of the run that this row was read off: more than tau where several rows share a run |

In the class M the verdict `no shared representation` is wrong about the representation (`correct_g`),
whatever the guesses are.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from osrl.hypotheses.summary import Arm
from osrl.model.instance import Instance
from osrl.model.outcome import NO_SHARED, VERDICTS, Outcome
from osrl.policies.contract import Criterion

_ARMS = pl.List(pl.Struct({name: pl.String for name in Arm._fields}))
_KEY = "osrl"  # of the label in the metadata of a Parquet file


class Label(NamedTuple):
    """What a table holds: the runs first, ..., first + runs - 1 of a job; ``seconds`` of processor time."""

    campaign: str
    job: int
    first: int
    runs: int
    seconds: float

    @classmethod
    def read(cls, content: bytes) -> Label:
        """The label of the content of a file; ValueError when it is no complete table of ours."""
        try:
            return cls(**json.loads(pl.read_parquet_metadata(io.BytesIO(content))[_KEY]))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, KeyError, TypeError) as error:
            raise ValueError(f"no complete table of runs: {error}") from None

    def file_name(self, content: bytes) -> str:
        """The name of the file that has this label and this content: damage and copies have another."""
        digest = hashlib.sha256(content).hexdigest()[:16]
        return f"runs-{self.job}-{self.first:08}-{self.runs}-{digest}.parquet"


class Rows:
    """The outcomes of some runs, as arrays (criterion, run, ...), filled one run after the other."""

    def __init__(self, instance: Instance, criteria: int, runs: int) -> None:
        tasks = len(instance.tasks)
        self.instance, self.count = instance, 0
        self.status, self.tau, self.tau_g, self.rounds = np.zeros((4, criteria, runs), np.int64)
        self.representations, self.predictors = np.zeros((2, criteria, runs, tasks), np.int64)
        self.pulls = np.zeros((criteria, runs, instance.means.size), np.int64)
        self.as_good: list[list[Arm]] = []  # of each run; only one criterion can have a tolerance

    def add(self, outcome: Outcome, rounds: int, as_good: Sequence[Arm] = ()) -> None:
        """Write down the next run; ``as_good`` are the arms as good as the answer."""
        i = self.count
        self.status[:, i] = outcome.status
        self.tau[:, i] = outcome.tau
        self.tau_g[:, i] = outcome.tau_g
        self.rounds[:, i] = rounds
        self.representations[:, i] = outcome.representation
        self.predictors[:, i] = outcome.predictor
        self.pulls[:, i] = outcome.pulls.reshape(len(outcome.status), -1)
        self.as_good.append(list(as_good))
        self.count += 1

    def frame(
        self, policy: str, criteria: Sequence[Criterion], epsilon: tuple[float, float], seed: int, first: int
    ) -> pl.DataFrame:
        """One row for each run, criterion after criterion."""
        instance = self.instance
        g, h = self._flat(self.representations), self._flat(self.predictors)
        right_g: Any = pl.lit(None, pl.Boolean)
        right_h: Any = pl.lit(None, pl.List(pl.Boolean))
        if instance.in_model_class:
            named = self._flat(self.status) != NO_SHARED  # there is one: that there is none is wrong
            right_g = pl.Series((g == instance.best.representation).all(axis=1) & named)
            right_h = _lists(h == np.array(instance.best.predictors))
        tasks = np.arange(g.shape[1])
        short = instance.means.max(axis=(1, 2)) - instance.means[tasks, g, h]
        runs = np.arange(first, first + self.count)
        return pl.DataFrame(
            {
                "threshold": np.repeat([criterion.threshold for criterion in criteria], self.count),
                "delta_g": np.repeat([criterion.delta_g for criterion in criteria], self.count),
                "delta_h": np.repeat([criterion.delta_h for criterion in criteria], self.count),
                "run": np.tile(runs, len(criteria)),
                "verdict": _names(self._flat(self.status), VERDICTS),
                "tau": self._flat(self.tau),
                "tau_g": self._flat(self.tau_g),
            }
        ).select(
            pl.lit(policy).alias("policy"),
            "threshold",
            "delta_g",
            "delta_h",
            pl.lit(epsilon[0]).alias("epsilon_g"),
            pl.lit(epsilon[1]).alias("epsilon_h"),
            pl.lit(seed, pl.Int64).alias("seed"),
            "run",
            "verdict",
            "tau",
            "tau_g",
            (pl.col.tau - pl.col.tau_g).alias("tau_h"),
            _lists(g, instance.representations).alias("representations"),
            _lists(h, instance.predictors).alias("predictors"),
            right_g.alias("correct_g"),
            right_h.alias("correct_h"),
            pl.Series("as_good", self._named_arms(len(criteria)), _ARMS),
            _lists(short).alias("shortfall"),
            _lists(self._flat(self.pulls)).alias("pulls"),
            pl.Series("rounds", self._flat(self.rounds)),
        )

    def parquet(
        self,
        policy: str,
        criteria: Sequence[Criterion],
        epsilon: tuple[float, float],
        seed: int,
        label: Label,
    ) -> bytes:
        """The frame as a file, with its label."""
        file = io.BytesIO()
        frame = self.frame(policy, criteria, epsilon, seed, label.first)
        frame.write_parquet(file, metadata={_KEY: json.dumps(label._asdict())})
        return file.getvalue()

    def _named_arms(self, criteria: int) -> list[list[dict[str, str]]]:
        """The arms that are as good, for each row of the frame."""
        return [[arm._asdict() for arm in arms] for _ in range(criteria) for arms in self.as_good]

    def _flat(self, array: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of the frame from an array (criterion, run, ...)."""
        array = array[:, : self.count]
        return np.ascontiguousarray(array).reshape(-1, *array.shape[2:])


def _names(codes: NDArray[np.int64], names: Sequence[str]) -> pl.Series:
    """Names from their indices; null for -1."""
    series = pl.Series(codes)
    return pl.Series(names, dtype=pl.Enum(names)).gather(series.set(series < 0, None))


def _lists(values: NDArray[Any], names: Sequence[str] | None = None) -> pl.Series:
    """One list for each row of a matrix; of names, where the matrix holds their indices."""
    flat = pl.Series(values.ravel()) if names is None else _names(values.ravel(), names)
    return flat.reshape(values.shape).arr.to_list()
