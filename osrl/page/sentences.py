"""The verdict in sentences that can be repeated, and what is guaranteed, in words."""

from __future__ import annotations

from typing import Any, NamedTuple

from osrl.page.format import listed, risk, share_of, things
from osrl.report.assumptions import describe_check
from osrl.report.claims import Chosen, claims_of, guarantee_of
from osrl.report.guess import arms_left, beaten, looks_best, without_result
from osrl.report.study import in_words

ANSWERED = ("decided", "decided within the tolerance")
OVER = (*ANSWERED, "no shared representation", "budget exhausted", "closed")
GUESS = 0.5  # risks from which on a claim is little more than a guess
FIRST = 3  # results for each arm up to which they are the first ones
QUIET_HOURS, QUIET_TIMES = 1, 10  # a study is stale after so many hours, and so many times the usual wait


class Sentence(NamedTuple):
    """A state of the study by name, a headline, and the sentences that follow it."""

    state: str
    headline: str
    more: tuple[str, ...]


def say(document: dict[str, Any], quiet: float | None, usual: float | None) -> Sentence:
    """What is to be said first; ``quiet``: seconds since the last result, ``usual``: between two of them."""
    said = _say(document, quiet, usual)
    margin, unchecked = document["model_check"], document["unchecked"]
    check = describe_check(margin, unchecked, document["verdict"], document["delta_g"])
    void = document["alarm"] is not None and document["alarm"]["void"]
    if check is None or void or not document["trials"]["told"]:
        return said
    return said._replace(more=(*said.more, f"{check}."))


def _say(document: dict[str, Any], quiet: float | None, usual: float | None) -> Sentence:
    verdict, best = document["verdict"], document["best"]
    arms = choice(document)
    if verdict == "decided":
        return Sentence(
            "decided",
            f"{winner(document)} is the best choice{arms}.",
            (_guarantee(document), _needs_no_more()),
        )
    if verdict == "decided within the tolerance":
        return Sentence(
            "within",
            f"{winner(document)} is a best choice{arms}, up to a small difference.",
            (_guarantee(document), _needs_no_more()),
        )
    if verdict == "no shared representation":
        return Sentence("none", "No single choice is the best everywhere.", _pulls_apart(document))
    if verdict == "budget exhausted":
        budget = things(document["budget"], "trial")
        spent = f"The budget of {budget} is spent without a decision."
        return Sentence("spent", spent, (_looks(document), *_claim(document)))
    if verdict == "closed":
        return Sentence("closed", "The study was closed before a decision.", (_looks(document), *_claim(document)))
    return _running(document, quiet, usual, best["representation"])


def _running(document: dict[str, Any], quiet: float | None, usual: float | None, leads: str | None) -> Sentence:
    trials, paused = document["trials"], document["paused"]
    if not trials["handed_out"] and paused is None:
        more = "Ask for the first one: it says what to try, and in which task."
        return Sentence("empty", "No trial has been handed out yet.", (more,))
    if not trials["told"]:
        out = things(trials["pending"], "trial is out", "trials are out")
        told = (
            f"{out}, and nothing has been reported yet." if trials["pending"] else "Nothing has been reported yet.",
        )
        headline = "Waiting for the first result." if paused is None else f"Paused: {paused}"
        return Sentence("pending" if paused is None else "paused", headline, told)
    missing = tuple(
        f"Nothing is known yet about {task}: no result has come from there." for task in document["without_data"]
    )
    looks = (_looks(document), *_claim(document), *(() if missing else _needs(document)))
    if paused is not None:
        resting = "No trials are handed out until the study is resumed; trials that are out may still report."
        return Sentence("paused", f"Paused: {paused}", (*looks, resting, *missing))
    if missing:
        where = listed(document["without_data"])
        return Sentence("missing", f"Not decided: there is no result yet from {where}.", looks)
    if quiet is not None and quiet > max(3600 * QUIET_HOURS, QUIET_TIMES * (usual or 0.0)):
        headline = f"Not decided, and no result has come for {in_words(quiet)}."
        return Sentence("stale", headline, (*looks, "Are results still being reported?"))
    nothing = document["claim"] is not None and document["claim"]["representation"] >= 1
    if nothing and trials["told"] < FIRST * len(document["arms"]):
        early = "It is too early to rule anything out."
        return Sentence("first", "The first results are in.", (f"{_looks(document)} {early}",))
    ahead = f"Not decided yet; {leads or 'no single choice'} leads."
    if leads is not None and not looks_best(arms_left(document), document["best"]):
        ahead = f"Not decided yet; the best guess is {leads}."
    return Sentence("running", ahead, looks)


def winner(document: dict[str, Any]) -> str:
    """The representation that is answered, or what each task has, where they differ."""
    best = document["best"]
    if best["representation"] is not None:
        return str(best["representation"])
    return listed([f"{g} in {task}" for task, g in best["representations"].items()])


def choice(document: dict[str, Any]) -> str:
    """What goes with the representation in each task, as the rest of a sentence."""
    tasks, best = document["tasks"], document["best"]["predictors"]
    everywhere = " in every task" if len(tasks) > 1 else ""
    if len(document["predictors"]) < 2:
        return everywhere
    names = set(best.values())
    if len(names) == 1:
        return f"{everywhere}, with {next(iter(names))}"
    return f"{everywhere}: {listed([f'with {best[task]} in {task}' for task in tasks])}"


def _looks(document: dict[str, Any]) -> str:
    """The guess, called what it is: what looks best, or what least speaks against."""
    best, arms = document["best"], arms_left(document)
    if not document["trials"]["told"]:
        return "Nothing is known yet."
    if any(each is None for each in best["representations"].values()):
        return "No choice looks best yet."
    over = document["verdict"] in OVER
    change = "" if over else ", and may change"
    sofar = "" if over else "So far "
    if looks_best(arms, best):
        return f"{sofar}{winner(document)} looks best{choice(document)}; this is a guess{change}."
    by_evidence = document["evidence"] and document["since"] == 1
    ahead = "the least evidence is against" if by_evidence else "the best guess is"
    ahead = f"{sofar}{ahead} {winner(document)}{choice(document)}; this is a guess{change}."
    said = [ahead[0].upper() + ahead[1:]]
    if lower := beaten(arms, best):
        said.append(f"In {listed(lower)} another choice has a higher mean.")
    if missing := [task for task in without_result(arms, best) if task not in document["without_data"]]:
        said.append(f"It has no result yet in {listed(missing)}.")
    return " ".join(said)


def _claim(document: dict[str, Any]) -> tuple[str, ...]:
    """What can be claimed: of a study that has ended, or if this one ended here."""
    claim, chosen = document["claim"], _chosen(document)
    if claim is None or chosen is None:
        return ()
    over = document["verdict"] in OVER
    can = "Nothing can" if over else "If it ended now, nothing could"
    claims = claims_of(chosen, claim["representation"], claim["predictors"])
    given = chosen.epsilon[0] == 0 and claim["representation"] > 0  # the others are said of what the first one says
    first = claims[0].risk if given else min(each.risk for each in claims)
    if first >= 1:
        return (f"{can} be claimed: the evidence is not there{'' if over else ' yet'}.",)
    if first >= GUESS:
        return (f"{can} be claimed at a risk below {risk(first)}.",)
    parts = [f"that {each.statement} (risk {risk(each.risk)})" for each in claims if each.risk < GUESS]
    can = "This can" if over else "If it ended now, this could"
    return (f"{can} be claimed: {'; '.join(parts)}.",)


def _chosen(document: dict[str, Any]) -> Chosen | None:
    """The answer or the guess that statements are about; None where tasks do not share a representation."""
    best = document["best"]
    if best["representation"] is None or None in best["predictors"].values():
        return None
    several = len(document["predictors"]) > 1
    epsilon = document["epsilon_g"], document["epsilon_h"]
    return Chosen(best["representation"], best["predictors"], several, epsilon)


def _needs(document: dict[str, Any]) -> tuple[str, ...]:
    """In which tasks it is settled what goes with the choice that leads, and which one lacks results most."""
    best = document["best"]
    leads, goes = best["representation"], best["predictors"]
    rivals: dict[str, list[float]] = {}  # of each task: how much of what rules out those that are possible is there
    for each in document["evidence"]:
        if each["predictor"] is not None and each["representation"] == leads:
            shares = rivals.setdefault(each["task"], [])
            if not each["rejected"] and each["predictor"] != goes[each["task"]]:
                shares.append(share_of(each["log_evidence"], each["limit"]))
    unsettled = [task for task, shares in rivals.items() if shares]
    if len(rivals) < 2 or not unsettled:
        return ()
    settled = [task for task, shares in rivals.items() if not shares]
    where = f"settled in {listed(settled)}, and open in {listed(unsettled)}" if settled else "open in every task"
    most = min(unsettled, key=lambda task: min(rivals[task]))
    told = sum(arm["told"] for arm in document["arms"] if arm["task"] == most)
    return (f"What goes with {leads} is {where}. {most} needs results most: it has {told:,} so far.",)


def _guarantee(document: dict[str, Any]) -> str:
    """The risk that was accepted, in words; nothing where an alarm has made it void."""
    if document["alarm"] is not None and document["alarm"]["void"]:
        return "No risk of being wrong is guaranteed any more: see the alarm."
    often = "This holds however often you have looked."
    shape = (len(document["tasks"]), len(document["representations"]), len(document["predictors"]))
    delta = document["delta_g"], document["delta_h"]
    said = guarantee_of(document["policy"], document["verdict"], _chosen(document), shape, delta, risk)
    return f"{said} {often}"


def _needs_no_more() -> str:
    return "The verdict is final: no later result can change it."


def _pulls_apart(document: dict[str, Any]) -> tuple[str, ...]:
    by_task: dict[str, list[str]] = {}
    for each in document["objections"]:
        by_task.setdefault(each["task"], []).append(each["representation"])
    parts = [f"{task} speaks against {listed(names)}" for task, names in by_task.items()]
    apart = (f"The tasks pull apart: {'; '.join(parts)}.",) if parts else ()
    chance = f"The chance that there is one after all is at most {risk(document['delta_g'])}."
    return (*apart, chance, "Each task needs a choice of its own: look at the rates below.")
