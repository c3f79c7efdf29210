"""What to expect of an experiment: the sentence a planner needs, a table, a JSON document."""

from __future__ import annotations

from typing import Any, NamedTuple

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from osrl.contract import find
from osrl.report.bound import within_document
from osrl.report.hypotheses import describe_tolerance
from osrl.report.instance import describe
from osrl.report.numbers import count
from osrl.simulation.forecast import Forecast


class PlanReport(NamedTuple):
    """What `osrl plan` found."""

    forecast: Forecast

    def document(self) -> dict[str, Any]:
        """The document of `osrl plan --json`."""
        bound, forecast = self.forecast.bound, self.forecast
        return {
            "bound": None if bound is None else {"lower": bound.K.lower, "upper": bound.K.upper},
            "delta_g": forecast.delta[0],
            "delta_h": forecast.delta[1],
            "epsilon_g": forecast.epsilon[0],
            "epsilon_h": forecast.epsilon[1],
            **within_document(None if bound is None else bound.K_epsilon),
            "policies": [
                {
                    "policy": each.policy,
                    "threshold": each.threshold,
                    "median": each.median,
                    "quantile90": each.high,
                    "quantile10": each.low,
                    "mean": each.mean,
                    "runs": each.runs,
                    "budget_exhausted": each.cut,
                }
                for each in self.forecast.policies
            ],
            "budget": self.forecast.budget,
            "sentence": self.sentence(),
        }

    def sentence(self) -> str:
        """What a planner needs to know."""
        best, least, budget = self.forecast.policies[0], self.forecast.least, self.forecast.budget
        if best.median >= budget:
            need = f"half of the experiments or more need more than {count(budget)} samples with {best.name}"
            return f"If the means are as guessed, {need}. They were cut there; raise the budget to see more."
        nine = f"nine in ten are done after {count(best.high)}"
        more = f"more than one in ten need more than {count(budget)}, where they were cut"
        proved = best.threshold not in find(best.policy).unproved
        sentences = [
            f"If the means are as guessed, plan for about {count(best.median)} samples with {best.name}: "
            f"half of the experiments need fewer, and {nine if best.high < budget else more}."
        ]
        if least > 0:
            coins = "With rewards 0 or 1 of these means no" if self._is_bounded else "No"
            sentences.append(
                f"On average it needs {'more than ' if best.cut else ''}{count(best.mean)}. {coins} policy "
                f"with these risks can need fewer than about {count(least)} on average."
            )
        sentences.append(
            "If the guess is wrong, the number of samples will differ"
            + ("; the risk will not." if proved else ". Nobody has proved that this rule keeps its risks.")
        )
        return " ".join(sentences)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, and the sentence."""
        forecast = self.forecast
        least, runs = forecast.least, forecast.policies[0].runs
        delta_g, delta_h = forecast.delta
        tolerance = describe_tolerance(*forecast.epsilon)
        yield Text(
            f"{describe(forecast.instance)}\n"
            f"Accepted risks: delta_g = {delta_g:g}, delta_h = {delta_h:g}{tolerance}; "
            f"{runs} simulated experiments with each policy"
        )
        table = Table(box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("policy", style="bold", no_wrap=True)
        for name in ("median", "9 in 10 need at most", "mean", "mean / bound"):
            table.add_column(name, justify="right", no_wrap=True)
        for each in forecast.policies:
            ratio = f"{each.mean / least:.2f}" if least > 0 else "-"
            mean, ratio = (
                f"> {text}" if each.cut and text != "-" else text for text in (count(each.mean), ratio)
            )
            table.add_row(each.name, self._at(each.median), self._at(each.high), mean, ratio)
        table.add_row(
            "lower bound", "", "", count(least) if least > 0 else "-", "1" if least > 0 else "-", style="dim"
        )
        yield table
        yield Text(self.sentence())

    @property
    def _is_bounded(self) -> bool:
        """Rewards that vary less than coins do may be learnt faster than the bound for coins says."""
        return self.forecast.instance.family.name == "bounded"

    def _at(self, samples: int) -> str:
        """A quantile; one at the budget is only known to be larger."""
        return f"> {count(samples)}" if samples >= self.forecast.budget else count(samples)
