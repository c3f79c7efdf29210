"""The picture and the table of the README: one study as it goes, and what others need for the same answer.

    python benchmarks/picture.py     # two minutes; writes results/picture.md and docs/images/osrl.png

Nothing here is a time, so the numbers are the same on every machine.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import altair as alt
import polars as pl

import osrl

ROOT = Path(__file__).resolve().parents[1]
RUNS = 400
RISKS = [0.1, 0.05, 0.01]
POLICIES = {
    "osrl": "`osrl`",
    "uniform": "the evidence of `osrl`, every arm equally often",
    "osrl-sc": "the paper's algorithm, as proved",
    "tas": "track-and-stop, each task on its own",
}
DESIGNS = ("calm", "bold", "busy")
HEADLINES = ("short", "long")
BUYS = {  # the share of visitors who buy, for each design by (short, long) headline
    "north": {"calm": (0.30, 0.45), "bold": (0.28, 0.25), "busy": (0.12, 0.15)},
    "south": {"calm": (0.50, 0.32), "bold": (0.20, 0.22), "busy": (0.30, 0.28)},
}
COLOURS = ["#0b6e99", "#d9730d", "#8a5fbf"]


def one_study() -> tuple[pl.DataFrame, str]:
    """How far each design is on the way to being ruled out, visitor by visitor, and how it ended."""
    rng = random.Random(4)
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        osrl.Study.create(
            Path(folder) / "shop.db",
            tasks=list(BUYS),
            representations=list(DESIGNS),
            predictors=list(HEADLINES),
            delta=0.05,
            seed=4,
        ) as study,
    ):
        while study.verdict == "running":
            trial = study.ask()
            share = BUYS[trial.task][trial.representation][HEADLINES.index(trial.predictor)]
            study.tell(trial, rng.random() < share)
            for row in study.evidence.filter(pl.col("predictor").is_null()).to_dicts():
                way = 1.0 if row["rejected"] else max(0.0, row["log_evidence"] / row["limit"])
                rows.append({"visitors": study.trials, "design": row["representation"], "way": min(way, 1.0)})
        found = ", ".join(f"{headline} in {market}" for market, headline in study.best.predictors.items())
        said = f"After {study.trials} visitors: design {study.best.representation}; headline {found}"
    return pl.DataFrame(rows), said


def others() -> pl.DataFrame:
    """Mean samples and wrong answers of each policy on the paper's instance."""
    runs = osrl.simulate("paper", policy=list(POLICIES), delta=RISKS, runs=RUNS, seed=0)
    return runs.summary().select("policy", "delta", "mean", "ci975", "error_g", "error_h")


def chart(study: pl.DataFrame, said: str, samples: pl.DataFrame) -> alt.HConcatChart:
    """Draw the study on the left, the comparison on the right."""
    colour = alt.Color("design", sort=list(DESIGNS), title=None, scale=alt.Scale(range=COLOURS))
    lines = alt.Chart(study, title=alt.Title("One study: which design is ruled out?", subtitle=said))
    lines = lines.mark_line(interpolate="step-after", strokeWidth=2).encode(
        alt.X("visitors", title="visitors"),
        alt.Y("way", title="evidence against it, of what is required", axis=alt.Axis(format="%")),
        colour.legend(alt.Legend(orient="top-left")),
    )
    words = {policy: words.replace("`", "") for policy, words in POLICIES.items()}
    bound = osrl.lower_bound("paper", delta_g=0.1, delta_h=0.1).K_sharp.lower
    means = samples.filter(delta=0.1).select(pl.col("policy").replace(words), "mean")
    means = pl.concat([means, pl.DataFrame({"policy": ["no policy can need fewer than"], "mean": [bound]})])
    means = means.with_columns(shown=pl.col("mean").map_elements(lambda mean: f"{mean:,.0f}", pl.String))
    base = alt.Chart(
        means,
        title=alt.Title("Samples for the same answer", subtitle="on average, the paper's instance, risk 0.1"),
    ).encode(
        alt.X("mean", title=None, axis=None),
        alt.Y("policy", title=None, sort=alt.SortField("mean"), axis=alt.Axis(labelLimit=300)),
    )
    bars = base.mark_bar(height=18).encode(
        color=alt.condition(alt.datum.policy == "osrl", alt.value(COLOURS[0]), alt.value("#c9ced6"))
    )
    numbers = base.mark_text(align="left", dx=4).encode(text="shown")
    both = alt.hconcat(
        lines.properties(width=330, height=220),
        (bars + numbers).properties(width=230, height=220),
        spacing=40,
    )
    return (
        both.resolve_scale(color="independent")
        .configure(background="white", font="sans-serif", padding=16)
        .configure_view(stroke=None)
        .configure_axis(grid=False, labelFontSize=12, titleFontSize=12)
        .configure_title(anchor="start", fontSize=15, subtitleFontSize=12, subtitlePadding=6)
    )


def table(samples: pl.DataFrame) -> str:
    """Return the comparison as Markdown."""
    head = ["on average", *(f"risk {risk:g}" for risk in RISKS), "wrong, of those at risk 0.1"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for policy, words in POLICIES.items():
        rows = samples.filter(policy=policy).sort("delta", descending=True).to_dicts()
        cells = [f"{row['mean']:,.0f} ± {row['ci975']:,.0f}" for row in rows]
        wrong = f"{rows[0]['error_g']:.1%} representation, {rows[0]['error_h']:.1%} predictor"
        lines.append(f"| {' | '.join([words, *cells, wrong])} |")
    bounds = [osrl.lower_bound("paper", delta_g=risk, delta_h=risk).K_sharp.lower for risk in RISKS]
    lines.append(f"| {' | '.join(['no policy can need fewer than', *(f'{one:,.0f}' for one in bounds), ''])} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the picture and the report."""
    samples = others()
    picture = chart(*one_study(), samples)
    images = ROOT / "docs" / "images"
    images.mkdir(exist_ok=True)
    picture.save(images / "osrl.png", scale_factor=2)
    about = (
        f"Samples on the paper's instance (2 tasks, 3 representations, 2 predictors), mean of {RUNS} runs, "
        "seed 0, with 97.5 % intervals. Both risks are as in the head of the column."
    )
    report = f"# What the same answer costs\n\n{about}\n\n{table(samples)}\n"
    (ROOT / "benchmarks" / "results" / "picture.md").write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
