"""How the samples grow as the risk falls: mean samples / K against ln(1 / delta), from 0.1 to 1e-16.

    python benchmarks/asymptotics.py           # writes benchmarks/results/asymptotics.md, .png and .svg
    python benchmarks/asymptotics.py --quick   # few runs and risks; prints only

K grows like ln(1 / delta), so the ratio of a policy that is optimal in the limit tends to 1. The *slope* says
how it gets there: the samples that two risks differ by, over the difference of K. A slope of 1 is optimal:
what is lost is lost once. The instances are the paper's and three of `generated.py`, seed 7.
"""

from __future__ import annotations

import argparse
import math
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import altair as alt
import polars as pl
from generated import generated

import osrl
from osrl.model.instance import Instance

ROOT = Path(__file__).resolve().parents[1]
RISKS = (1e-1, 1e-2, 1e-4, 1e-8, 1e-16)
POLICIES = {  # name, threshold, share of runs, samples after which a run is cut
    "osrl": ("osrl", None, 1.0, 2_000_000),
    "osrl-sc": ("osrl-sc", "theorem", 0.1, 200_000),
}
SHAPES = [(3, 2, 3), (3, 4, 2), (3, 5, 3)]


class Found(NamedTuple):
    """What a policy needed on an instance at one risk."""

    instance: str
    policy: str
    delta: float
    mean: float
    error: float  # standard error of the mean
    bound: float  # K
    cut: int  # runs

    @property
    def ratio(self) -> float:
        """Mean samples over the lower bound."""
        return self.mean / self.bound


def measure(label: str, instance: Instance, name: str, delta: float, runs: int) -> Found:
    """Run one policy on one instance at one risk."""
    policy, threshold, _, budget = POLICIES[name]
    bound = osrl.lower_bound(instance, delta_g=delta, delta_h=delta).K.lower
    frame = osrl.simulate(instance, policy, delta, runs, threshold=threshold, budget=budget).frame
    tau = frame["tau"].to_numpy()
    cut = int((frame["verdict"] == "budget exhausted").sum())
    return Found(label, name, delta, float(tau.mean()), float(tau.std(ddof=1)) / math.sqrt(runs), bound, cut)


def table(found: list[Found], risks: tuple[float, ...]) -> list[str]:
    """Ratios for each risk, then the slopes between neighbouring ones."""
    steps = list(pairwise(risks))
    heads = [f"{risk:g}" for risk in risks] + [f"slope {a:g} to {b:g}" for a, b in steps]
    lines = [f"| instance | policy | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    for instance, policy in dict.fromkeys((each.instance, each.policy) for each in found):
        row = {each.delta: each for each in found if (each.instance, each.policy) == (instance, policy)}
        cells = [
            f"{'> ' if row[r].cut else ''}{row[r].ratio:.2f} ± {2 * row[r].error / row[r].bound:.2f}" for r in risks
        ]
        for a, b in steps:
            difference = row[b].bound - row[a].bound
            slope = (row[b].mean - row[a].mean) / difference
            error = 2 * math.hypot(row[a].error, row[b].error) / difference
            cells.append("" if row[a].cut or row[b].cut else f"{slope:.2f} ± {error:.2f}")
        lines.append(f"| {instance} | {policy} | {' | '.join(cells)} |")
    return lines


def draw(found: list[Found], out: Path) -> None:
    """Write asymptotics.png and .svg: the ratio against ln(1 / delta), one panel for each instance.

    Where runs were cut, the mean is larger than drawn: a triangle that points there.
    """
    marks = ["measured", "larger: runs were cut"]
    frame = pl.DataFrame(
        [
            {
                **each._asdict(),
                "ratio": each.ratio,
                "nats": math.log(1 / each.delta),
                "mean": marks[each.cut > 0],
            }
            for each in found
        ]
    )
    base = alt.Chart(frame).encode(
        alt.X("nats:Q", title="ln(1 / delta)"),
        alt.Y("ratio:Q", title="mean samples / K (log scale)").scale(type="log", domainMin=1),
        alt.Color("policy:N", title=None).scale(domain=list(POLICIES), range=["#4477aa", "#ee6677"]),
    )
    shape = alt.Shape("mean:N", title=None, sort=marks).scale(domain=marks, range=["circle", "triangle-up"])
    chart = (
        alt.layer(base.mark_line(), base.mark_point(filled=True, size=50, opacity=1).encode(shape))
        .properties(width=230, height=180)
        .facet(alt.Facet("instance:N", sort=["paper", *map(str, SHAPES)], title=None), columns=2)
        .properties(
            title=alt.TitleParams(
                "The price of what is not known, as the risk falls",
                subtitle="both risks delta from 0.1 to 1e-16; 1 is the lower bound",
                anchor="start",
            )
        )
    )
    chart.save(str(out / "asymptotics.png"), scale_factor=2)
    chart.save(str(out / "asymptotics.svg"))


def main() -> None:
    """Measure both policies on every instance and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few runs and risks; prints only")
    parser.add_argument("--runs", type=int, default=200, help="of osrl; a tenth of them of osrl-sc")
    given = parser.parse_args()
    risks, runs = (RISKS[:2], 20) if given.quick else (RISKS, given.runs)
    instances = {"paper": Instance.load("paper"), **{str(shape): generated(shape, 7) for shape in SHAPES}}
    found = []
    for label, instance in instances.items():
        for name, (_, _, share, _) in POLICIES.items():
            for delta in risks:
                found.append(measure(label, instance, name, delta, max(10, round(share * runs))))
                print(found[-1], file=sys.stderr, flush=True)
    lines = [
        "# As the risk falls",
        "",
        f"Mean samples / K with twice its standard error; {runs} runs of `osrl`, {max(10, runs // 10)} of",
        "the paper's algorithm, cut after 200,000 samples; where that happened the mean is larger (>).",
        "The slope between two risks is the difference of the means over that of K: 1 is optimal.",
        "",
        *table(found, risks),
    ]
    print("\n".join(lines))
    if not given.quick:
        out = ROOT / "benchmarks/results"
        (out / "asymptotics.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        draw(found, out)


if __name__ == "__main__":
    main()
