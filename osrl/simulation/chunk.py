"""Some runs of one policy, computed anywhere, as a table.

A run is a function of (job, number of the run): the k-th reward of an arm and the n-th choice of the
policy depend on nothing else. So runs may be computed in any order, in any chunks, on any machine.
"""

from __future__ import annotations

import importlib
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

from osrl.errors import OsrlError
from osrl.hypotheses.state import Hypotheses
from osrl.hypotheses.summary import Arm, Names, find_as_good
from osrl.jit.mode import kernel_version
from osrl.model.instance import Instance
from osrl.model.outcome import EXHAUSTED, Outcome
from osrl.model.rng import START_LANE, Key, new_key, uniform
from osrl.policies.contract import Criterion, Policy, Problem, find, stamp_of
from osrl.simulation.results_table import Label, Rows
from osrl.simulation.rewards import Rewards
from osrl.simulation.run import episode

UNLIMITED = 2**62  # rounds


@cache
def _packages() -> dict[str, str]:
    return {name: version(name) for name in ("osrl", "numpy", "numba")}


def versions(policy: Policy) -> dict[str, str | None]:
    """What the runs of a policy depend on besides the job; None for a policy that has no stamp."""
    known: dict[str, str | None] = {**_packages(), "kernels": kernel_version()}
    if policy.outside is not None:
        known[f"policy {policy.name}"] = stamp_of(policy)
    return known


@dataclass(frozen=True)
class Job:
    """Runs of one policy, from each of which all ``criteria`` are read off.

    ``number`` is its place in the campaign, ``module`` where the policy is defined, so that other
    processes find it. ``epsilon`` are the tolerances, ``rewards`` those of one's own. ``budget``
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
        """The policy before its first sample."""
        instance = self.instance
        problem = Problem(instance.shape, instance.family, self.criteria, self.epsilon, truth=instance.means)
        return find(self.policy).new(problem, uniform(key, START_LANE, 0), **self.options)

    def play(self, state: Any, key: Key, budget: int | None) -> int:
        """One run from its first state to its end; the rounds played. What came of it is in the state."""
        return episode(state, self.instance, key, UNLIMITED if budget is None else budget, self.rewards)

    def as_good(self, state: Any) -> tuple[Arm, ...]:
        """The arms that are as good as the answer, in a run that ended by the tolerance."""
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


class Chunk(NamedTuple):
    """Finished runs: which ones, and their table as a Parquet file."""

    label: Label
    table: bytes


class Stop:
    """Ends runs that other threads compute: they are cut short within a round, and dropped."""

    def __init__(self) -> None:
        self.asked = False
        self._under_way: dict[int, Outcome] = {}

    def watch(self, outcome: Outcome) -> None:
        """The calling thread works on ``outcome`` from now on."""
        self._under_way[threading.get_ident()] = outcome
        if self.asked:
            outcome.status[:] = EXHAUSTED

    def ask(self) -> None:
        """End every run: the compiled loop goes on only while a criterion of its outcome is open."""
        self.asked = True
        for outcome in list(self._under_way.values()):
            outcome.status[:] = EXHAUSTED


def run_chunk(job: Job, first: int, runs: int, stop: Stop | None = None) -> Chunk | None:
    """Compute the runs first, ..., first + runs - 1; fewer of them, or None, when told to stop."""
    try:
        find(job.policy)
    except OsrlError:
        importlib.import_module(job.module)
    if job.versions != versions(find(job.policy)):
        here, there = (json.dumps(each) for each in (versions(find(job.policy)), job.versions))
        raise OsrlError(f"a worker has the versions {here}, not {there}; install the same everywhere")
    job.warm_up()
    rows = Rows(job.instance, len(job.criteria), runs)
    start = time.thread_time()
    for run in range(first, first + runs):
        key = new_key(job.seed, run)
        state = job.new_state(key)
        if stop is not None:
            stop.watch(state.outcome)
        rounds = job.play(state, key, job.budget)
        if stop is not None and stop.asked:
            break
        rows.add(state.outcome, rounds, job.as_good(state))
    if rows.count == 0:
        return None
    label = Label(job.campaign, job.number, first, rows.count, time.thread_time() - start)
    return Chunk(label, rows.parquet(job.policy, job.criteria, job.epsilon, job.seed, label))
