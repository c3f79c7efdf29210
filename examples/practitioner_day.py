"""The day of a practitioner: plan, create, run with keys and losses, withdraw an arm, look, report.

    python examples/practitioner_day.py [FOLDER]

A shop has three recommenders and two discounts, and sells in two markets. One recommender is to be chosen for
both markets, a discount for each. Visitors arrive by themselves and have names; one in twenty closes the page
before it is known whether they buy. In the afternoon the recommender `bold` has to go: customers complain.
The manager gets three sentences and one chart.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import altair as alt
import polars as pl

import osrl

GUESS = [[[0.45, 0.30], [0.25, 0.20], [0.20, 0.15]], [[0.30, 0.45], [0.20, 0.25], [0.15, 0.20]]]
BUYS = {  # the truth, which nobody knows: without and with the discount
    "north": {"calm": (0.48, 0.30), "bold": (0.55, 0.35), "plain": (0.22, 0.18)},
    "south": {"calm": (0.28, 0.50), "bold": (0.30, 0.55), "plain": (0.18, 0.20)},
}
DISCOUNTS = ("none", "10 %")
COMPLAINTS = 120  # visitors, until there are too many about `bold`
LEAVES = 0.05
RISK = 0.1


def plan() -> int:
    """How many visitors to expect, if the guess is right."""
    runs = osrl.simulate(osrl.Instance.bernoulli(GUESS), policy="osrl", delta=RISK, runs=40, seed=0)
    return int(runs.frame["tau"].quantile(0.9) or 0)


def visit(study: osrl.Study, visitor: int, rng: random.Random) -> None:
    """One visitor: asked for by name, shown what the study says, and told or lost."""
    key, market = f"visitor-{visitor}", rng.choice(["north", "south"])
    trial = study.ask(market, key=key, note={"hour": 9 + visitor // 100})
    assert study.ask(key=key) == trial  # the page was loaded twice: the same trial
    if rng.random() < LEAVES:
        study.abandon(key=key, reason="closed the page")
        return
    chance = BUYS[market][trial.representation][DISCOUNTS.index(trial.predictor)]
    study.tell(key=key, reward=rng.random() < chance)


def chart(arms: pl.DataFrame) -> alt.LayerChart:
    """Draw the share of visitors who buy, with intervals."""
    shown = arms.filter(pl.col("told") > 0).with_columns(
        arm=pl.col("representation") + ", discount " + pl.col("predictor")
    )
    base = alt.Chart(shown).encode(y=alt.Y("arm:N", title=None))
    bars = base.mark_rule().encode(x=alt.X("lower:Q", title="share who buy (95 %, at any time)"), x2="upper:Q")
    return alt.layer(bars, base.mark_point(filled=True).encode(x="mean:Q")).facet(row="task:N")


def report(study: osrl.Study, expected: int) -> str:
    """Three sentences for the manager."""
    status, best = study.status, study.best
    answers = [
        arm
        for arm in status.arms
        if (arm.representation, arm.predictor) == (best.representation, best.predictors[arm.task])
    ]
    shares = " and ".join(f"{arm.mean:.0%} in {arm.task} (at least {arm.lower:.0%})" for arm in answers)
    discounts = ", ".join(f"{name} in {market}" for market, name in best.predictors.items())
    return (
        f"Use the recommender {best.representation}, with the discount {discounts}: at a risk of {RISK:.0%} "
        f"for each choice, no other one that we may use is better. "
        f"Of the visitors who saw it, {shares} bought. "
        f"It took {status.handed_out} visitors ({expected} were planned for), {status.abandoned} of whom "
        f"left without telling, and `bold` was withdrawn after {status.since - 1} because of complaints."
    )


def run(folder: Path) -> None:
    """Play the whole day."""
    expected = plan()
    print(f"Plan: nine of ten such experiments need at most {expected} visitors.")
    path = folder / "shop.db"
    path.unlink(missing_ok=True)
    rng = random.Random(5)
    names = {"tasks": list(BUYS), "representations": ["calm", "bold", "plain"], "predictors": DISCOUNTS}
    with osrl.Study.create(path, **names, delta=RISK, seed=3) as study:
        visitor = 0
        while study.verdict == "running":
            visitor += 1
            visit(study, visitor, rng)
            if visitor == COMPLAINTS:
                study.withdraw(representation="bold", reason="customers complain", by="support")
                print(study.arms.select("task", "representation", "predictor", "told", "mean", "lower", "upper"))
        print(report(study, expected))
        chart(study.arms).save(folder / "shop.svg")
        study.write_trials(folder / "shop.csv")
        print("replay of", study.verify().events, "events agrees:", study.verify().ok)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            run(Path(place))
