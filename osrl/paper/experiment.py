"""The conditions of an experiment, and averages over its runs, computed on all cores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.jit.mode import compile_now
from osrl.model.arrays import Floats
from osrl.model.instance import Instance
from osrl.model.rng import START_LANE, Key, new_key, uniform
from osrl.paper.published import PUBLISHED_RUNS
from osrl.policies.contract import Criterion, Problem
from osrl.policies.registry import find

RUNS_PER_BLOCK = 16  # runs of one piece of work: sums over a block do not depend on who computes it


def no_progress(label: str, done: int, total: int) -> None:
    """Ignore progress."""


def subprogress(progress: Callable[[int, int], None], before: int, total: int) -> Callable[[int, int], None]:
    """Return the progress of one of several pieces of work; ``before`` is what was done earlier, of ``total``."""
    return lambda done, _: progress(before + done, total)


@dataclass(frozen=True)
class Experiment:
    """Instance, number of runs, seed and threads of all parts.

    ``progress(label, done, total)`` is called as each piece of work advances.
    ``released`` says whether `osrl-sc-released` takes part, which is most of the work.
    """

    instance: Instance
    runs: int = PUBLISHED_RUNS
    seed: int = 0
    workers: int | None = None
    released: bool = True
    progress: Callable[[str, int, int], None] = no_progress

    @property
    def means(self) -> Floats:
        """The true means as kernels take them, (X, GH)."""
        return self.instance.means.reshape(self.instance.shape[0], -1)

    def progress_for(self, label: str) -> Callable[[int, int], None]:
        """Return the progress under one label, as `simulate` reports it."""
        return lambda done, total: self.progress(label, done, total)

    def new_state(self, policy: str, criteria: tuple[Criterion, ...], key: Key) -> Any:
        """Return a policy before its first sample."""
        problem = Problem(self.instance.shape, self.instance.family, criteria)
        return find(policy).new(problem, uniform(key, START_LANE, 0))

    def average(self, label: str, measure: Callable[[Key], Floats]) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of ``measure`` over the runs, element by element.

        Threads are enough: kernels release Python's lock. Sums are computed block by block, in order,
        so that they do not depend on the number of threads, nor memory on the number of runs. The
        first block is computed in this thread, because kernels may have to be compiled, and it
        receives Ctrl-C.
        """
        compile_now()

        def work(block: range) -> Floats:
            values = np.stack([measure(new_key(self.seed, run)) for run in block])
            return np.stack([values.sum(axis=0), (values**2).sum(axis=0)])

        blocks = [range(first, min(first + RUNS_PER_BLOCK, self.runs)) for first in range(0, self.runs, RUNS_PER_BLOCK)]
        self.progress(label, 0, self.runs)
        sums = work(blocks[0])
        self.progress(label, blocks[0].stop, self.runs)
        with ThreadPoolExecutor(self.workers) as pool:
            tasks = [pool.submit(work, block) for block in blocks[1:]]
            try:
                for block, task in zip(blocks[1:], tasks, strict=True):
                    sums += task.result()
                    self.progress(label, block.stop, self.runs)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        mean = sums[0] / self.runs
        if self.runs == 1:
            return mean, np.full_like(mean, np.nan)
        return mean, np.sqrt(np.maximum(sums[1] - self.runs * mean**2, 0.0) / (self.runs - 1))
