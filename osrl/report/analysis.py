"""The analysis of a log of trials: a JSON document, and a report for the terminal."""

from __future__ import annotations

from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from osrl.analysis.verdict import Analysis
from osrl.report.claims import chosen_of, describe_claim, guarantee
from osrl.report.numbers import count_noun, describe_tolerance, risk
from osrl.report.sentences import (
    LEAST_EVIDENCE_GUESS,
    MEANINGS,
    SHARED,
    STEADY,
    chance,
    describe_answer,
    describe_as_good,
    describe_objections,
)
from osrl.report.study import hypotheses_document
from osrl.report.study_tables import ArmsView, HypothesesView
from osrl.study.log.events import ANSWERED
from osrl.text import printable

MAX_TASKS_LISTED = 8  # tasks that are named with their rows
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
    """List what the claims of an analysis rest on."""
    assumed = [SHARED, _ASSUMED[analysis.evidence]]
    if analysis.ignored:
        arm = " and nothing about the arm" if analysis.evidence == "betting" else ""
        assumed.append(f"a missing reward says nothing about its value{arm}")
    return assumed


class AnalysisReport(NamedTuple):
    """The analysis of the file ``source``, as `osrl analyse` shows it."""

    source: str
    analysis: Analysis

    def document(self) -> dict[str, Any]:
        """Return the document of `osrl analyse --json`: the keys of a study, and those of a log."""
        analysis = self.analysis
        told = analysis.rows - analysis.missing
        return {
            "place": self.source,
            "verdict": analysis.verdict,
            "best": analysis.best._asdict(),
            "trials": {
                "handed_out": analysis.rows,
                "told": told,
                "pending": 0,
                "abandoned": analysis.missing,
            },
            "left_out": analysis.ignored,
            "evidence": hypotheses_document(analysis.hypotheses),
            "claim": None if analysis.claim is None else analysis.claim._asdict(),
            "assumed": assumed_by_analysis(analysis),
            "as_good": [each._asdict() for each in analysis.as_good],
            "objections": [each._asdict() for each in analysis.objections],
            "family": analysis.family.name,
            "noise_sd": analysis.family.noise_sd,
            "low": analysis.limits[0] if analysis.family.name == "bounded" else None,
            "high": analysis.limits[1] if analysis.family.name == "bounded" else None,
            "tasks": list(analysis.names.tasks),
            "representations": list(analysis.names.representations),
            "predictors": list(analysis.names.predictors),
            "delta_g": analysis.delta_g,
            "delta_h": analysis.delta_h,
            "epsilon_g": analysis.epsilon[0],
            "epsilon_h": analysis.epsilon[1],
            "method": analysis.evidence,
            "decided_after": analysis.decided_after,
            "arms": [each._asdict() for each in analysis.arms],
            "of_tasks": dict(zip(analysis.names.tasks, analysis.of_tasks, strict=True)),
            "doubt": {**analysis.doubt._asdict(), "alarm": analysis.doubt.alarm},
            "remarks": list(analysis.remarks),
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the verdict, by which evidence, and where each hypothesis stands."""
        analysis = self.analysis
        after = "" if analysis.decided_after is None else f", after row {analysis.decided_after:,}"
        lines = [
            f"{printable(self.source)}: {analysis.verdict}{after} ({MEANINGS[analysis.verdict]})",
            _describe_rows(analysis),
            describe_answer("Answer" if analysis.verdict in ANSWERED else LEAST_EVIDENCE_GUESS, analysis.best),
            f"Evidence: {_EVIDENCE[analysis.evidence]}",
            f"This holds if {'; '.join(assumed_by_analysis(analysis))}",
            f"Accepted risks: {analysis.delta_g:g} (representation), {analysis.delta_h:g} (each predictor)"
            + describe_tolerance(*analysis.epsilon),
        ]
        if analysis.as_good:
            lines.insert(3, describe_as_good(analysis.as_good))
        chosen = chosen_of(analysis.best, analysis.names.predictors, analysis.epsilon)
        if chosen is not None and analysis.verdict == "undecided" and analysis.claim is not None:
            lines.insert(3, describe_claim(analysis.claim, chosen))
        elif chosen is not None and analysis.verdict in ANSWERED and not analysis.doubt.alarm:
            delta = analysis.delta_g if len(analysis.names.representations) > 1 else 0.0, analysis.delta_h
            lines.insert(3, printable(guarantee(chosen, analysis.verdict, delta, risk)))
        if analysis.doubt.alarm:
            lines.append(f"Alarm: {_ALARM[analysis.doubt.about].format(chance(analysis.doubt.log_evidence))}")
        if analysis.verdict == "no shared representation":
            lines.append(describe_objections(analysis.objections))
        if analysis.missing:
            worst = analysis.missing - analysis.ignored
            counted = [f"{worst:,} count by their worst reward"] if worst else []
            if analysis.ignored:
                counted.append(f"{analysis.ignored:,} are left out, because dropping out is declared to be ignorable")
            lines.append(f"{analysis.missing:,} of {analysis.rows:,} rows have no reward: {'; '.join(counted)}")
        lines += [printable(f"Note: {remark}") for remark in analysis.remarks]
        yield Text("\n".join(lines))
        yield HypothesesView(analysis.hypotheses, analysis.best.representation)
        yield ArmsView(analysis.arms, analysis.best, analysis.verdict in ANSWERED)


def _describe_rows(analysis: Analysis) -> str:
    """Say how much was read, so that a reader sees whether it is all there."""
    tasks, representations, predictors = analysis.names
    shown = [f"{task} {rows:,}" for task, rows in zip(tasks, analysis.of_tasks, strict=True)]
    more = [f"and {len(shown) - MAX_TASKS_LISTED:,} more"] if len(shown) > MAX_TASKS_LISTED else []
    counts = [
        count_noun(analysis.rows, "row"),
        count_noun(len(tasks), "task"),
        count_noun(len(representations), "representation"),
        count_noun(len(predictors), "predictor"),
    ]
    return printable(f"{', '.join(counts)}; rows by task: {', '.join(shown[:MAX_TASKS_LISTED] + more)}")
