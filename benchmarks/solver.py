"""How fast the certified allocation is: against cutting planes, the paper's method, and its own size.

    python benchmarks/solver.py            # everything; writes benchmarks/results/
    python benchmarks/solver.py --quick    # a minute less; prints only, unless --out is given

All times of one table come from one run, taken in turns, so that the ratios compare like with like. They
are the least of several measurements of processor time, because other work on the machine can only add
to it; every method uses one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from charts import draw_growth, growth_exponent
from cutting_planes import cutting_planes

from osrl.allocation import Needs, allocate, program_for
from osrl.allocation.program import Program
from osrl.allocation.solver import solve_from_scratch
from osrl.jit.mode import compile_now
from osrl.model.instance import Instance
from osrl.paper.mirror_ascent import Ascent, paper_ascent, paper_rates, uniform_point

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-6
MOST_STEPS = 20_000
CERTIFY_EVERY = 100
FASTER = 32.0  # the paper's steps, times this: the best power of two on phase 1 of the paper's instance
PHASES = {"phase 1": (1.0, 0.0), "phase 2": (0.0, 1.0), "joint": (1.0, 1.0)}
SHAPES = [(2, 3, 2), (3, 4, 3), (5, 5, 5), (6, 7, 6), (10, 10, 10), (14, 14, 14), (20, 22, 22)]


class Result(NamedTuple):
    """What one method did on one program: least seconds, certified gap, and what ended it."""

    seconds: float
    gap: float
    ended: str


class Size(NamedTuple):
    """One random instance of the growth experiment."""

    shape: tuple[int, int, int]
    phase: str
    seconds: float
    gap: float
    iterations: int

    @property
    def arms(self) -> int:
        """K = XGH."""
        return int(np.prod(self.shape))


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def random_instance(shape: tuple[int, int, int], seed: int) -> Instance:
    """Uniform means; the best arm of each task is brought to the first representation and leads by 0.03."""
    means = np.random.default_rng(seed).uniform(0.05, 0.9, shape)
    for x in range(shape[0]):
        g, h = np.unravel_index(means[x].argmax(), shape[1:])
        means[x, [0, g]] = means[x, [g, 0]]
        means[x, 0, h] += 0.03
    return Instance.bernoulli(means)


def relative_gap(lower: float, upper: float) -> float:
    """Width of an interval, relative to its lower end."""
    return (upper - lower) / lower


# Methods ------------------------------------------------------------------------------------------


def mirror(program: Program, faster: float) -> Ascent:
    """Solve by the paper's method, with ``faster`` times its steps."""
    rates = paper_rates(program)
    rates = rates._replace(q=faster * rates.q, dual=faster * rates.dual)
    return paper_ascent(program, uniform_point(program), rates, TOLERANCE, MOST_STEPS, CERTIFY_EVERY)


def literal_cutting_planes(instance: Instance, needs: Needs) -> tuple[float, float]:
    """Solve by the oracle of the tests: sets and loops in Python, dense LPs."""
    sys.path.insert(0, str(ROOT))  # before what others install under this name
    from tests.oracle import bounds as oracle_bounds

    found = oracle_bounds.cutting_planes(
        instance.means,
        instance.family.noise,
        needs.representations,
        needs.predictors,
        *instance.best,
        TOLERANCE,
    )
    return found[1], found[2]


def methods(instance: Instance, needs: Needs, literal: bool) -> dict[str, Callable[[], tuple[float, str]]]:
    """Every method as a call that returns its gap and what ended it."""
    program = program_for(instance, needs)

    def ours() -> tuple[float, str]:
        found = solve_from_scratch(program, TOLERANCE)
        return relative_gap(found.lower, found.upper), f"{found.iterations} iterations"

    def whole_call() -> tuple[float, str]:
        found = allocate(instance, needs, tolerance=TOLERANCE)
        return found.gap, f"{found.iterations} iterations"

    def planes() -> tuple[float, str]:
        found = cutting_planes(program, TOLERANCE)
        return found.gap, f"{found.rounds} LPs"

    def literal_planes() -> tuple[float, str]:
        return relative_gap(*literal_cutting_planes(instance, needs)), "gap reached"

    def ascent(faster: float) -> tuple[float, str]:
        found = mirror(program, faster)
        reached = relative_gap(found.lower, found.upper)
        return reached, f"{found.steps} steps" + ("" if reached <= TOLERANCE else ", gap not reached")

    calls: dict[str, Callable[[], tuple[float, str]]] = {
        "ours, kernel on a built program": ours,
        "ours, `allocate` from Python": whole_call,
        "cutting planes, tuned": planes,
    }
    if literal:
        calls["cutting planes, literal"] = literal_planes
    calls["mirror ascent, the paper's steps"] = lambda: ascent(1.0)
    calls[f"mirror ascent, steps x {FASTER:.0f}"] = lambda: ascent(FASTER)
    return calls


def compare(instance: Instance, needs: Needs, rounds: int, literal: bool = False) -> dict[str, Result]:
    """Time every method in turns, ``rounds`` times; those that take little time more often in each turn."""
    calls = methods(instance, needs, literal)
    times: dict[str, list[float]] = {name: [] for name in calls}
    outcome = {name: call() for name, call in calls.items()}  # also compiles
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(20 if name.startswith("ours") else 1):
                began = time.process_time()
                call()
                times[name].append(time.process_time() - began)
    return {name: Result(min(times[name]), *outcome[name]) for name in calls}


def growth(shapes: list[tuple[int, int, int]], instances: int) -> list[Size]:
    """Time the kernel on random instances of growing size."""
    found = []
    for shape in shapes:
        say(f"growth: {shape}, {instances} instances")
        for phase, need in PHASES.items():
            for seed in range(instances):
                instance = random_instance(shape, seed)
                program = program_for(instance, Needs.of(instance, *need))
                times = []
                for _ in range(5):
                    began = time.process_time()
                    solution = solve_from_scratch(program, TOLERANCE)
                    times.append(time.process_time() - began)
                gap = relative_gap(solution.lower, solution.upper)
                found.append(Size(shape, phase, min(times), gap, solution.iterations))
    return found


# Report -------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    unit, size = ("s", 1.0) if seconds >= 1.0 else ("ms", 1e-3) if seconds >= 1e-3 else ("µs", 1e-6)
    return f"{seconds / size:.3g} {unit}"


def comparison_table(results: dict[str, dict[str, Result]]) -> list[str]:
    """One row for each program and method: how many times longer than ours, and how it ended."""
    lines = [
        "| program | method | times ours | gap | ended after | time |",
        "|---|---|---|---|---|---|",
    ]
    for program, found in results.items():
        ours = next(iter(found.values())).seconds
        for name, result in found.items():
            ratio = f"{result.seconds / ours:.1f}" if "ours" in name else f"{result.seconds / ours:.0f}"
            lines.append(
                f"| {program} | {name} | {ratio} | {result.gap:.1e} | {result.ended} | {duration(result.seconds)} |"
            )
    return lines


def growth_table(sizes: list[Size]) -> list[str]:
    """Median time, iterations and worst gap of each shape and phase."""
    lines = [
        "| X, G, H | K | program | median time | slowest | iterations | worst gap |",
        "|---|---|---|---|---|---|---|",
    ]
    for shape in dict.fromkeys(size.shape for size in sizes):
        for phase in PHASES:
            group = [size for size in sizes if size.shape == shape and size.phase == phase]
            seconds = [size.seconds for size in group]
            iterations, gap = np.median([size.iterations for size in group]), max(size.gap for size in group)
            lines.append(
                f"| {', '.join(map(str, shape))} | {group[0].arms} | {phase} "
                f"| {duration(float(np.median(seconds)))} | {duration(max(seconds))} "
                f"| {iterations:.0f} | {gap:.1e} |"
            )
    return lines


def headline(results: dict[str, dict[str, Result]], sizes: list[Size]) -> list[str]:
    """Return the ratios that matter, in words."""
    lines = []
    for program, found in results.items():
        ours = next(iter(found.values())).seconds
        rivals = [f"{name} {result.seconds / ours:.0f}" for name, result in found.items() if "ours" not in name]
        lines.append(f"- {program}, times our kernel: {'; '.join(rivals)}.")
    reached = sum(size.gap <= TOLERANCE for size in sizes)
    exponents = ", ".join(f"{phase} {growth_exponent(sizes, phase):.2f}" for phase in PHASES)
    lines.append(f"- Growth, time like K to the power: {exponents}.")
    lines.append(f"- A certified gap of {TOLERANCE:g} was reached on {reached} of {len(sizes)} random programs.")
    return lines


def main() -> None:
    """Run the benchmark and write its report."""
    compile_now()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and smaller shapes")
    parser.add_argument("--out", type=Path, help="folder for solver.md and the chart")
    options = parser.parse_args()
    out = options.out or (None if options.quick else Path(__file__).parent / "results")

    paper = Instance.load("paper")
    results = {}
    for phase, need in PHASES.items():
        say(f"paper's instance, {phase}")
        rounds = 3 if options.quick else 40
        results[f"paper, {phase}"] = compare(paper, Needs.of(paper, *need), rounds, literal=True)
    for shape in SHAPES[2:3] if options.quick else [(5, 5, 5), (10, 10, 10)]:
        instance = random_instance(shape, seed=0)
        for phase, need in PHASES.items():
            name = f"random {' x '.join(map(str, shape))}, {phase}"
            say(name)
            results[name] = compare(instance, Needs.of(instance, *need), 1 if shape[0] > 5 else 3)
    sizes = growth(SHAPES[:5] if options.quick else SHAPES, 3 if options.quick else 7)

    text = "\n".join(
        [
            "# The solver, measured",
            "",
            *headline(results, sizes),
            "",
            f"Every method aims at a certified relative gap of {TOLERANCE:g}; mirror ascent gives up after "
            f"{MOST_STEPS} steps. Times are the least processor time of several turns, all in one run.",
            "",
            *comparison_table(results),
            "",
            "## Growth",
            "",
            "The kernel on built programs of random Bernoulli instances.",
            "",
            *growth_table(sizes),
            "",
        ]
    )
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "solver.md").write_text(text + "\n![time against the number of arms](solver.png)\n", encoding="utf-8")
        draw_growth(sizes, out)


if __name__ == "__main__":
    main()
