"""What a log of trials proves: a JSON document, and a report for the terminal."""

from __future__ import annotations

from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from osrl.analysis.analyse import Analysis
from osrl.report.assumptions import SHARED, STEADY, chance
from osrl.report.hypotheses import (
    ENDINGS,
    HypothesesView,
    answer_document,
    describe_answer,
    describe_as_good,
    describe_objections,
    describe_tolerance,
    hypotheses_document,
)
from osrl.shown import printable

_MEANING = {
    "decided": "the answer is known",
    "decided within the tolerance": "no arm is better than the answer by more than that",
    "no shared representation": "the tasks do not share a best representation",
    "undecided": "the rows do not prove enough",
}
_EVIDENCE = {
    "betting": "bets on the propensities of the log, for any rewards in [0, 1]",
    "counts": "counts alone, whatever rule has chosen the arms, if it did not see the future",
}
_ASSUMED = {
    "betting": "arms were drawn with these propensities, and rows are complete and in the order of hand-out",
    "counts": f"{STEADY}, and the rows are complete and in the order of hand-out",
}
_ALARM = {
    "arms": "the arms of the rows do not follow the propensities ({}): rows are missing, or arms were drawn "
    "otherwise. Nothing is claimed; complete the log, or leave out the propensities",
    "means": "the means of the arms have changed over time ({}). Nothing is claimed from counts; add the "
    "propensities of all arms, with which only the best arm has to stay the best",
}


def assumed_by_analysis(found: Analysis) -> list[str]:
    """What the claims of an analysis rest on."""
    assumed = [SHARED, _ASSUMED[found.evidence]]
    if found.ignored:
        arm = " and nothing about the arm" if found.evidence == "betting" else ""
        assumed.append(f"a missing reward says nothing about its value{arm}")
    return assumed


class AnalysisReport(NamedTuple):
    """What `osrl analyse` found in the file ``source``."""

    source: str
    analysis: Analysis

    def document(self) -> dict[str, Any]:
        """The contract of `osrl analyse --json`."""
        found = self.analysis
        return {
            "file": self.source,
            "verdict": found.verdict,
            "best": answer_document(found.best),
            "evidence": found.evidence,
            "family": found.family.name,
            "rows": found.rows,
            "missing": found.missing,
            "ignored": found.ignored,
            "decided_after": found.decided_after,
            "hypotheses": hypotheses_document(found.hypotheses),
            "objections": [each._asdict() for each in found.objections],
            "assumed": assumed_by_analysis(found),
            "doubt": {**found.doubt._asdict(), "alarm": found.doubt.alarm},
            "delta_g": found.delta_g,
            "delta_h": found.delta_h,
            "epsilon_g": found.epsilon[0],
            "epsilon_h": found.epsilon[1],
            "as_good": [each._asdict() for each in found.as_good],
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The verdict, by which evidence, and where each hypothesis stands."""
        found = self.analysis
        after = "" if found.decided_after is None else f", after row {found.decided_after:,}"
        lines = [
            f"{printable(self.source)}: {found.verdict}{after} ({_MEANING[found.verdict]})",
            describe_answer("Answer" if found.verdict in ENDINGS else "Best guess", found.best),
            f"Evidence: {_EVIDENCE[found.evidence]}",
            f"This holds if {'; '.join(assumed_by_analysis(found))}",
            f"Accepted risks: {found.delta_g:g} (representation), {found.delta_h:g} (each predictor)"
            + describe_tolerance(*found.epsilon),
        ]
        if found.as_good:
            lines.insert(2, describe_as_good(found.as_good))
        if found.doubt.alarm:
            lines.append(f"Alarm: {_ALARM[found.doubt.about].format(chance(found.doubt.log_evidence))}")
        if found.verdict == "no shared representation":
            lines.append(describe_objections(found.objections))
        if found.missing:
            worst = found.missing - found.ignored
            counted = [f"{worst:,} count by their worst reward"] if worst else []
            if found.ignored:
                counted.append(
                    f"{found.ignored:,} are left out, because dropping out is declared to be ignorable"
                )
            lines.append(f"{found.missing:,} of {found.rows:,} rows have no reward: {'; '.join(counted)}")
        yield Text("\n".join(lines))
        yield HypothesesView(found.hypotheses, found.best.representation)
