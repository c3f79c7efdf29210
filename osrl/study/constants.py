"""The constants of the evidence: written down when a study begins, and used from there ever after.

A later version of the package may bet otherwise. A study goes on with the bets that it began with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from osrl.errors import OsrlError, StorageDamaged
from osrl.evidence.betting import FAR, check_bets
from osrl.evidence.pairs import check_tilts
from osrl.evidence.watch import LEVEL
from osrl.families import Family
from osrl.hypotheses.possible import CLEAR, PATIENCE, Hypotheses, new_hypotheses
from osrl.hypotheses.shared import APART
from osrl.study.events import Created, to_lists

WATCH = "watch.level"  # absent from studies that were begun before losses were watched
_NOT_WRITTEN = {"apart": 0.5, "clear": 12.0, "patience": 0.02, "far": 40.0}  # by osrl 0.1, which used these


def constants_of(state: Any) -> dict[str, Any]:
    """Every constant of the evidence of a new state; none for policies with evidence of their own."""
    constants = {name: to_lists(np.asarray(value)) for name, value in _parts(state).items()}
    return constants | ({WATCH: LEVEL} if constants and state.hypotheses.noise == 0 else {})


def set_constants(state: Any, created: Created) -> None:
    """Let a new state judge as the study did when it began; refused where this program cannot."""
    if not created.evidence:
        return
    parts, evidence = _parts(state), {**_NOT_WRITTEN, **created.evidence}
    if parts.keys() != evidence.keys() - {WATCH}:
        raise _refusal(created, "other kinds of evidence")
    for name, value in parts.items():
        kept = np.array(evidence[name], np.asarray(value).dtype)
        if kept.shape != np.shape(value):
            raise _refusal(created, f"{kept.size} numbers {name}; this one has {np.size(value)}")
        if isinstance(value, np.ndarray):
            value[...] = kept
        elif kept != value:
            raise _refusal(created, f"{name} = {kept}; this one has {value}")
    _check(state.hypotheses, created)


def _check(hypotheses: Hypotheses, created: Created) -> None:
    """Refuse constants in a log with which no study could have begun: they would break the risk."""
    fresh = new_hypotheses(
        (len(created.tasks), len(created.representations), len(created.predictors)),
        Family(created.family, created.noise_sd),
        (created.delta_g, created.delta_h),
        epsilon=(created.epsilon_g, created.epsilon_h),
    )
    for own, right in (
        (hypotheses.limits, fresh.limits),
        (hypotheses.tolerance.limits, fresh.tolerance.limits),
    ):
        if not np.allclose(own, right, rtol=1e-12, atol=0.0):
            raise StorageDamaged(
                f"the log has limits {own.tolist()}, and risks whose limits are {right.tolist()}; "
                "restore it from a backup"
            )
    if not 0 < created.evidence.get(WATCH, LEVEL) < 1:
        raise StorageDamaged(f"the log has {WATCH} = {created.evidence[WATCH]}; restore it from a backup")
    try:
        with np.errstate(over="ignore"):  # what is infinite is refused
            for bets in (hypotheses.bets, hypotheses.tolerance.bets):
                if bets.beta.size > 1:
                    check_bets(bets)
            check_tilts(hypotheses.tilts)
    except OsrlError as error:
        raise StorageDamaged(f"the log begins with constants that break the risk: {error}") from None


def _parts(state: Any) -> dict[str, Any]:
    """Arrays and numbers, by name."""
    hypotheses: Hypotheses | None = getattr(state, "hypotheses", None)
    if hypotheses is None:
        return {}
    bets, tilts, tolerance = hypotheses.bets, hypotheses.tilts, hypotheses.tolerance
    within = {
        "tolerance.limits": tolerance.limits,
        "tolerance.beta": tolerance.bets.beta,
        "tolerance.local": tolerance.bets.local,
    }
    return {
        **(within if tolerance.within.size else {}),
        "limits": hypotheses.limits,
        "bets.beta": bets.beta,
        "bets.task": bets.task,
        "bets.shared": bets.shared,
        "bets.local": bets.local,
        "bets.shrinkage": bets.shrinkage,
        "bets.safe": bets.safe,
        "tilts.half": tilts.half,
        "tilts.weight": tilts.weight,
        "tilts.mixture": tilts.mixture,
        "apart": APART,
        "clear": CLEAR,
        "patience": PATIENCE,
        "far": FAR,
    }


def _refusal(created: Created, what: str) -> OsrlError:
    began = created.versions.get("osrl", "unknown")
    return OsrlError(f"the study was begun by osrl {began} with {what}; go on with that version")
