"""Remarks on a study that can be run, and is perhaps not what was meant."""

from __future__ import annotations

from osrl.policies.contract import find
from osrl.study.log.events import Created


def remarks(settings: Created) -> list[str]:
    """What is odd about the settings, one sentence each."""
    found = []
    if len(settings.representations) == len(settings.predictors) == 1:
        found.append("there is only one arm, so the answer is known before the first trial; add arms to compare")
    risk = max(settings.delta_g, settings.delta_h)
    if risk > 0.5:
        found.append(f"a risk of {risk:g} is worse than tossing a coin; 0.05 or 0.1 is usual")
    by_bets = settings.family != "gaussian" and find(settings.policy).given_tasks
    if settings.seed is not None and by_bets:  # counts are valid whoever chooses the arms
        found.append(
            f"arms are drawn by seed {settings.seed}, which the log shows: whoever knows it and chooses the "
            "tasks can choose the arms, and for such tasks the risks are not kept; "
            "create a study without a seed"
        )
    return found
