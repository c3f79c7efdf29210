"""Hypotheses and answers, as studies and analyses show them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from osrl.hypotheses.summary import Answer, Arm, Claim, Hypothesis, Objection
from osrl.report.claims import Chosen, claims_of
from osrl.text import printable

ENDINGS = ("decided", "decided within the tolerance")  # verdicts with an answer
BAR = 16  # characters of a full bar
NOISE = 1e-6  # of a risk, as a share of it
MOST_PREDICTORS = 12  # tests of predictors up to which all are shown; then only those of the best guess


class HypothesesView(NamedTuple):
    """How close each hypothesis is to being ruled out; ``best`` is the representation of the guess."""

    hypotheses: Sequence[Hypothesis]
    best: str | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table for the representations, and one for the predictors of each that is left."""
        full, empty = ("#", ".") if options.ascii_only else ("█", "░")
        for title, tests in self._groups():
            yield Text(f"\n{printable(title)}")
            yield _table(tests, full, empty)

    def _groups(self) -> list[tuple[str, list[Hypothesis]]]:
        """The tests in the order of reading."""
        representations = [test for test in self.hypotheses if test.predictor is None]
        predictors = [test for test in self.hypotheses if test.predictor is not None]
        if len(predictors) > MOST_PREDICTORS:
            predictors = [test for test in predictors if test.representation == self.best]
        groups = [("Which representation is the best?", representations)] if representations else []
        for g in dict.fromkeys(test.representation for test in predictors):
            own = [test for test in predictors if test.representation == g]
            groups.append((f"Which predictor of {g} is the best?", own))
        return groups


def _table(tests: list[Hypothesis], full: str, empty: str) -> Table:
    """One row for each hypothesis: how far it is on the way to the limit, then the numbers behind that."""
    table = Table(box=SIMPLE, padding=(0, 2, 0, 0), pad_edge=False)
    if tests[0].task is not None:
        table.add_column("task")
    table.add_column("hypothesis", style="bold")
    table.add_column("way to the limit", justify="right")
    table.add_column("")
    table.add_column("")
    table.add_column("ln evidence against", justify="right")
    table.add_column("limit", justify="right")
    left = Counter(test.task for test in tests if not test.rejected)
    for test in tests:
        share = 1.0 if test.rejected else min(max(test.log_evidence / test.limit, 0.0), 0.99)
        bar = round(BAR * share)
        open_still = "possible" if left[test.task] > 1 else "the only one left"
        table.add_row(
            *([] if test.task is None else [Text(printable(test.task))]),
            Text(printable(test.predictor or test.representation)),
            f"{math.floor(100 * share)} %",
            Text(full * bar + empty * (BAR - bar), style="dim" if test.rejected else "blue"),
            "ruled out" if test.rejected else open_still,
            f"{test.log_evidence:.2f}" if math.isfinite(test.log_evidence) else "-",
            f"{test.limit:.2f}",
        )
    return table


def hypotheses_document(hypotheses: Sequence[Hypothesis]) -> list[dict[str, Any]]:
    """The hypotheses as JSON knows them: null for an infinite evidence."""
    return [{**test._asdict(), "log_evidence": finite(test.log_evidence)} for test in hypotheses]


def answer_document(answer: Answer) -> dict[str, Any]:
    """An answer as JSON knows it."""
    return {
        "representation": answer.representation,
        "representations": dict(answer.representations),
        "predictors": dict(answer.predictors),
    }


def describe_answer(word: str, answer: Answer) -> str:
    """An answer in a sentence."""
    if answer.representation is not None:
        arms = ", ".join(f"{h or 'none'} in {x}" for x, h in answer.predictors.items())
        return printable(f"{word}: representation {answer.representation}; predictors {arms}")
    arms = ", ".join(
        f"{'none' if g is None else f'({g}, {answer.predictors[x]})'} in {x}" for x, g in answer.representations.items()
    )
    return printable(f"{word}: {arms}")


def describe_as_good(arms: Sequence[Arm]) -> str:
    """The arms that are as good as the answer, as far as the tolerance goes."""
    tasks: dict[str, list[str]] = {}
    for arm in arms:
        tasks.setdefault(arm.task, []).append(f"({arm.representation}, {arm.predictor})")
    parts = (f"{', '.join(own)} in {task}" for task, own in tasks.items())
    return printable(f"As good, within the tolerance: {'; '.join(parts)}")


def describe_tolerance(epsilon_g: float, epsilon_h: float) -> str:
    """The tolerances, after the risks; nothing where there are none."""
    if epsilon_g == epsilon_h:
        return f"; tolerance {epsilon_g:g}" if epsilon_g > 0 else ""
    return f"; tolerance {epsilon_g:g} (another representation), {epsilon_h:g} (another predictor)"


def claim_document(claim: Claim) -> dict[str, Any]:
    """A claim as JSON knows it."""
    return {"representation": claim.representation, "predictors": dict(claim.predictors)}


def chosen_by(answer: Answer, predictors: Sequence[str], epsilon: tuple[float, float]) -> Chosen | None:
    """Return the answer that statements are about; None where tasks have representations of their own."""
    own = {task: h for task, h in answer.predictors.items() if h is not None}
    if answer.representation is None or len(own) < len(answer.predictors):
        return None
    return Chosen(answer.representation, own, len(predictors) > 1, epsilon)


def describe_claim(claim: Claim, chosen: Chosen) -> str:
    """Say what could be claimed of the best guess now, and at which risks."""
    claims = claims_of(chosen, claim.representation, claim.predictors)
    if claim.representation >= 1 or all(each.risk >= 1 for each in claims):
        return "Nothing could be claimed yet, at any risk"
    parts = (f"that {each.statement} (risk {write_risk(each.risk)})" for each in claims)
    return printable(f"It could be claimed now: {'; '.join(parts)}")


def write_risk(risk: float) -> str:
    """A risk with two digits, rounded up so that it is never claimed too small; the last bits are noise.

    >>> write_risk(0.0500000001), write_risk(0.0501), write_risk(0.0316), write_risk(1.0), write_risk(2e-12)
    ('0.05', '0.051', '0.032', '1', '2e-12')
    """
    if risk >= 1:
        return "1"
    digits = 1 - math.floor(math.log10(risk)) if risk > 0 else 1
    scaled = risk * 10.0**digits
    return f"{math.ceil(scaled * (1 - NOISE)) / 10.0**digits:.2g}"


def describe_objections(objections: Sequence[Objection]) -> str:
    """Which tasks pull apart."""
    parts = (
        f"{each.task} speaks against {each.representation} (evidence {each.log_evidence:.2f})" for each in objections
    )
    return printable(f"The tasks pull apart: {'; '.join(parts)}")


def finite(value: float | None) -> float | None:
    """The value, or None where JSON has no word for it."""
    return value if value is not None and math.isfinite(value) else None
