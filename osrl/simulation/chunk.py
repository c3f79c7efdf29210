"""Some runs of one policy, computed anywhere, as a table.

A run is a function of (job, number of the run): the k-th reward of an arm and the n-th choice of the
policy depend on nothing else. So runs may be computed in any order, in any chunks, on any machine.

The table has one row for each run and criterion, in a Parquet file with a header:

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
import importlib
import io
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from osrl.errors import OsrlError
from osrl.hypotheses.state import Hypotheses
from osrl.hypotheses.summary import Arm, Names, find_as_good
from osrl.jit.cache import kernel_version
from osrl.model.instance import Instance
from osrl.model.outcome import EXHAUSTED, NO_SHARED, VERDICTS, Outcome
from osrl.model.rng import START_LANE, Key, new_key, uniform
from osrl.policies.contract import Criterion, Policy, Problem
from osrl.policies.registry import find, fingerprint_of
from osrl.simulation.rewards import Rewards
from osrl.simulation.run import episode

UNLIMITED = 2**62  # rounds
_ARMS = pl.List(pl.Struct({name: pl.String for name in Arm._fields}))
_KEY = "osrl"  # of the header in the metadata of a Parquet file


@cache
def _packages() -> dict[str, str]:
    return {name: version(name) for name in ("osrl", "numpy", "numba")}


def versions(policy: Policy) -> dict[str, str | None]:
    """Return what the runs of a policy depend on besides the job; None for a policy without a fingerprint."""
    known: dict[str, str | None] = {**_packages(), "kernels": kernel_version()}
    if policy.outside is not None:
        known[f"policy {policy.name}"] = fingerprint_of(policy)
    return known


@dataclass(frozen=True)
class Job:
    """Runs of one policy, each of which gives a row for every one of the ``criteria``.

    ``number`` is its place in the campaign, ``module`` where the policy is defined, so that other
    processes find it. ``epsilon`` are the tolerances, ``rewards`` those that replace the family's. ``budget``
    ends a run after so many rounds.
    """

    campaign: str
    number: int
    instance: Instance
    policy: str
    module: str
    options: Mapping[str, Any]
    criteria: tuple[Criterion, ...]
    epsilon: tuple[float, float]
    seed: int
    budget: int | None
    versions: Mapping[str, str | None]
    rewards: Rewards | None = None

    def new_state(self, key: Key) -> Any:
        """Return the policy before its first sample."""
        instance = self.instance
        problem = Problem(instance.shape, instance.family, self.criteria, self.epsilon, truth=instance.means)
        return find(self.policy).new(problem, uniform(key, START_LANE, 0), **self.options)

    def play(self, state: Any, key: Key, budget: int | None) -> int:
        """Play one run from its first state to its end, and return its rounds; the state has the outcome."""
        return episode(state, self.instance, key, UNLIMITED if budget is None else budget, self.rewards)

    def as_good(self, state: Any) -> tuple[Arm, ...]:
        """Return the arms that are as good as the answer, in a run that ended by the tolerance."""
        names = Names(self.instance.tasks, self.instance.representations, self.instance.predictors)
        return find_as_good(state.stopping, names) if isinstance(state.stopping, Hypotheses) else ()

    @property
    def bytes_of_a_run(self) -> int:
        """How much memory the table of one run takes: most of it for the pulls."""
        return 8 * len(self.criteria) * (self.instance.means.size + 2 * len(self.instance.tasks) + 8)

    def warm_up(self) -> None:
        """Compile what a run needs, or load it: play one round and forget it."""
        key = new_key(self.seed, 0)
        self.play(self.new_state(key), key, 1)


class ChunkHeader(NamedTuple):
    """The content of a table: the runs first, ..., first + runs - 1 of a job; ``seconds`` of processor time."""

    campaign: str
    job: int
    first: int
    runs: int
    seconds: float

    @classmethod
    def read(cls, content: bytes) -> ChunkHeader:
        """Read the header from the content of a file; ValueError when it is no complete table of ours."""
        try:
            return cls(**json.loads(pl.read_parquet_metadata(io.BytesIO(content))[_KEY]))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, KeyError, TypeError) as error:
            raise ValueError(f"no complete table of runs: {error}") from None

    def file_name(self, content: bytes) -> str:
        """Return the name of the file with this header and content: damage and copies have another."""
        digest = hashlib.sha256(content).hexdigest()[:16]
        return f"runs-{self.job}-{self.first:08}-{self.runs}-{digest}.parquet"


class Chunk(NamedTuple):
    """Finished runs: which ones, and their table as a Parquet file."""

    header: ChunkHeader
    table: bytes


class CancelToken:
    """A request to end runs that other threads compute: they are cut short within a round, and dropped."""

    def __init__(self) -> None:
        self.cancelled = False
        self._under_way: dict[int, Outcome] = {}

    def watch(self, outcome: Outcome) -> None:
        """Register ``outcome`` as what the calling thread computes from now on."""
        self._under_way[threading.get_ident()] = outcome
        if self.cancelled:
            outcome.status[:] = EXHAUSTED

    def cancel(self) -> None:
        """End every run: the compiled loop continues only while a criterion of its outcome is open."""
        self.cancelled = True
        for outcome in list(self._under_way.values()):
            outcome.status[:] = EXHAUSTED


def run_chunk(job: Job, first: int, runs: int, cancel: CancelToken | None = None) -> Chunk | None:
    """Compute the runs first, ..., first + runs - 1; fewer of them, or None, when cancelled."""
    try:
        find(job.policy)
    except OsrlError:
        importlib.import_module(job.module)
    if job.versions != versions(find(job.policy)):
        here, there = (json.dumps(each) for each in (versions(find(job.policy)), job.versions))
        raise OsrlError(f"a worker has the versions {here}, not {there}; install the same everywhere")
    job.warm_up()
    rows = RunRows(job, runs)
    start = time.thread_time()
    for run in range(first, first + runs):
        key = new_key(job.seed, run)
        state = job.new_state(key)
        if cancel is not None:
            cancel.watch(state.outcome)
        rounds = job.play(state, key, job.budget)
        if cancel is not None and cancel.cancelled:
            break
        rows.add(state.outcome, rounds, job.as_good(state))
    if rows.count == 0:
        return None
    header = ChunkHeader(job.campaign, job.number, first, rows.count, time.thread_time() - start)
    return Chunk(header, rows.parquet(header))


class RunRows:
    """The outcomes of some runs, as arrays (criterion, run, ...), filled one run after the other."""

    def __init__(self, job: Job, runs: int) -> None:
        instance, criteria = job.instance, len(job.criteria)
        tasks = len(instance.tasks)
        self.job, self.count = job, 0
        self.status, self.tau, self.tau_g, self.rounds = np.zeros((4, criteria, runs), np.int64)
        self.representations, self.predictors = np.zeros((2, criteria, runs, tasks), np.int64)
        self.pulls = np.zeros((criteria, runs, instance.means.size), np.int64)
        self.as_good: list[list[Arm]] = []  # of each run; only one criterion can have a tolerance

    def add(self, outcome: Outcome, rounds: int, as_good: Sequence[Arm] = ()) -> None:
        """Append the next run; ``as_good`` are the arms as good as the answer."""
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

    def frame(self, first: int) -> pl.DataFrame:
        """Return one row for each run, criterion after criterion."""
        job, instance, criteria = self.job, self.job.instance, self.job.criteria
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
            pl.lit(job.policy).alias("policy"),
            "threshold",
            "delta_g",
            "delta_h",
            pl.lit(job.epsilon[0]).alias("epsilon_g"),
            pl.lit(job.epsilon[1]).alias("epsilon_h"),
            pl.lit(job.seed, pl.Int64).alias("seed"),
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

    def parquet(self, header: ChunkHeader) -> bytes:
        """Return the frame as a Parquet file with its header."""
        file = io.BytesIO()
        self.frame(header.first).write_parquet(file, metadata={_KEY: json.dumps(header._asdict())})
        return file.getvalue()

    def _named_arms(self, criteria: int) -> list[list[dict[str, str]]]:
        """Return the arms that are as good, for each row of the frame."""
        return [[arm._asdict() for arm in arms] for _ in range(criteria) for arms in self.as_good]

    def _flat(self, array: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return rows of the frame from an array (criterion, run, ...)."""
        array = array[:, : self.count]
        return np.ascontiguousarray(array).reshape(-1, *array.shape[2:])


def _names(codes: NDArray[np.int64], names: Sequence[str]) -> pl.Series:
    """Return names from their indices; null for -1."""
    series = pl.Series(codes)
    return pl.Series(names, dtype=pl.Enum(names)).gather(series.set(series < 0, None))


def _lists(values: NDArray[Any], names: Sequence[str] | None = None) -> pl.Series:
    """Return one list for each row of a matrix; of names, where the matrix has their indices."""
    flat = pl.Series(values.ravel()) if names is None else _names(values.ravel(), names)
    return flat.reshape(values.shape).arr.to_list()
