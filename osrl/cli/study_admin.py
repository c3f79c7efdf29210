"""`osrl study`: pause, resume, close, raise the budget, withdraw or add arms."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from osrl.cli.open_study import opened
from osrl.cli.options import By, Json, Name, Place, Reason, RequiredReason
from osrl.cli.output import print_result
from osrl.cli.study import app

if TYPE_CHECKING:
    from osrl.cli.open_study import AnyStudy

Representation = Annotated[str | None, typer.Option(metavar="NAME", help="A representation.")]
Predictor = Annotated[str | None, typer.Option(metavar="NAME", help="A predictor, with every representation.")]
Task = Annotated[str | None, typer.Option(metavar="NAME", help="A task.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before evidence begins again.")]


@app.command()
def pause(place: Place, reason: RequiredReason, by: By = None, name: Name = None, as_json: Json = False) -> None:
    """Hand out no more trials until `resume`. Trials that are still out may be told."""
    _change(place, name, as_json, "the study is paused", lambda study: study.pause(reason, by=by))


@app.command()
def resume(place: Place, reason: Reason = None, by: By = None, name: Name = None, as_json: Json = False) -> None:
    """Hand out trials again after a pause."""
    _change(place, name, as_json, "the study goes on", lambda study: study.resume(reason, by=by))


@app.command()
def close(place: Place, reason: RequiredReason, by: By = None, name: Name = None, as_json: Json = False) -> None:
    """End the study with its best guess. Results that come later are stored, but change nothing."""
    _change(place, name, as_json, "the study is closed", lambda study: study.close(reason, by=by))


@app.command("raise-budget")
def raise_budget(
    place: Place,
    budget: Annotated[int, typer.Argument(metavar="N", help="The new largest number of trials, in all.")],
    reason: Reason = None,
    by: By = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Allow more trials before the budget is exhausted."""
    done = f"the budget is {budget:,} trials"
    _change(place, name, as_json, done, lambda study: study.raise_budget(budget, reason=reason, by=by))


@app.command()
def withdraw(
    place: Place,
    reason: RequiredReason,
    representation: Representation = None,
    predictor: Predictor = None,
    task: Task = None,
    yes: Yes = False,
    by: By = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Withdraw a representation, a predictor or a task. Only later trials count as evidence."""
    choice = {"representation": representation, "predictor": predictor, "task": task}
    name_of = representation or predictor or task
    done = f"{name_of} is withdrawn; {_confirm_new_stage(place, name, ask=not (yes or as_json))}"
    _change(place, name, as_json, done, lambda study: study.withdraw(**choice, reason=reason, by=by))


@app.command()
def add(
    place: Place,
    reason: RequiredReason,
    representation: Representation = None,
    predictor: Predictor = None,
    task: Task = None,
    yes: Yes = False,
    by: By = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Add a representation, a predictor or a task. Only later trials count as evidence."""
    choice = {"representation": representation, "predictor": predictor, "task": task}
    name_of = representation or predictor or task
    done = f"{name_of} is added; {_confirm_new_stage(place, name, ask=not (yes or as_json))}"
    _change(place, name, as_json, done, lambda study: study.add(**choice, reason=reason, by=by))


def _confirm_new_stage(place: str, name: str | None, ask: bool) -> str:
    """Describe the evidence after something is withdrawn or added; ask a person first."""
    with opened(place, name) as study:
        summary = study.summary
        results = int(summary["told"])
        since, stages = (int(summary.get(key, 1)) for key in ("since", "stages"))  # older servers do not say
        if since > 1:
            history = study.history
            results = int(((history["trial"] >= since) & (history["status"] == "told")).sum())
    which = f"the {results:,} results {'so far' if since == 1 else 'of this stage'} are no evidence from"
    if ask and results and sys.stdin.isatty():
        typer.confirm(f"evidence begins again: {which} then on; go on?", abort=True)
    from osrl.report.sentences import describe_stages

    return f"only trials handed out from now on count as evidence: {which} now on; {describe_stages(stages + 1)}"


def _change(place: str, name: str | None, as_json: bool, done: str, change: Callable[[AnyStudy], None]) -> None:
    """Change the study, and print what was done."""
    with opened(place, name) as study:
        change(study)
        verdict, head = study.verdict, study.head
    document = {"done": done, "verdict": verdict, "head": head}
    print_result(as_json, document, f"{done}; verdict: {verdict}", f"head of the log: {head}")
