"""The lower bounds of an instance: a JSON document, and a report for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from osrl.bounds.lower import Bound, LowerBound
from osrl.bounds.separate_tasks import SeparateTasks
from osrl.bounds.tolerance import WithinBound
from osrl.model.instance import Instance
from osrl.report.instance import AllocationView, describe, largest_shares
from osrl.report.numbers import (
    certified_interval,
    count,
    describe_tolerance,
    finite,
    first_names,
    join_words,
    measure,
    percent,
)
from osrl.report.table import new_table
from osrl.text import printable

NOTABLE_SHARE = 0.05  # of the samples, for an arm to be named in the summary
INTERVALS = ("K_sharp", "K", "K_valid", "K_G", "K_H")


class BoundReport(NamedTuple):
    """The bounds that `osrl bound` shows; ``tolerance`` is the relative width that was requested of the intervals."""

    instance: Instance
    bound: LowerBound
    separate: SeparateTasks
    tolerance: float

    def document(self) -> dict[str, Any]:
        """Return the document of `osrl bound --json`: names instead of indices, null instead of infinity."""
        instance, bound = self.instance, self.bound
        tasks, representations, predictors = instance.tasks, instance.representations, instance.predictors
        regularised = bound.K_G_sigma
        return {
            "family": instance.family.name,
            "tasks": list(tasks),
            "representations": list(representations),
            "predictors": list(predictors),
            "delta_g": bound.delta_g,
            "delta_h": bound.delta_h,
            **within_document(bound.K_epsilon),
            "best": {
                "representation": representations[bound.best.representation],
                "predictors": {x: predictors[h] for x, h in zip(tasks, bound.best.predictors, strict=True)},
            },
            **{name: _certified(value) for name, value in self._intervals()},
            "L_G": {
                "value": finite(bound.L_G.value),
                "assignment": {representations[g]: tasks[x] for g, x in bound.L_G.assignment.items()},
                "exact": bound.L_G.exact,
            },
            "K_G_sigma": {
                "sigma": regularised.sigma,
                "value": finite(regularised.value),
                "C_sigma": finite(regularised.C_sigma),
                "allocation": regularised.allocation.tolist(),
            },
            "separate_tasks": {"lower": finite(self.separate.lower), "upper": finite(self.separate.upper)},
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print bounds, allocation, and what they mean."""
        yield self._heading()
        yield self._table()
        yield from self._notes()
        yield ""
        if self.bound.K.upper > 0:
            yield AllocationView(self.instance, self.bound.K.allocation, self.bound.best)
        yield self._summary()

    def _within(self, within: WithinBound) -> str:
        """Say what the bound with a tolerance means, or why there is none."""
        several = [self.instance.tasks[x] for x in range(len(self.instance.tasks)) if x not in within.tasks]
        if not within.known:
            return (
                "to give an answer within the tolerance: not known for fixed risks, because every task has "
                "several good answers (or the risks are too large)"
            )
        silent = f"; without {printable(first_names(several))}, where several answers are good" if several else ""
        return f"to give an answer within the tolerance{silent}"

    def _intervals(self) -> list[tuple[str, Bound]]:
        return [(name, getattr(self.bound, name)) for name in INTERVALS]

    def _heading(self) -> Text:
        best, within = self.bound.best, self.bound.K_epsilon
        arms = [
            printable(f"{self.instance.predictors[h]} in {task}")
            for task, h in zip(self.instance.tasks, best.predictors, strict=True)
        ]
        return Text.assemble(
            f"{describe(self.instance)}\n",
            "Best representation: ",
            (printable(self.instance.representations[best.representation]), "bold"),
            f"; best predictors: {first_names(arms)}\n",
            f"Accepted risks: delta_g = {self.bound.delta_g:g} (representation), "
            f"delta_h = {self.bound.delta_h:g} (each predictor)",
            "" if within is None else describe_tolerance(within.epsilon_g, within.epsilon_h),
        )

    def _table(self) -> Table:
        bound = self.bound
        refuted = [
            printable(f"{self.instance.representations[g]} in {self.instance.tasks[x]}")
            for g, x in bound.L_G.assignment.items()
        ]
        where = f" ({first_names(refuted)})" if refuted else ""
        found = "" if bound.L_G.exact else "; the best split found, as there are too many to try them all"
        table = new_table()
        table.add_column("bound", style="bold", no_wrap=True)
        table.add_column("samples", justify="right", no_wrap=True)
        table.add_column("what it means")
        meanings = {
            "K_sharp": "to find the representation and all predictors: proved for every policy",
            "K": "the same by Theorem 1, as printed; some policies need fewer",
            "K_valid": "the same, as far as the proof of Theorem 1 supports it",
            "K_G": "to find the representation alone",
            "K_H": "to find the predictors alone when the representation is known",
        }
        for name, value in self._intervals():
            table.add_row(name, certified_interval(value.lower, value.upper), meanings[name])
        if (within := bound.K_epsilon) is not None:
            shown = certified_interval(within.lower, within.upper) if within.known else "-"
            table.add_row("K_epsilon", shown, Text(self._within(within)))
        table.add_row(
            "L_G",
            measure(bound.L_G.value),
            Text(f"upper bound on K_G: each representation is refuted in one task{where}{found}"),
        )
        sigma = f"K_G with the paper's regulariser sigma = {bound.K_G_sigma.sigma:g}"
        table.add_row("K_G_sigma", measure(bound.K_G_sigma.value), sigma)
        table.add_row(
            "separate",
            certified_interval(*self.separate),
            "the sum of K over the tasks, when each is treated on its own",
        )
        return table

    def _notes(self) -> Iterator[Text]:
        """Say how far the numbers can be trusted."""
        widths = {name: _relative_width(value.lower, value.upper) for name, value in self._intervals()}
        widths["separate"] = _relative_width(*self.separate)
        loose = [f"{name} ({width:.0e})" for name, width in widths.items() if width > self.tolerance]
        if loose:
            yield Text(
                f"Not certified to the requested relative width {self.tolerance:.0e}: "
                f"{', '.join(loose)}. The intervals hold, but are wider.",
                style="yellow",
            )
        elif widest := max(widths.values()):
            yield Text(f"The intervals are certified; relative gap at most {widest:.0e}.")
        if math.isinf(self.bound.K_G_sigma.value):
            yield Text("K_G_sigma is infinite: this sigma outweighs all evidence; give a larger one.")
        if self.instance.family.name == "bounded":
            yield Text(
                "The bounds are those for coins (rewards 0 or 1) with these means; rewards that vary "
                "less may be learnt faster."
            )

    def _summary(self) -> Text:
        """Say what the bounds mean for the reader's experiment."""
        bound = self.bound
        if bound.K_sharp.upper == 0:
            return Text("No samples are needed: there is only one arm, or these risks allow a guess.")
        coins = self.instance.family.name == "bounded"
        who = "If rewards were coins with these means" if coins else "Whatever policy you use"
        sentences = [
            f"{who}, expect at least about {count(bound.K_sharp.lower)} samples "
            f"on average to find the best representation with risk {bound.delta_g:g} and the best "
            f"predictors with risk {bound.delta_h:g} (K_sharp; Theorem 1, as printed, says "
            f"{count(bound.K.lower)}).",
            f"The predictors alone take at least {count(bound.K_H.lower)} where the representation is known "
            f"and cannot be wrong, the representation alone {count(bound.K_G.lower)}.",
            f"To come close, spend {self._shares()}.",
        ]
        if len(self.instance.tasks) > 1:
            ratio = max(self.separate.lower / bound.K.upper, 1.0)
            more = f"{ratio:.1f} times as many" if ratio >= 2 else f"{percent(ratio - 1)} more"
            sentences.append(
                f"By the same theorem, an experiment that treats every task on its own takes "
                f"{count(self.separate.lower)} samples, {more}."
            )
        return Text(printable(" ".join(sentences)))

    def _shares(self) -> str:
        """Name the arms that take most of the samples, and say how much is left for the others."""
        weights = self.bound.K.allocation
        chosen = [arm for arm in largest_shares(weights)[:4] if weights[arm] >= NOTABLE_SHARE]
        if not chosen:
            g = self.bound.best.representation
            right = float(weights[:, g, :].sum())
            name = self.instance.representations[g]
            return f"{percent(right)} on the best representation, {name}, and {percent(1 - right)} on others"
        parts = [f"{percent(float(weights[arm]))} on {self._arm(*arm)}" for arm in chosen]
        left = 1 - sum(float(weights[arm]) for arm in chosen)
        if left >= 0.001:
            parts.append(f"{percent(left)} on the other arms")
        return join_words(parts)

    def _arm(self, x: int, g: int, h: int) -> str:
        instance = self.instance
        return f"({instance.tasks[x]}, {instance.representations[g]}, {instance.predictors[h]})"


def _certified(bound: Bound) -> dict[str, Any]:
    return {
        "lower": finite(bound.lower),
        "upper": finite(bound.upper),
        "allocation": bound.allocation.tolist(),
    }


def within_document(within: WithinBound | None) -> dict[str, Any]:
    """Return the bound with a tolerance, as JSON has it; nothing where there is no tolerance."""
    if within is None:
        return {}
    return {
        "K_epsilon": {
            "epsilon_g": within.epsilon_g,
            "epsilon_h": within.epsilon_h,
            "known": within.known,
            "lower": finite(within.lower) if within.known else None,
            "upper": finite(within.upper) if within.known else None,
        }
    }


def _relative_width(lower: float, upper: float) -> float:
    """Return the width of a certified interval, compared with its upper end."""
    if lower == upper:
        return 0.0
    return 1.0 if math.isinf(upper) else (upper - lower) / upper
