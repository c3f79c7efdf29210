"""Every policy on generated instances of many shapes: mean samples over the lower bound K, and tails.

    python benchmarks/suite.py                # writes benchmarks/results/suite.json, .md, .png and .svg
    python benchmarks/suite.py --only osrl    # measures this policy, and keeps what is known of the others;
                                              # --runs 100: with so many runs
    python benchmarks/suite.py --quick        # small shapes and few runs; prints only

The instances are those of `generated.py` with seed 0; constants are chosen on other seeds (how far that holds
is said in docs/guarantee.md). All policies meet the same rewards. A run is cut after 200,000 samples (`osrl`:
a million); the mean is then larger, marked by ">".
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import NamedTuple

import altair as alt
import numpy as np
import polars as pl
from generated import SHAPES, generated

import osrl
from osrl.model.instance import Instance

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "benchmarks/results/suite.json"
DELTA = 0.1
SMALL = 0.01  # the other risk at which `osrl` is measured
BUDGET = 200_000  # samples after which a run is cut; for `osrl`, which needs fewer, a million
Z = 3.0  # standard errors that count as noise
COLOURS = ["#4477aa", "#999999", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377"]
POLICIES = {  # name in the table: policy, threshold, share of the runs
    "osrl": ("osrl", None, 1.0),
    "osrl at 0.01": ("osrl", None, 1.0),
    "osrl-sc sharp": ("osrl-sc", "sharp", 0.05),
    "osrl-sc released": ("osrl-sc", "released", 0.05),
    "osrl-sc theorem": ("osrl-sc", "theorem", 0.05),
    "tas": ("tas", None, 0.05),
    "uniform": ("uniform", None, 0.05),
}


class Found(NamedTuple):
    """What a policy needed on an instance."""

    instance: str
    policy: str
    ratio: float  # mean samples / K
    error: float  # standard error of it
    cut: bool  # whether some run was cut
    tail: float | None  # 99 % quantile / median; these are not known of policies measured long ago
    wrong: int | None  # runs with a wrong answer
    runs: int | None


def measure(name: str, instance: Instance, label: str, runs: int) -> Found:
    """Run one policy on one instance."""
    policy, threshold, _ = POLICIES[name]
    delta = SMALL if name == "osrl at 0.01" else DELTA
    bound = osrl.lower_bound(instance, delta_g=delta, delta_h=delta).K.lower
    budget = 10**6 if policy == "osrl" else BUDGET
    frame = osrl.simulate(instance, policy, delta, runs, threshold=threshold, budget=budget).frame
    tau = frame["tau"].to_numpy()
    right = np.array(frame["correct_g"]) & np.array([all(each) for each in frame["correct_h"]])
    cut = (frame["verdict"] == "budget exhausted").to_numpy()
    right &= (frame["verdict"] == "decided").to_numpy()
    return Found(
        label,
        name,
        float(tau.mean()) / bound,
        float(tau.std(ddof=1)) / math.sqrt(runs) / bound,
        bool(cut.any()),
        float(np.quantile(tau, 0.99) / np.median(tau)),
        int((~cut & ~right).sum()),
        runs,
    )


def table(found: list[Found]) -> list[str]:
    """One row for each instance, one column for each policy, then what the issue of the suite is."""
    lines = [f"| shape (X, G, H) | {' | '.join(POLICIES)} | `osrl`: 99 % quantile / median | wrong |"]
    lines.append("|---" * (len(POLICIES) + 3) + "|")
    for label in dict.fromkeys(each.instance for each in found):
        row = {each.policy: each for each in found if each.instance == label}
        cells = [f"{'> ' if row[p].cut else ''}{row[p].ratio:.2f} ± {2 * row[p].error:.2f}" for p in POLICIES]
        own = row["osrl"]
        lines.append(f"| {label} | {' | '.join(cells)} | {own.tail:.2f} | {own.wrong} of {own.runs} |")
    return lines


def verdicts(found: list[Found]) -> list[str]:
    """Is `osrl` ever beaten beyond noise, and how heavy are its tails?"""
    own = {each.instance: each for each in found if each.policy == "osrl"}
    beaten = [
        f"{each.policy} on {each.instance}"
        for each in found
        if each.policy.startswith("osrl-sc")
        and own[each.instance].ratio - each.ratio > Z * math.hypot(own[each.instance].error, each.error)
    ]
    tail = max(own.values(), key=lambda each: each.tail)
    stalled = sum(each.cut for each in own.values())
    return [
        f"- `osrl` needs more samples than `osrl-sc` beyond noise ({Z:.0f} standard errors): "
        + ("never." if not beaten else ", ".join(beaten) + "."),
        f"- Mean of the instances: {_mean(found, 'osrl')} K, and {_mean(found, 'osrl at 0.01')} K at risk {SMALL}.",
        f"- The largest 99 % quantile of `osrl` is {tail.tail:.2f} times the median, on {tail.instance}.",
        f"- Instances on which a run of `osrl` was cut after a million samples: {stalled}.",
    ]


def fewest(found: list[Found], policy: str) -> int:
    """Return the least number of runs of a policy on an instance."""
    return min(each.runs or 0 for each in found if each.policy == policy)


def _mean(found: list[Found], policy: str) -> str:
    """Return the mean over instances of mean samples / K, with twice its standard error over runs."""
    own = [each for each in found if each.policy == policy]
    error = math.hypot(*(each.error for each in own)) / len(own)
    return f"{np.mean([each.ratio for each in own]):.3f} ± {2 * error:.3f}"


def draw(found: list[Found], out: Path) -> None:
    """Write suite.png and suite.svg: a row for each instance, a dot for each policy, on a log scale.

    Where runs were cut, the mean is larger than drawn: a triangle that points there.
    """
    frame = pl.DataFrame([each._asdict() for each in found]).with_columns(
        mean=pl.when("cut").then(pl.lit("larger: runs were cut")).otherwise(pl.lit("measured"))
    )
    marks = ["measured", "larger: runs were cut"]
    colour = alt.Color("policy:N", sort=list(POLICIES), title=None).scale(domain=list(POLICIES), range=COLOURS)
    chart = (
        alt.Chart(frame)
        .mark_point(size=45, opacity=0.9, filled=True)
        .encode(
            alt.X("ratio:Q", title="mean samples / lower bound K (log scale)").scale(type="log"),
            alt.Y("instance:N", sort=None, title="tasks, representations, predictors"),
            colour,
            alt.Shape("mean:N", sort=marks).scale(domain=marks, range=["circle", "triangle-right"]),
            alt.YOffset("policy:N", sort=list(POLICIES)),
        )
        .properties(
            title=alt.TitleParams(
                "How far from the lower bound",
                subtitle=f"generated instances, both risks {DELTA}; further left is better",
                anchor="start",
            ),
            width=520,
            height=26 * frame["instance"].n_unique(),
        )
        .configure_axis(gridOpacity=0.4)
    )
    chart.save(str(out / "suite.png"), scale_factor=2)
    chart.save(str(out / "suite.svg"))


def report(found: list[Found], about: list[str]) -> list[str]:
    """Return the table and its summary, with more ``about`` the source of its numbers."""
    return [
        "# `osrl` beside the other policies",
        "",
        f"Mean samples / K with twice its standard error, risks {DELTA} unless another is given. On each",
        f"instance there are at least {fewest(found, 'osrl')} runs of `osrl`, "
        f"{fewest(found, 'osrl at 0.01')} at {SMALL}, and 12 of the others.",
        "A run is cut after 200,000 samples; where that happened the mean is larger (>).",
        *about,
        "",
        *table(found),
        "",
        *verdicts(found),
    ]


def main() -> None:
    """Measure every policy on every instance and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small shapes and few runs; prints only")
    parser.add_argument("--only", choices=list(POLICIES), help="measure only this one")
    parser.add_argument("--runs", type=int, help="of osrl on each instance; 200, and 1000 on small ones")
    given = parser.parse_args()
    quick = given.quick
    shapes = [shape for shape in SHAPES if np.prod(shape) <= 16] if quick else SHAPES
    runs = 50 if quick else 200
    kept = [Found(**each) for each in json.loads(KEPT.read_text())] if given.only else []
    known = {(each.instance, each.policy): each for each in kept if each.policy != given.only}
    found = []
    for shape in shapes:
        for name, (_, _, share) in POLICIES.items():
            if (str(shape), name) in known:
                found.append(known[str(shape), name])
                continue
            many = 5 * runs if name == "osrl" and np.prod(shape) <= 30 else runs  # small shapes are cheap
            some = max(12, round(share * (given.runs or many)))
            found.append(measure(name, generated(shape, 0), str(shape), some))
            print(found[-1], file=sys.stderr, flush=True)
    about = [f"Measured in this run: {given.only}; the rest is kept from earlier ones."] if given.only else []
    lines = report(found, about)
    print("\n".join(lines))
    if not quick:
        out = ROOT / "benchmarks/results"
        KEPT.write_text(json.dumps([each._asdict() for each in found], indent=0) + "\n", encoding="utf-8")
        (out / "suite.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        draw(found, out)


if __name__ == "__main__":
    main()
