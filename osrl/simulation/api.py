"""`simulate`: replications of policies on an instance."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from osrl.errors import OsrlError
from osrl.model.instance import Given, read_instance
from osrl.model.risks import Risk, read_tolerances
from osrl.simulation.campaign import read_campaign
from osrl.simulation.chunk import Chunk
from osrl.simulation.executors import DaskExecutor, Executor, Schedule, ThreadExecutor, run_all
from osrl.simulation.runs import Runs
from osrl.simulation.store import ResultsStore

DEFAULT_RUNS = 1120  # as many as in the paper


def simulate(
    instance: Given,
    policy: str | Sequence[str] | None = None,
    delta: Risk = None,
    runs: int = DEFAULT_RUNS,
    seed: int = 0,
    *,
    delta_g: Risk = None,
    delta_h: Risk = None,
    sample: str | Sequence[str] | None = None,
    stop: str | Sequence[str] | None = None,
    epsilon: float | None = None,
    epsilon_g: float | None = None,
    epsilon_h: float | None = None,
    threshold: str | Sequence[str] | None = None,
    budget: int | None = None,
    workers: int | None = None,
    dask: Any = None,
    out: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    rewards: Any = None,
    trace: str | Sequence[str] = (),
    every: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Runs:
    """Run policies on ``instance`` many times: ``runs`` runs of each policy, threshold and risk.

    ``instance``: an `Instance`, a file or ``paper``, or an array of means (tasks, representations,
    predictors) of coins. ``policy`` names policies (default: osrl); ``sample`` and ``stop`` name sampling and
    stopping rules, and every pair of them is run: ``sample=["tas", "uniform"], stop=["glr-kk", "bets"]``.

    ``delta`` (default 0.1) is both risks; ``delta_g`` and ``delta_h`` set each. Risks, policies and
    thresholds may be lists; a policy uses those of ``threshold`` and ``options`` that it has. A run
    that has used ``budget`` samples ends without a decision.

    With a tolerance ``epsilon`` (or ``epsilon_g`` for another representation, ``epsilon_h`` for another
    predictor) a run also ends when no arm of a task can be better than the answer by more than that.

    Runs are computed by ``workers`` threads (default: one for each core), or with ``dask``, the
    address of a scheduler, a client or a cluster. The same seed gives the same runs whoever
    computes them. With ``out``, a folder, finished runs survive an interruption: the same call
    continues where it stopped, and one with more runs adds to them. ``progress(done, total)`` is called
    with the number of finished runs as they come in.

    ``rewards`` replace those of the family: a function of the task, the arm g * H + h and a
    random number in [0, 1), or a polars frame of recorded ones (`osrl.simulation.rewards`). ``trace`` names
    what to write down on the way (pulls, means, weights, evidence), ``every`` so many rounds: `Runs.trace`.

    >>> coins = [[[0.9, 0.1], [0.2, 0.1]], [[0.1, 0.9], [0.2, 0.1]]]
    >>> finished = simulate(coins, "tas", runs=20)
    >>> finished.summary().select("policy", "delta", "error_g", "runs").row(0)
    ('tas', 0.1, 0.0, 20)
    """
    campaign = read_campaign(
        read_instance(instance),
        policy,
        delta,
        runs,
        seed,
        delta_g=delta_g,
        delta_h=delta_h,
        epsilon=read_tolerances(epsilon, epsilon_g, epsilon_h),
        threshold=threshold,
        budget=budget,
        options=options,
        sample=sample,
        stop=stop,
        rewards=rewards,
    )
    if out is not None or dask is not None:
        campaign.check_stamps()
    total = campaign.runs * len(campaign.jobs)

    def keep(chunk: Chunk) -> None:
        store.keep(chunk)
        report_progress()

    def report_progress() -> None:
        if progress is not None:
            progress(total - store.left(), total)

    with _executor(workers, dask) as executor, ResultsStore(campaign, out) as store:
        report_progress()
        gaps = [(job, gap) for job in campaign.jobs for gap in store.gaps(job.number)]
        if store.left():
            executor.prepare(campaign.jobs)
            run_all(executor, Schedule(gaps), keep)
    finished = Runs(campaign, store)
    for name in [trace] if isinstance(trace, str) else trace:
        finished.trace(name, every)
    return finished


def _executor(workers: int | None, dask: Any) -> Executor:
    """Return threads of this machine, or a cluster where one is given."""
    if dask is None:
        return ThreadExecutor(workers)
    if workers is not None:
        raise OsrlError("workers are threads of this machine; leave them out with dask")
    return DaskExecutor(dask)
