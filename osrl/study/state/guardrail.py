"""What the limit of harm does to a study: it withdraws, or pauses where nothing else would be left."""

from __future__ import annotations

from osrl.study.log.events import ArmsChanged, Created, Paused
from osrl.study.state.state import StudyState

RULE = "the limit of harm"  # who has withdrawn an arm by rule


def next_by_harm_limit(progress: StudyState) -> ArmsChanged | Paused | None:
    """What the rule does now, after a harm was told; None if nothing."""
    if progress.verdict is not None or progress.harm is None or (found := progress.harm.found()) is None:
        return None
    axis, name = found
    reason = f"{axis} {name}: more harm than {progress.created.harm_limit:g} on average"
    left = names_without(progress.created, 2 if axis == "predictor" else 1, name)
    if left is not None:
        _, representations, predictors = left
        return ArmsChanged(representations, predictors, reason, RULE)
    return Paused(reason, RULE) if progress.paused is None else None


def names_without(created: Created, axis: int, name: str) -> list[list[str]] | None:
    """The tasks, representations and predictors that are left; None where nothing is left to compare."""
    left = [list(created.tasks), list(created.representations), list(created.predictors)]
    left[axis].remove(name)
    return left if all(left) and max(map(len, left[1:])) > 1 else None
