"""The plan of an experiment: a sentence for the planner, a table, a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from osrl.policies.registry import find
from osrl.report.bound import within_document
from osrl.report.instance import describe
from osrl.report.numbers import count, describe_tolerance
from osrl.report.table import new_table
from osrl.simulation.plan import Plan
from osrl.text import printable


class PlanReport(NamedTuple):
    """A plan, as `osrl plan` shows it."""

    plan: Plan

    def document(self) -> dict[str, Any]:
        """Return the document of `osrl plan --json`."""
        bound, plan = self.plan.bound, self.plan
        return {
            "bound": None if bound is None else {"lower": bound.K.lower, "upper": bound.K.upper},
            "K_sharp": None if bound is None else {"lower": bound.K_sharp.lower, "upper": bound.K_sharp.upper},
            "delta_g": plan.delta[0],
            "delta_h": plan.delta[1],
            "epsilon_g": plan.epsilon[0],
            "epsilon_h": plan.epsilon[1],
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
                    "days": self._days(each.median),
                    "days90": self._days(each.high),
                    "cost": None if each.cost is None else each.cost[0],
                    "cost90": None if each.cost is None else each.cost[1],
                }
                for each in self.plan.policies
            ],
            "budget": self.plan.budget,
            "loss": plan.protocol.loss,
            "delay": plan.protocol.delay,
            "batch": plan.protocol.batch,
            "shares": list(plan.protocol.shares),
            "per_day": plan.protocol.per_day,
            "costs": list(plan.protocol.costs),
            "ignorable": plan.protocol.ignorable,
            "low": plan.limits[0] if self._is_bounded else None,
            "high": plan.limits[1] if self._is_bounded else None,
            "bottleneck": None if plan.bottleneck is None else plan.bottleneck._asdict(),
            "never": plan.never,
            "sentence": self.sentence(),
        }

    def sentence(self) -> str:
        """Say what a planner needs to know."""
        if self.plan.never is not None:
            return f"However many trials there are, it will not be decided: {self.plan.never}."
        best, least, budget = self.plan.policies[0], self.plan.least, self.plan.budget
        if best.median >= budget:
            need = f"half of the experiments or more need more than {count(budget)} trials with {best.name}"
            more = "They were cut there; raise the budget to see more."
            return f"If the means are as guessed, {need}. {more}{self._bottleneck()}"
        nine = f"nine in ten are done after {count(best.high)}"
        more = f"more than one in ten need more than {count(budget)}, where they were cut"
        proved = best.threshold not in find(best.policy).unproved
        sentences = [
            f"If the means are as guessed, plan for about {count(best.median)} trials with {best.name}: "
            f"half of the experiments need fewer, and {nine if best.high < budget else more}."
        ]
        if (days := self._days(best.median)) is not None and best.high < budget:
            sentences.append(f"That is about {count(days)} days, or {count(self._days(best.high) or 0)}.")
        if self.plan.bottleneck is not None:
            sentences.append(self._bottleneck().strip())
        if best.cost is not None:
            sentences.append(
                f"Its trials cost about {count(best.cost[0])}, nine times in ten at most {count(best.cost[1])}."
            )
        if least > 0:
            coins = "With rewards 0 or 1 of these means no" if self._is_bounded else "No"
            sentences.append(
                f"On average it needs {'more than ' if best.cut else ''}{count(best.mean)}. {coins} policy "
                f"with these risks can need fewer than about {count(least)} on average."
            )
        sentences.append(
            "If the guess is wrong, the number of trials will differ"
            + ("; the risk will not." if proved else ". Nobody has proved that this rule keeps its risks.")
        )
        return " ".join(sentences)

    def _bottleneck(self) -> str:
        """Name the task that most of the time is spent on, where there is one."""
        found, best = self.plan.bottleneck, self.plan.policies[0]
        if found is None:
            return ""
        arrive = f"{100 * found.share:.3g} % of the trials arrive"
        days = self._days(found.trials)
        if days is None:
            less = f"about {count(found.trials)} trials would do, those in {found.task} among them"
        else:
            less = f"about {count(days)} days would do instead of {count(self._days(best.median) or 0)}"
        return f" The bottleneck is {found.task}, where {arrive}: without it {less}."

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the table, and the sentence."""
        plan = self.plan
        least = plan.least
        delta_g, delta_h = plan.delta
        played = f"; {plan.policies[0].runs} simulated experiments with each policy" if plan.policies else ""
        yield Text(
            f"{describe(plan.instance)}{self._unit()}\n"
            f"Accepted risks: delta_g = {delta_g:g}, delta_h = {delta_h:g}{describe_tolerance(*plan.epsilon)}"
            f"{played}{self._protocol()}"
        )
        if plan.never is not None:
            yield Text(f"\n{self.sentence()}")
            return
        table = new_table(gap=1)
        table.add_column("policy", style="bold", no_wrap=True)
        for name in ("median", "9 in 10 need at most", "mean", "mean / bound"):
            table.add_column(name, justify="right", no_wrap=True)
        for each in plan.policies:
            ratio = f"{each.mean / least:.2f}" if least > 0 else "-"
            mean, ratio = (f"> {text}" if each.cut and text != "-" else text for text in (count(each.mean), ratio))
            table.add_row(each.name, self._at(each.median), self._at(each.high), mean, ratio)
        table.add_row("lower bound", "", "", count(least) if least > 0 else "-", "1" if least > 0 else "-", style="dim")
        yield table
        yield Text(self.sentence())

    def _days(self, trials: float) -> float | None:
        """Return the days that so many trials take, where the pace is known."""
        return None if self.plan.protocol.per_day is None else trials / self.plan.protocol.per_day

    @property
    def _is_bounded(self) -> bool:
        """Tell whether rewards may vary less than coins, so that the bound for coins is none for them."""
        return self.plan.instance.family.name == "bounded"

    def _unit(self) -> str:
        """Write the limits of rewards, where they are not 0 and 1."""
        low, high = self.plan.limits
        return "" if (low, high) == (0, 1) else f" (scaled from [{low:g}, {high:g}])"

    def _protocol(self) -> str:
        """Describe losses, delays, batches and arrivals, for the heading."""
        protocol, tasks = self.plan.protocol, self.plan.instance.tasks
        parts = []
        if protocol.loss:
            counted = "and left out" if protocol.ignorable else "counted at their worst"
            parts.append(f"{100 * protocol.loss:g} % of the trials lost, {counted}")
        if protocol.delay:
            parts.append(f"results {protocol.delay:,} trials late")
        if protocol.batch > 1:
            parts.append(f"{protocol.batch:,} trials at a time")
        if protocol.shares:
            arrive = (f"{task} {100 * share:.3g} %" for task, share in zip(tasks, protocol.shares, strict=True))
            parts.append(f"tasks arrive: {', '.join(arrive)}")
        return "".join(f"\n{printable(part[0].upper() + part[1:])}" for part in parts)

    def _at(self, samples: int) -> str:
        """Write a quantile; one at the budget is only known to be larger."""
        return f"> {count(samples)}" if samples >= self.plan.budget else count(samples)


class SweepReport(NamedTuple):
    """Plans for several risks and tolerances, as `osrl plan --risks ... --tolerances ...` shows them."""

    plans: Sequence[Plan]

    def document(self) -> dict[str, Any]:
        """Return the document of a sweep: those of its plans."""
        return {"plans": [PlanReport(each).document() for each in self.plans]}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print one row for each risk and tolerance."""
        first = self.plans[0]
        played = next((plan.policies[0] for plan in self.plans if plan.policies), None)
        rows = "" if played is None else f"\n{played.runs} simulated experiments for each row, with {played.name}"
        yield Text(f"{describe(first.instance)}{rows}")
        table = new_table(gap=1)
        per_day = first.protocol.per_day
        columns = ["tolerance", "risk", "median", "9 in 10", "bound"]
        for name in columns if per_day is None else [*columns, "days", "9 in 10"]:
            table.add_column(name, justify="right", no_wrap=True)
        for plan in self.plans:
            cells = [f"{plan.epsilon[0]:g}", f"{plan.delta[0]:g}"]
            if plan.never is not None:
                table.add_row(*cells, "never", "never")
                continue
            each = plan.policies[0]
            cells += [
                f"> {count(value)}" if value >= plan.budget else count(value) for value in (each.median, each.high)
            ]
            cells.append(count(plan.least) if plan.least > 0 else "-")
            if per_day is not None:
                cells += [count(value / per_day) for value in (each.median, each.high)]
            table.add_row(*cells)
        yield table
        for why in dict.fromkeys(plan.never for plan in self.plans if plan.never is not None):
            yield Text(f"never: {why}")
        yield Text("9 in 10: nine experiments in ten need at most so many; bound: no policy needs fewer on average")
