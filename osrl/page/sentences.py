"""The verdict of a study in sentences that can be repeated, with its guarantee in words."""

from __future__ import annotations

from typing import NamedTuple

from osrl.report.claims import chosen_by, claims_of, guarantee_by
from osrl.report.numbers import count_noun, duration, join_words, risk_percent
from osrl.report.sentences import check_of
from osrl.study.views.evidence import share_of_limit
from osrl.study.views.status import Status

GUESS_RISK = 0.5  # risk from which on a claim is little more than a guess
FIRST_RESULTS = 3  # results for each arm up to which they are the first ones
QUIET_TIME, QUIET_WAITS = 3600 * 10**6, 10  # a study is stale after so many microseconds, and so many usual waits


class Sentence(NamedTuple):
    """A state of the study by name, a headline, and the sentences that follow it."""

    state: str
    headline: str
    more: tuple[str, ...]


def headline(status: Status, quiet: float | None, usual: float | None) -> Sentence:
    """Return what is to be said first.

    ``quiet``: microseconds since the last result, ``usual``: between two of them.
    """
    said = _verdict(status) or _running(status, quiet, usual)
    check = check_of(status)
    return said if check is None else said._replace(more=(*said.more, f"{check}."))


def _verdict(status: Status) -> Sentence | None:
    """Return the sentences of a study that is over."""
    final = "The verdict is final: no later result can change it."
    winner, arms = winner_text(status), arms_text(status)
    match status.verdict:
        case "decided":
            return Sentence("decided", f"{winner} is the best choice{arms}.", (_guarantee(status), final))
        case "decided within the tolerance":
            near = f"{winner} is a best choice{arms}, up to a small difference."
            return Sentence("within", near, (_guarantee(status), final))
        case "no shared representation":
            return Sentence("none", "No single choice is the best everywhere.", _conflict(status))
        case "budget exhausted":
            budget = count_noun(status.settings.budget or 0, "trial")
            spent = f"The budget of {budget} is spent without a decision."
            return Sentence("spent", spent, (_guess(status), *_claim(status)))
        case "closed":
            return Sentence("closed", "The study was closed before a decision.", (_guess(status), *_claim(status)))
    return None


def _running(status: Status, quiet: float | None, usual: float | None) -> Sentence:
    paused, leads = status.paused, status.best.representation
    if not status.handed_out and paused is None:
        more = "Ask for the first one: it says what to try, and in which task."
        return Sentence("empty", "No trial has been handed out yet.", (more,))
    if not status.told:
        out = count_noun(status.waiting, "trial is out", "trials are out")
        told = f"{out}, and nothing has been reported yet." if status.waiting else "Nothing has been reported yet."
        title = "Waiting for the first result." if paused is None else f"Paused: {paused}"
        return Sentence("pending" if paused is None else "paused", title, (told,))
    missing = tuple(
        f"Nothing is known yet about {task}: no result has come from there." for task in status.without_data
    )
    looks = (_guess(status), *_claim(status), *(() if missing else _needs(status)))
    if paused is not None:
        resting = "No trials are handed out until the study is resumed; trials that are out may still report."
        return Sentence("paused", f"Paused: {paused}", (*looks, resting, *missing))
    if missing:
        where = join_words(status.without_data)
        return Sentence("missing", f"Not decided: there is no result yet from {where}.", looks)
    if quiet is not None and quiet > max(QUIET_TIME, QUIET_WAITS * (usual or 0.0)):
        title = f"Not decided, and no result has come for {duration(quiet)}."
        return Sentence("stale", title, (*looks, "Are results still being reported?"))
    nothing = status.claim is not None and status.claim.representation >= 1
    if nothing and status.told < FIRST_RESULTS * len(status.arms):
        early = "It is too early to rule anything out."
        return Sentence("first", "The first results are in.", (f"{_guess(status)} {early}",))
    ahead = f"Not decided yet; {leads or 'no single choice'} leads."
    if leads is not None and not status.looks_best:
        ahead = f"Not decided yet; the best guess is {leads}."
    return Sentence("running", ahead, looks)


def winner_text(status: Status) -> str:
    """Name the representation that is answered, or that of each task, where they differ."""
    best = status.best
    if best.representation is not None:
        return best.representation
    return join_words([f"{g} in {task}" for task, g in best.representations.items()])


def arms_text(status: Status) -> str:
    """Name what goes with the representation in each task, as the rest of a sentence."""
    tasks, best = status.settings.tasks, status.best.predictors
    everywhere = " in every task" if len(tasks) > 1 else ""
    if len(status.settings.predictors) < 2:
        return everywhere
    names = set(best.values())
    if len(names) == 1:
        return f"{everywhere}, with {next(iter(names))}"
    return f"{everywhere}: {join_words([f'with {best[task]} in {task}' for task in tasks])}"


def _guess(status: Status) -> str:
    """Call the guess what it is: what looks best, or what has the least evidence against it."""
    if not status.told:
        return "Nothing is known yet."
    if None in status.best.representations.values():
        return "No choice looks best yet."
    change = "" if status.is_over else ", and may change"
    sofar = "" if status.is_over else "So far "
    winner, arms = winner_text(status), f"{arms_text(status)}; this is a guess{change}."
    if status.looks_best:
        return f"{sofar}{winner} looks best{arms}"
    by_evidence = status.hypotheses and status.since == 1
    ahead = f"{sofar}{'the least evidence is against' if by_evidence else 'the best guess is'} {winner}{arms}"
    said = [ahead[0].upper() + ahead[1:]]
    if lower := status.beaten_in:
        said.append(f"In {join_words(lower)} another choice has a higher mean.")
    if missing := status.guess_without_result:
        said.append(f"It has no result yet in {join_words(missing)}.")
    return " ".join(said)


def _claim(status: Status) -> tuple[str, ...]:
    """Say what can be claimed: of a study that has ended, or if this one ended here."""
    claim, chosen, over = status.claim, chosen_by(status), status.is_over
    if claim is None or chosen is None:
        return ()
    can = "Nothing can" if over else "If it ended now, nothing could"
    claims = claims_of(chosen, claim.representation, claim.predictors)
    given = chosen.epsilon[0] == 0 and claim.representation > 0  # the other claims presuppose the first one
    first = claims[0].risk if given else min(each.risk for each in claims)
    if first >= 1:
        return (f"{can} be claimed: the evidence is not there{'' if over else ' yet'}.",)
    if first >= GUESS_RISK:
        return (f"{can} be claimed at a risk below {risk_percent(first)}.",)
    parts = [f"that {each.statement} (risk {risk_percent(each.risk)})" for each in claims if each.risk < GUESS_RISK]
    can = "This can" if over else "If it ended now, this could"
    return (f"{can} be claimed: {'; '.join(parts)}.",)


def _needs(status: Status) -> tuple[str, ...]:
    """Say in which tasks the predictor of the leader is settled, and which task lacks results most."""
    leads, goes = status.best.representation, status.best.predictors
    rivals: dict[str, list[float]] = {}  # task -> shares of the limit of the predictors that are still possible
    for each in status.hypotheses:
        if each.task is not None and each.representation == leads:
            shares = rivals.setdefault(each.task, [])
            if not each.rejected and each.predictor != goes[each.task]:
                shares.append(share_of_limit(each))
    unsettled = [task for task, shares in rivals.items() if shares]
    if len(rivals) < 2 or not unsettled:
        return ()
    settled = [task for task, shares in rivals.items() if not shares]
    where = "open in every task"
    if settled:
        where = f"settled in {join_words(settled)}, and open in {join_words(unsettled)}"
    most = min(unsettled, key=lambda task: min(rivals[task]))
    told = sum(arm.told for arm in status.arms if arm.task == most)
    return (f"What goes with {leads} is {where}. {most} needs results most: it has {told:,} so far.",)


def _guarantee(status: Status) -> str:
    """Say the risk that was accepted; nothing is guaranteed where an alarm has made it void."""
    if status.is_void:
        return "No risk of being wrong is guaranteed any more: see the alarm."
    return f"{guarantee_by(status, risk_percent)} This holds however often you have looked."


def _conflict(status: Status) -> tuple[str, ...]:
    by_task: dict[str, list[str]] = {}
    for each in status.objections:
        by_task.setdefault(each.task, []).append(each.representation)
    parts = [f"{task} speaks against {join_words(names)}" for task, names in by_task.items()]
    apart = (f"The tasks pull apart: {'; '.join(parts)}.",) if parts else ()
    chance = f"The chance that there is one after all is at most {risk_percent(status.settings.delta_g)}."
    return (*apart, chance, "Each task needs a choice of its own: look at the rates below.")
