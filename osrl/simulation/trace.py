"""Traces: the course of a run, recorded by the compiled loop.

| name | value | for each |
|---|---|---|
| ``pulls`` | samples so far | task, representation, predictor |
| ``means`` | mean reward so far; null before the first | task, representation, predictor |
| ``weights`` | the probabilities that arms are drawn with, or the weights that are followed | the same |
| ``evidence`` | what speaks against it, see `osrl.policies.stopping` | representation; and arm |

A run is a function of the seed and its number. So a trace is played again when it is asked for, and takes
no room before: a campaign that was kept in a folder can still be traced.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from osrl.errors import OsrlError
from osrl.jit import kernel_in_place
from osrl.model.arrays import Floats, Integers
from osrl.model.environment import Environment
from osrl.model.outcome import Outcome, is_open
from osrl.model.rng import new_key
from osrl.policies.contract import State
from osrl.policies.steps import RuleFunctions, conclude_all, read_evidence, read_weights, specialise_on_rules
from osrl.simulation.campaign import read_whole
from osrl.simulation.chunk import UNLIMITED, Job
from osrl.simulation.protocol import ENDED, OF_ARM, REWARD, WHY, PendingQueue, TrialProtocol, play
from osrl.simulation.run import NO_ROOM, drive

TRACE_NAMES = ("pulls", "means", "weights", "evidence")
INITIAL_MOMENTS = 256  # moments at first; twice as many when they are used up
ARM_COLUMNS = ("task", "representation", "predictor")


class Recording(NamedTuple):
    """The values at each recorded moment (arrays are filled in place)."""

    rounds: Integers  # (T,)
    arms: Floats  # (4, T, X, n) pulls, means, weights, evidence against each arm
    of_g: Floats  # (T, G) evidence against each representation
    sums: Floats  # (X, n) of rewards so far
    pulls: Floats  # (X, n)
    filled: Integers  # (1,) moments
    every: int


def new_recording(shape: tuple[int, int, int], every: int) -> Recording:
    """Return a recording without moments."""
    X, G, H = shape
    return Recording(
        rounds=np.zeros(INITIAL_MOMENTS, np.int64),
        arms=np.full((4, INITIAL_MOMENTS, X, G * H), math.nan),
        of_g=np.full((INITIAL_MOMENTS, G), math.nan),
        sums=np.zeros((X, G * H)),
        pulls=np.zeros((X, G * H)),
        filled=np.zeros(1, np.int64),
        every=every,
    )


def more_room(recording: Recording) -> Recording:
    """Return the recording with room for twice as many moments."""

    def longer(array: Any, axis: int) -> Any:
        return np.concatenate([array, np.full_like(array, 0 if array.dtype.kind == "i" else math.nan)], axis)

    return recording._replace(
        rounds=longer(recording.rounds, 0), arms=longer(recording.arms, 1), of_g=longer(recording.of_g, 0)
    )


@specialise_on_rules
def write_moment(rules: RuleFunctions) -> Callable[[State, Floats, int, Recording], None]:
    """Record the state after so many rounds: ``write_moment(state, propensities, rounds, recording)``."""

    def write_moment(state: State, propensities: Floats, rounds: int, recording: Recording) -> None:
        moment = recording.filled[0]
        recording.rounds[moment] = rounds
        arms = recording.arms[:, moment]
        _, tasks, n = arms.shape
        for x in range(tasks):
            for a in range(n):
                pulls = recording.pulls[x, a]
                arms[0, x, a] = pulls
                arms[1, x, a] = recording.sums[x, a] / pulls if pulls > 0.0 else math.nan
                arms[2, x, a] = propensities[x, a]
        read_weights(state, arms[2])
        read_evidence(state, recording.of_g[moment], arms[3])
        recording.filled[0] += 1

    return write_moment


@kernel_in_place
def play_traced(
    state: Any,
    outcome: Outcome,
    environment: Environment,
    conditions: TrialProtocol,
    queue: PendingQueue,
    propensities: Floats,
    pointer: Any,
    note: Floats,
    until: int,
    concludes: bool,
    recording: Recording,
) -> None:
    """Play the rounds of `osrl.simulation.protocol.play`, and record every so many of them, and the end."""
    filled, last, ended = recording.filled, recording.rounds.size, queue.place
    while ended[ENDED] < until and is_open(outcome):
        if filled[0] + 1 >= last:
            note[WHY] = NO_ROOM
            return
        play(state, outcome, environment, conditions, queue, propensities, pointer, note, ended[ENDED] + 1, False)
        if note[WHY] != 0.0:
            return
        rounds = ended[ENDED]
        arm, n = int(note[OF_ARM]), propensities.shape[1]
        recording.pulls[arm // n, arm % n] += 1.0
        recording.sums[arm // n, arm % n] += note[REWARD]
        if rounds % recording.every == 0 or not is_open(outcome):
            write_moment(state, propensities, rounds, recording)
    if concludes:
        conclude_all(state, outcome)


class Trace:
    """The course of runs: ``frame`` has one row for each moment and arm (or representation)."""

    def __init__(self, name: str, frame: pl.DataFrame) -> None:
        self.name = name
        self.frame = frame

    def plot(self) -> Any:
        """Draw a line for each run, or their mean where there are many, as an Altair chart."""
        from osrl.report.notebook import chart

        return chart(self)

    def __repr__(self) -> str:
        return f"Trace({self.name}, {self.frame.height:,} rows)"

    def _repr_html_(self) -> str:
        return self.frame._repr_html_()


def trace_jobs(jobs: Sequence[Job], name: str, every: int, runs: Iterable[int]) -> Trace:
    """Play ``runs`` of every job again, and record ``name`` at every ``every`` rounds and at the end."""
    if name not in TRACE_NAMES:
        raise OsrlError(f"unknown trace {name!r}; use one of {', '.join(TRACE_NAMES)}")
    every = read_whole("every", every, 1, "the rounds between two moments, at least 1")
    wanted = [(job, run) for job in jobs for run in runs]

    def one(given: tuple[Job, int]) -> list[pl.DataFrame]:
        return _trace_run(given[0], given[1], name, every)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        frames = list(pool.map(one, wanted))
    return Trace(name, pl.concat([frame for some in frames for frame in some]))


def _trace_run(job: Job, run: int, name: str, every: int) -> list[pl.DataFrame]:
    """Return the rows of one run, for each of its criteria."""
    key = new_key(job.seed, run)
    state, latest = job.new_state(key), [new_recording(job.instance.shape, every)]

    def grow(recording: Recording) -> Recording:
        latest[0] = more_room(recording)
        return latest[0]

    budget = UNLIMITED if job.budget is None else job.budget
    drive(play_traced, state, job.instance, key, budget, job.rewards, latest[0], grow)
    rows = _rows(job, latest[0], name)
    return [
        rows.select(
            pl.lit(job.policy).alias("policy"),
            *(pl.lit(value).alias(word) for word, value in criterion._asdict().items()),
            pl.lit(run, pl.Int64).alias("run"),
            "round",
            *ARM_COLUMNS,
            "value",
        )
        for criterion in job.criteria
    ]


def _rows(job: Job, recording: Recording, name: str) -> pl.DataFrame:
    """Return one row for each moment and arm; for evidence also for each representation, without a task."""
    instance, count = job.instance, int(recording.filled[0])
    rounds, shape = recording.rounds[:count], instance.shape
    values = recording.arms[TRACE_NAMES.index(name), :count].reshape(count, *shape)
    arms = int(np.prod(shape))
    named = (instance.tasks, instance.representations, instance.predictors)
    frame = pl.DataFrame(
        {
            "round": np.repeat(rounds, arms),
            **{
                word: pl.Series(names, dtype=pl.String).gather(np.tile(index.ravel(), count))
                for word, names, index in zip(ARM_COLUMNS, named, np.indices(shape), strict=True)
            },
            "value": values.ravel(),
        },
        schema=_SCHEMA,
        nan_to_null=True,
    )
    if name == "weights":  # a rule that leaves nothing to chance, and follows no weights, has none
        none = np.repeat(values.reshape(count, -1).sum(axis=1) == 0, arms)
        frame = frame.with_columns(pl.when(pl.Series(none)).then(None).otherwise(pl.col.value).alias("value"))
    if name == "evidence":
        names = pl.Series(instance.representations, dtype=pl.String)
        no_name = pl.Series([None], dtype=pl.String).new_from_index(0, count * names.len())
        shared = pl.DataFrame(
            {
                "round": np.repeat(rounds, names.len()),
                "task": no_name,
                "representation": names.gather(np.tile(np.arange(names.len()), count)),
                "predictor": no_name,
                "value": recording.of_g[:count].ravel(),
            },
            schema=_SCHEMA,
            nan_to_null=True,
        )
        frame = pl.concat([shared, frame]).sort("round", maintain_order=True)
    return frame.drop_nulls("value") if name != "means" else frame


_SCHEMA: dict[str, Any] = {
    "round": pl.Int64,
    "task": pl.String,
    "representation": pl.String,
    "predictor": pl.String,
    "value": pl.Float64,
}
