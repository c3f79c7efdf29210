"""How fast runs are simulated: rounds per second per core, against the rewards alone and against the size.

    python benchmarks/simulate.py            # everything; writes benchmarks/results/
    python benchmarks/simulate.py --quick    # a minute or two; prints only, unless --out is given

Times are processor time of one thread, the least of several turns in which the policies follow one
another, because other work on the machine can only add to it. Compilation is not counted.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from charts import draw_cost
from numba import njit
from solver import random_instance

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.jit.mode import compile_now
from osrl.model.environment import new_environment
from osrl.model.instance import Instance
from osrl.model.rng import FIRST_REWARD_LANE, START_LANE, Key, new_key, reward, uniform
from osrl.paper.dynamics import play_phase_1
from osrl.policies.contract import Criterion, Problem, State
from osrl.policies.registry import find
from osrl.policies.sampling.per_task import DESIGN_GROWTH
from osrl.policies.steps import design_of
from osrl.policies.stopping.per_task_test import TEST_PULLS
from osrl.policies.stopping.phase2 import start_next_test, write_representation
from osrl.simulation.chunk import UNLIMITED
from osrl.simulation.run import episode
from osrl.simulation.runs import Z975

RISK = 0.1
NEVER = 1e-300  # a risk at which no run ends while its rounds are timed
PAPER = Instance.load("paper")
BASE = 5  # the two sizes that stay the same while the third one grows
SIZES = (1, 2, 5, 10, 20, 40)
LEAST_ROUNDS, ROUNDS_PER_ARM = 4000, 20  # of a run whose cost is measured

Play = Callable[[Instance, float, Key, int], int]


class Speed(NamedTuple):
    """A part of a policy on the paper's instance: least seconds for some runs, and their rounds."""

    what: str
    runs: int
    rounds: int
    seconds: float
    wanted: str
    good: bool | None

    @property
    def per_round(self) -> float:
        """Seconds for one round."""
        return self.seconds / self.rounds


class Cost(NamedTuple):
    """The cost of a round for one shape."""

    what: str
    grows: str  # the size that is varied: X, G or H
    shape: tuple[int, int, int]
    seconds: float

    @property
    def arms(self) -> int:
        """K = XGH."""
        return int(np.prod(self.shape))


class Lazy(NamedTuple):
    """Samples with lazily recomputed weights, against weights of every round, run by run."""

    what: str
    growth: float  # of a task, after which weights are recomputed
    runs: int
    lazy: float
    every: float
    half: float  # half-width of the 97.5 % interval of the mean difference
    times: float  # how much more processor time weights of every round take


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


# What is played -----------------------------------------------------------------------------------


def state_of(policy: str, instance: Instance, risk: float, key: Key, **options: Any) -> Any:
    """Return a policy before its first sample, for one risk and its default threshold."""
    found = find(policy)
    criteria = (Criterion(found.thresholds[0], risk, risk),)
    return found.new(Problem(instance.shape, instance.family, criteria), uniform(key, START_LANE, 0), **options)


def means_of(instance: Instance) -> Any:
    """Return the true means as kernels take them, (X, GH)."""
    return instance.means.reshape(instance.shape[0], -1)


def whole_run(policy: str, **options: Any) -> Play:
    """Play a whole run of a policy, or its first ``budget`` rounds, and return the rounds played."""

    def play(instance: Instance, risk: float, key: Key, budget: int) -> int:
        state = state_of(policy, instance, risk, key, **options)
        return episode(state, instance, key, budget)

    return play


def first_phase(policy: str) -> Play:
    """Phase 1 alone."""

    def play(instance: Instance, risk: float, key: Key, budget: int) -> int:
        state = state_of(policy, instance, risk, key)
        if budget < UNLIMITED:
            return episode(state, instance, key, budget)
        play_phase_1(state, state.outcome, new_environment(instance, key), design_of(state))
        return int(state.outcome.tau_g[0])

    return play


def second_phase(**changes: Any) -> Play:
    """Phase 2 alone: the right representation is chosen before the first sample."""

    def play(instance: Instance, risk: float, key: Key, budget: int) -> int:
        state = state_of("osrl-sc", instance, risk, key)
        sampling, stopping = state
        state = State(sampling._replace(tasks=sampling.tasks._replace(**changes)), stopping)
        pulls = stopping.contests.arms[TEST_PULLS]
        write_representation(state.outcome, 0, instance.best.representation, 0, pulls)
        start_next_test(stopping.phase2, stopping.contests, state.outcome)
        return episode(state, instance, key, budget)

    return play


@njit
def draw_rewards(key: Key, means: Any, noise: float, rounds: int) -> float:
    """Only the rewards of a run, arm after arm."""
    total = 0.0
    tasks, n = means.shape
    for t in range(rounds):
        arm = t % (tasks * n)
        lane = FIRST_REWARD_LANE + 2 * arm
        total += reward(key, lane, t // (tasks * n), means[arm // n, arm % n], noise, False)
    return total


def rewards_alone(instance: Instance, risk: float, key: Key, budget: int) -> int:
    """As many rewards as a run of `tas` takes."""
    rounds = min(budget, 26_000)
    draw_rewards(key, means_of(instance), 0.0, rounds)
    return rounds


REWARDS = "the rewards alone"
PLAYS: dict[str, Play] = {
    REWARDS: rewards_alone,
    "`osrl-sc`, phase 1": first_phase("osrl-sc"),
    "`osrl-sc`, phase 2": second_phase(),
    "`tas`": whole_run("tas"),
    "`osrl`": whole_run("osrl"),
    "`uniform`": whole_run("uniform"),
    "`osrl-sc-released`, phase 1": first_phase("osrl-sc-released"),
}
WANTED_ROUNDS = {"`osrl-sc`, phase 1": 200_000, "`osrl-sc`, phase 2": 1_000_000, "`tas`": 1_000_000}
WANTED_SECONDS = {"`osrl`": 0.010}  # of a run
GROWING = ("`osrl-sc`, phase 1", "`osrl-sc`, phase 2", "`tas`", "`osrl`")


# Measurements -------------------------------------------------------------------------------------


def speeds(turns: int, runs: int) -> list[Speed]:
    """Time the same runs of every part in turns; the least time counts."""
    keys = [new_key(0, run) for run in range(runs)]
    least = dict.fromkeys(PLAYS, math.inf)
    rounds = {}
    for name, play in PLAYS.items():
        say(f"compiling or loading {name}")
        play(PAPER, RISK, keys[0], 50)
        rounds[name] = sum(play(PAPER, RISK, key, UNLIMITED) for key in keys)
    for turn in range(turns):
        say(f"speed: turn {turn + 1} of {turns}")
        for name, play in PLAYS.items():
            began = time.thread_time()
            for key in keys:
                play(PAPER, RISK, key, UNLIMITED)
            least[name] = min(least[name], time.thread_time() - began)
    return [_judged(name, runs, rounds[name], least[name]) for name in PLAYS]


def _judged(name: str, runs: int, rounds: int, seconds: float) -> Speed:
    """Return a measurement beside what is wanted of it."""
    if name in WANTED_ROUNDS:
        wanted = WANTED_ROUNDS[name]
        return Speed(name, runs, rounds, seconds, f"{wanted:,} rounds/s", rounds / seconds >= wanted)
    if name in WANTED_SECONDS:
        limit = WANTED_SECONDS[name]
        return Speed(name, runs, rounds, seconds, f"{1e3 * limit:.0f} ms a run", seconds / runs <= limit)
    return Speed(name, runs, rounds, seconds, "", None)


def costs(sizes: tuple[int, ...], turns: int) -> list[Cost]:
    """Measure the cost of a round as X, G and H grow, one at a time, from the first round of a run on."""
    found = []
    for i, grows in enumerate("XGH"):
        for size in sizes:
            shape = [BASE, BASE, BASE]
            shape[i] = size
            instance = random_instance((shape[0], shape[1], shape[2]), seed=0)
            rounds = max(LEAST_ROUNDS, ROUNDS_PER_ARM * instance.means.size)
            say(f"cost of a round: {tuple(shape)}")
            for name in GROWING:
                if name == "`osrl-sc`, phase 1" and shape[1] == 1:
                    continue  # one representation: there is nothing to find
                if name == "`osrl-sc`, phase 2" and shape[2] == 1:
                    continue
                least = math.inf
                for _ in range(turns):
                    began = time.thread_time()
                    played = PLAYS[name](instance, NEVER, new_key(0, 0), rounds)
                    least = min(least, time.thread_time() - began)
                found.append(Cost(name, grows, instance.shape, least / played))
    return found


def laziness(runs: int) -> list[Lazy]:
    """Count the samples of the same runs with lazy weights, and with weights of every round."""
    found = []
    for name, make, growths in (
        ("`tas`", partial(whole_run, "tas"), (0.05, DESIGN_GROWTH, 0.005, 0.001)),
        ("phase 2", second_phase, (DESIGN_GROWTH,)),
    ):
        say(f"lazy weights: {name}, {runs} runs with weights of every round")
        every, all_seconds = played(make(growth=0.0), runs)
        for growth in growths:
            say(f"lazy weights: {name}, {runs} runs at {100 * growth:g} %")
            lazy, seconds = played(make(growth=growth), runs)
            half = Z975 * float(np.std(lazy - every, ddof=1)) / math.sqrt(runs)
            times = all_seconds / seconds
            found.append(Lazy(name, growth, runs, float(lazy.mean()), float(every.mean()), half, times))
    return found


def played(play: Play, runs: int) -> tuple[Any, float]:
    """Return the rounds of every run, on all cores, and the processor time of all of them."""

    def one(run: int) -> tuple[int, float]:
        began = time.thread_time()
        rounds = play(PAPER, RISK, new_key(2, run), UNLIMITED)
        return rounds, time.thread_time() - began

    with ThreadPoolExecutor() as pool:
        rounds, seconds = np.array(list(pool.map(one, range(runs)))).T
    return rounds, float(seconds.sum())


# Report -------------------------------------------------------------------------------------------


def speed_table(found: list[Speed]) -> list[str]:
    """One row for each part of a policy."""
    alone = next(speed.per_round for speed in found if speed.what == REWARDS)
    lines = [
        "| what | rounds per second per core | a round | times the rewards alone | a run | wanted |",
        "|---|---|---|---|---|---|",
    ]
    for speed in found:
        wanted = "" if speed.good is None else f"{speed.wanted}: {'yes' if speed.good else '**no**'}"
        run = "" if speed.what == REWARDS else f"{1e3 * speed.seconds / speed.runs:.1f} ms"
        lines.append(
            f"| {speed.what} | {1 / speed.per_round:,.0f} | {1e9 * speed.per_round:,.0f} ns "
            f"| {speed.per_round / alone:.1f} | {run} | {wanted} |"
        )
    return lines


def lazy_table(found: list[Lazy]) -> list[str]:
    """One row for each policy with lazy weights."""
    lines = [
        "| what | recomputed after growth by | runs | mean samples | in every round "
        "| difference, 97.5 % interval | in % of the mean | processor time of every round, times lazy |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        apart = one.lazy - one.every
        share = [100 * part / one.every for part in (apart, one.half)]
        lines.append(
            f"| {one.what} | {100 * one.growth:g} % | {one.runs} | {one.lazy:,.0f} | {one.every:,.0f} "
            f"| {apart:+.0f} ± {one.half:.0f} | {share[0]:+.2f} ± {share[1]:.2f} | {one.times:.1f} |"
        )
    return lines


def cost_table(found: list[Cost]) -> list[str]:
    """One row for each shape, one column for each policy."""
    lines = [
        f"| grows | X, G, H | K | {' | '.join(GROWING)} |",
        "|---" * (3 + len(GROWING)) + "|",
    ]
    for grows, shape in dict.fromkeys((cost.grows, cost.shape) for cost in found):
        row = {cost.what: cost for cost in found if (cost.grows, cost.shape) == (grows, shape)}
        cells = [f"{1e6 * row[name].seconds:.2f} µs" if name in row else "-" for name in GROWING]
        sizes = ", ".join(map(str, shape))
        lines.append(f"| {grows} | {sizes} | {np.prod(shape)} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Run the benchmark and write its report."""
    compile_now()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns and runs, smaller shapes")
    parser.add_argument("--out", type=Path, help="folder for simulate.md and the chart")
    options = parser.parse_args()
    out = options.out or (None if options.quick else Path(__file__).parent / "results")

    fast = speeds(*((5, 5) if options.quick else (10, 12)))
    grown = costs(SIZES[:4] if options.quick else SIZES, 2 if options.quick else 3)
    lazy = laziness(100 if options.quick else 1120)
    text = "\n".join(
        [
            "# The simulation, measured",
            "",
            f"The paper's instance, risk {RISK}, default thresholds: rounds of whole runs, with all that "
            "belongs to them (weights, tests, draws). Processor time of one thread, least of several turns.",
            "",
            *speed_table(fast),
            "",
            "## Lazy weights",
            "",
            f"`tas` and phase 2 recompute their weights when a task has grown by {100 * DESIGN_GROWTH:g} %. "
            "The same runs (the same rewards for every arm) with weights of every round:",
            "",
            *lazy_table(lazy),
            "",
            "What is left for `tas` does not vanish with the growth: it is weights of *every* round that "
            "cost more. One reward of an arm in a close contest moves the number of samples that the newest "
            "weights ask of it by about 2 / gap, so the arm is pulled on after a success and left after a "
            "failure. Weights that are a few rounds old do not follow single rewards.",
            "",
            "## The cost of a round against X, G and H",
            "",
            f"Random Bernoulli instances, one size growing and the other two {BASE}; the average over the "
            f"first {ROUNDS_PER_ARM} K rounds of a run (at least {LEAST_ROUNDS:,}), solving for new weights "
            "included.",
            "",
            *cost_table(grown),
            "",
        ]
    )
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        picture = "\n![cost of a round against X, G and H](simulate.png)\n"
        (out / "simulate.md").write_text(text + picture, encoding="utf-8")
        draw_cost(grown, out)


if __name__ == "__main__":
    main()
