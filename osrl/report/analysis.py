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


def assumed_by_analysis(analysis: Analysis) -> list[str]:
    """What the claims of an analysis rest on."""
    assumed = [SHARED, _ASSUMED[analysis.evidence]]
    if analysis.ignored:
        arm = " and nothing about the arm" if analysis.evidence == "betting" else ""
        assumed.append(f"a missing reward says nothing about its value{arm}")
    return assumed


class AnalysisReport(NamedTuple):
    """What `osrl analyse` found in the file ``source``."""

    source: str
    analysis: Analysis

    def document(self) -> dict[str, Any]:
        """The contract of `osrl analyse --json`."""
        analysis = self.analysis
        return {
            "file": self.source,
            "verdict": analysis.verdict,
            "best": answer_document(analysis.best),
            "evidence": analysis.evidence,
            "family": analysis.family.name,
            "rows": analysis.rows,
            "missing": analysis.missing,
            "ignored": analysis.ignored,
            "decided_after": analysis.decided_after,
            "hypotheses": hypotheses_document(analysis.hypotheses),
            "objections": [each._asdict() for each in analysis.objections],
            "assumed": assumed_by_analysis(analysis),
            "doubt": {**analysis.doubt._asdict(), "alarm": analysis.doubt.alarm},
            "delta_g": analysis.delta_g,
            "delta_h": analysis.delta_h,
            "epsilon_g": analysis.epsilon[0],
            "epsilon_h": analysis.epsilon[1],
            "as_good": [each._asdict() for each in analysis.as_good],
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The verdict, by which evidence, and where each hypothesis stands."""
        analysis = self.analysis
        after = "" if analysis.decided_after is None else f", after row {analysis.decided_after:,}"
        lines = [
            f"{printable(self.source)}: {analysis.verdict}{after} ({_MEANING[analysis.verdict]})",
            describe_answer("Answer" if analysis.verdict in ENDINGS else "Best guess", analysis.best),
            f"Evidence: {_EVIDENCE[analysis.evidence]}",
            f"This holds if {'; '.join(assumed_by_analysis(analysis))}",
            f"Accepted risks: {analysis.delta_g:g} (representation), {analysis.delta_h:g} (each predictor)"
            + describe_tolerance(*analysis.epsilon),
        ]
        if analysis.as_good:
            lines.insert(2, describe_as_good(analysis.as_good))
        if analysis.doubt.alarm:
            lines.append(f"Alarm: {_ALARM[analysis.doubt.about].format(chance(analysis.doubt.log_evidence))}")
        if analysis.verdict == "no shared representation":
            lines.append(describe_objections(analysis.objections))
        if analysis.missing:
            worst = analysis.missing - analysis.ignored
            counted = [f"{worst:,} count by their worst reward"] if worst else []
            if analysis.ignored:
                counted.append(
                    f"{analysis.ignored:,} are left out, because dropping out is declared to be ignorable"
                )
            lines.append(
                f"{analysis.missing:,} of {analysis.rows:,} rows have no reward: {'; '.join(counted)}"
            )
        yield Text("\n".join(lines))
        yield HypothesesView(analysis.hypotheses, analysis.best.representation)
