"""A price test with a tie: one price for all countries, one wording for each, with and without a tolerance.

    python examples/price_test.py [folder]

A shop tries two prices and two wordings of its offer in two countries. The price has to be the same in both
(the shared representation), the wording is chosen for each country (the predictor). The reward of a visit is
what the visitor pays: the price, or nothing. Visitors are drawn by a program here, so that the truth is
known: in Spain both wordings sell equally well at the better price.

Two arms that tie cannot be told apart. Without a tolerance the study finds the price and the wording for
France, and then goes on about Spain until its budget is spent. With a tolerance of 75 cents a visit it ends
when nothing can be better than its answer by more than that.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from osrl import Study, Trial

PRICES = {"9 euros": 9.0, "12 euros": 12.0}
BUYS = {  # the share of visitors who buy, by (plain, friendly) wording: what only nature knows
    "France": {"9 euros": (0.60, 0.35), "12 euros": (0.25, 0.20)},
    "Spain": {"9 euros": (0.50, 0.50), "12 euros": (0.20, 0.15)},
}
WORDINGS = ("plain", "friendly")
BUDGET = 4000


def visit(trial: Trial, rng: random.Random) -> float:
    """Return what one visitor pays."""
    share = BUYS[trial.task][trial.representation][WORDINGS.index(trial.predictor)]
    return PRICES[trial.representation] if rng.random() < share else 0.0


def run(place: Path, epsilon: float) -> None:
    """Play one study to its end, and print its verdict."""
    rng = random.Random(5)
    with Study.create(
        place,
        tasks=list(BUYS),
        representations=list(PRICES),
        predictors=list(WORDINGS),
        family="bounded",
        low=0,
        high=12,
        delta=0.05,
        epsilon=epsilon,
        budget=BUDGET,
        seed=3,
    ) as study:
        study.run(lambda trial: visit(trial, rng))
        print(f"tolerance {epsilon:g} euros: {study.verdict} after {study.trials} visits")
        wording = ", ".join(f"{word} in {country}" for country, word in study.best.predictors.items())
        print(f"  price {study.best.representation}; wording {wording}")
        possible = study.evidence.filter(rejected=False, task="Spain", representation=study.best.representation)
        print(f"  not told apart in Spain: {', '.join(possible['predictor'])}")


def main() -> None:
    """Both studies, in the folder that is given or in one that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder)
        run(place / "strict.db", epsilon=0)
        run(place / "tolerant.db", epsilon=0.75)


if __name__ == "__main__":
    main()
