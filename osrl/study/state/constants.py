"""The constants of the evidence: written down when a study begins, and used from there ever after.

A later version of the package may bet otherwise. A study goes on with the bets that it began with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from osrl.errors import OsrlError, StorageDamaged
from osrl.evidence.betting import NEGLIGIBLE_LOG, check_bets
from osrl.evidence.exponential_tilts import Tilts, check_tilts
from osrl.evidence.missingness import MISSINGNESS_LEVEL
from osrl.hypotheses.product import SEPARATE_SHARE
from osrl.hypotheses.state import MIN_CLEAR_SAMPLES, RECOUNT_GROWTH, Hypotheses, new_hypotheses
from osrl.hypotheses.trials import LOG_STEP
from osrl.model.arrays import Floats
from osrl.model.families import Family
from osrl.policies.contract import Criterion, Problem
from osrl.policies.stopping.per_task import PerTaskStopping
from osrl.policies.stopping.per_task_test import track_and_stop_terms
from osrl.policies.stopping.sharp_counts import SharpCounts
from osrl.policies.stopping.transfer import TransferStopping
from osrl.policies.stopping.two_phase import TwoPhaseStopping
from osrl.policies.stopping.two_phase import new as new_phases
from osrl.study.log.events import Created, to_lists
from osrl.study.state.in_order import MAX_PASSED, MAX_TAKEN

T = TypeVar("T")

TOLERANCE_LIMITS, CHECK_LIMITS = "tolerance.limits", "check.limits"
WATCH = "watch.level"  # absent from studies that were begun before losses were watched
CONTEST_RISK = "contests.risk"  # absent from studies of `tas` that were begun when it looked at delta_g alone
# The same where pending trials were counted one by one, and passed all at once.
PENDING_SUMS = {"late.step": LOG_STEP, "late.passed": MAX_PASSED, "late.taken": MAX_TAKEN}
_TILTS = tuple(f"tilts.{name}" for name in ("up", "down", "pair", "task", "local", "shares", "by_pairs"))
_HALF, _WEIGHT, _MIXTURE = "tilts.half", "tilts.weight", "tilts.mixture"  # of osrl 0.1
# By osrl 0.1, which used these (and did not look at vectors).
_NOT_WRITTEN = {"apart": 0.5, "clear": 12.0, "patience": 0.02, "far": 40.0, "looks": 50.0}


def constants_of(state: Any) -> dict[str, Any]:
    """Return every constant of the evidence of a new state; none for policies that use none."""
    if isinstance(state.stopping, PerTaskStopping | TransferStopping):
        return {CONTEST_RISK: "smaller"}
    tilts = tilts_of(state)
    if tilts is None:
        return {}
    written = dict(zip(_TILTS, (*tilts.grid, tilts.shares, tilts.by_pairs), strict=True))
    constants = {name: to_lists(np.asarray(value)) for name, value in (_parts(state) | written).items()}
    hypotheses = _find(state, Hypotheses)
    return constants | (
        {WATCH: MISSINGNESS_LEVEL, **PENDING_SUMS} if hypotheses is not None and hypotheses.noise == 0 else {}
    )


def set_constants(state: Any, created: Created) -> Any:
    """Return a new state that judges as the study did when it began; refuse where this program cannot."""
    if isinstance(state.stopping, PerTaskStopping | TransferStopping):
        _set_contest_risk(state.stopping, created)
        return state
    if tilts_of(state) is None or (not created.evidence and _find(state, Hypotheses) is not None):
        return state
    parts, evidence = _parts(state), {**_NOT_WRITTEN, **created.evidence}
    tilts = _read_tilts(evidence, created)
    others = {name for name in evidence if not name.startswith("tilts.") and name not in (WATCH, *PENDING_SUMS)}
    if _find(state, Hypotheses) is not None and parts.keys() != others:
        raise _refusal(created, "other kinds of evidence")
    for name, value in PENDING_SUMS.items():
        if PENDING_SUMS.keys() & evidence.keys() and evidence.get(name) != value:
            raise _refusal(created, f"{name} = {evidence.get(name)}; this one has {value}")
    for name, value in parts.items():
        kept = np.array(evidence[name], np.asarray(value).dtype)
        if kept.shape != np.shape(value):
            raise _refusal(created, f"{kept.size} numbers {name}; this one has {np.size(value)}")
        if isinstance(value, np.ndarray):
            value[...] = kept
        elif kept != value:
            raise _refusal(created, f"{name} = {kept}; this one has {value}")
    _check(_find(state, Hypotheses), _find(state, TwoPhaseStopping), tilts, created)
    return _with_tilts(state, tilts)


def _set_contest_risk(stopping: PerTaskStopping | TransferStopping, created: Created) -> None:
    """Set the risk of a task's answer: the smaller of both, or delta_g as in studies that were begun before."""
    if CONTEST_RISK not in created.evidence:
        arms = len(created.representations) * len(created.predictors)
        noise = Family(created.family, created.noise_sd).noise
        stopping.threshold[...] = track_and_stop_terms(arms, (created.delta_g,), noise)


def _read_tilts(evidence: Mapping[str, Any], created: Created) -> Tilts:
    """Return the tilts of a log. Those of osrl 0.1 were the same up and down, and only for pairs of arms."""
    if _TILTS[0] in evidence:
        if any(name not in evidence for name in _TILTS):
            raise _refusal(created, "other kinds of tilts")
        *rows, shares, by_pairs = (evidence[name] for name in _TILTS)
        return Tilts(np.array(rows, float), np.array(shares, float), bool(by_pairs))
    if _HALF in evidence:
        half, weight = np.array(evidence[_HALF], float), np.array(evidence[_WEIGHT], float)
        mixture = float(evidence[_MIXTURE])
    else:  # not written where the paper's algorithm stopped by counts
        beta = np.geomspace(0.1, 1.6, 5)
        half = 0.5 * beta * (1.0 if created.noise_sd is None else 0.5 / created.noise_sd)
        weight, mixture = np.log(0.85 * beta**-0.5 / (beta**-0.5).sum()), math.log1p(-0.85)
    none = np.full(half.size, -math.inf)
    shares = [[mixture, -math.inf], [0.0, -math.inf], [0.0, -math.inf]]
    return Tilts(np.stack([half, half, weight, none, none]), np.array(shares), True)


def _check(hypotheses: Hypotheses | None, phases: TwoPhaseStopping | None, tilts: Tilts, created: Created) -> None:
    """Refuse constants in a log with which no study could have begun: they would break the risk."""
    if hypotheses is not None:
        _check_limits(hypotheses, created)
    elif phases is not None:
        _check_limits_of(phases, created)
    if hypotheses is not None and not 1 <= hypotheses.looks < math.inf:
        raise StorageDamaged(f"the log has looks = {hypotheses.looks}; restore it from a backup")
    if not 0 < created.evidence.get(WATCH, MISSINGNESS_LEVEL) < 1:
        raise StorageDamaged(f"the log has {WATCH} = {created.evidence[WATCH]}; restore it from a backup")
    try:
        with np.errstate(over="ignore"):  # what is infinite is refused
            for part in () if hypotheses is None else (hypotheses, hypotheses.tolerance, hypotheses.check):
                if part is not None and part.bets.beta.size > 1:
                    check_bets(part.bets)
            check_tilts(tilts)
    except OsrlError as error:
        raise StorageDamaged(f"the log begins with constants that break the risk: {error}") from None


def _check_limits(hypotheses: Hypotheses, created: Created) -> None:
    """Refuse limits in a log that are not those of its risks."""
    fresh = new_hypotheses(
        (len(created.tasks), len(created.representations), len(created.predictors)),
        Family(created.family, created.noise_sd),
        (created.delta_g, created.delta_h),
        epsilon=created.tolerances,
        margin=created.margin,
    )
    _compare(hypotheses.limits, fresh.limits)
    _compare(hypotheses.tolerance.limits, fresh.tolerance.limits)
    if hypotheses.check is not None and fresh.check is not None:
        _compare(hypotheses.check.limits, fresh.check.limits)


def _check_limits_of(phases: TwoPhaseStopping, created: Created) -> None:
    """Refuse limits of the paper's algorithm that are not those of its risks."""
    shape = len(created.tasks), len(created.representations), len(created.predictors)
    criterion = Criterion(created.threshold, created.delta_g, created.delta_h)
    family = Family(created.family, created.noise_sd)
    fresh = new_phases(Problem(shape, family, (criterion,), created.tolerances), 0.0)
    right = _limits_of(fresh)
    for name, own in _limits_of(phases).items():
        _compare(own, right[name])


def _compare(own: Floats, right: Floats) -> None:
    """Refuse limits that are not the right ones."""
    if not np.allclose(own, right, rtol=1e-12, atol=0.0):
        raise StorageDamaged(
            f"the log has limits {own.tolist()}, and risks whose limits are {right.tolist()}; restore it from a backup"
        )


def _find(state: Any, kind: type[T]) -> T | None:
    """Return the part of a state that is of this kind."""
    for part in state:
        if isinstance(part, kind):
            return part
        found = _find(part, kind) if hasattr(part, "_fields") else None
        if found is not None:
            return found
    return None


def tilts_of(state: Any) -> Tilts | None:
    """Return the tilts with which a state judges, if it does."""
    hypotheses, counting = _find(state, Hypotheses), _find(state, SharpCounts)
    if hypotheses is not None:
        return hypotheses.tilts
    return counting.tilts if counting is not None and counting.wanted else None


def _with_tilts(state: Any, tilts: Tilts) -> Any:
    """Return the same state with other tilts, wherever it has some."""
    parts = {
        name: tilts if isinstance(part, Tilts) else _with_tilts(part, tilts)
        for name, part in zip(state._fields, state, strict=True)
        if hasattr(part, "_fields")
    }
    return state._replace(**parts)


def _parts(state: Any) -> dict[str, Any]:
    """Return arrays and numbers other than tilts, by name."""
    hypotheses = _find(state, Hypotheses)
    if hypotheses is None:
        return {"patience": RECOUNT_GROWTH, **_limits_of(_find(state, TwoPhaseStopping))}
    bets, tolerance = hypotheses.bets, hypotheses.tolerance
    within = {
        TOLERANCE_LIMITS: tolerance.limits,
        "tolerance.beta": tolerance.bets.beta,
        "tolerance.local": tolerance.bets.local,
    }
    check = hypotheses.check
    checked: dict[str, Any] = {}
    if check is not None:
        checked = {CHECK_LIMITS: check.limits, "check.beta": check.bets.beta, "check.local": check.bets.local}
    return {
        **(within if tolerance.within.size else {}),
        **checked,
        "limits": hypotheses.limits,
        "bets.beta": bets.beta,
        "bets.task": bets.task,
        "bets.shared": bets.shared,
        "bets.local": bets.local,
        "bets.shrinkage": bets.shrinkage,
        "bets.safe": bets.safe,
        "apart": SEPARATE_SHARE,
        "clear": MIN_CLEAR_SAMPLES,
        "patience": RECOUNT_GROWTH,
        "far": NEGLIGIBLE_LOG,
        "looks": hypotheses.looks,
    }


def _limits_of(phases: TwoPhaseStopping | None) -> dict[str, Floats]:
    """Return the limits of the paper's algorithm where it stops by counts with a tolerance, by name."""
    if phases is None or not phases.phase2.near.within.size:
        return {}
    second = phases.phase2
    return {
        TOLERANCE_LIMITS: second.near.limits,
        "limits.g": phases.counting.limit,
        "limits.h": second.counting.limit,
    }


def _refusal(created: Created, what: str) -> OsrlError:
    began = created.versions.get("osrl", "unknown")
    return OsrlError(f"the study was begun by osrl {began} with {what}; go on with that version")
