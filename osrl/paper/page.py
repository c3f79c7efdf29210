"""The report: one page with every table and figure, and what the published numbers were made with."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from osrl.paper.results import Result
from osrl.report.html import Page, Section, text

TITLE = "The paper's experiments, published and run again"
PAPER = "On the Sample Complexity of Representation Learning in Multi-task Bandits with Global and Local Structure"
MADE_WITH = (
    "In the authors' released code the function for beta_1 returns nothing, so that phase 1 stops at beta_2 "
    "alone: sooner than the theorem allows, and without its guarantee.",
    "Its mirror ascent stops when two successive values agree (to a relative 1e-5), long before the "
    "weights have converged: a sample spent as printed in Table 2 is worth about a fifth less than one spent "
    "in the best way. So the optimal weights make phase 1 shorter than published, and the theorem's "
    "threshold makes it longer.",
    "Weights are recomputed after 13 rounds of tracking, sigma is not used, and phase 1 is cut after 20,001 "
    "rounds. None of this changes the numbers much. Phase 2 and track-and-stop are as described.",
)


def page_of(parts: Sequence[Result], runs: int, seed: int, summary: str) -> str:
    """The report on ``parts``, as HTML."""
    page = Page(TITLE)
    sections = [
        Section(
            part.title,
            [
                *map(text, part.text),
                *(grid.html() for grid in part.grids),
                *map(page.figure, part.figures),
            ],
        )
        for part in parts
    ]
    sections.append(Section("What the published numbers were made with", [*map(text, MADE_WITH)]))
    introduction = [
        text(f"{PAPER}: its tables and figures again, with every published number beside ours."),
        text(summary),
    ]
    made = f"Made by osrl {version('osrl')}: {runs:,} runs, seed {seed}."
    footer = f"{made} The numbers are also in the CSV files beside this page."
    return page.render(introduction, sections, footer)
