"""OpenFeature: a study as a feature flag, over the OpenFeature Remote Evaluation Protocol (OFREP).

The targeting key of an evaluation is the key of a trial, so that a subject keeps its arm; an attribute of the
context, named when the study was created (`segment`, if nothing was said), is its task. The variant is
``representation/predictor``, and the metadata name both. The reward comes by `track`.

When the study has ended, new subjects are given its answer, without a trial. While it is paused, nobody is
given anything: the caller goes on with its own default.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from osrl.errors import BudgetSpent, OsrlError, StudyEnded, StudyPaused, UnknownStudy
from osrl.service.context import Context, act, context_of
from osrl.service.models import EvaluateRequest
from osrl.service.problems import MEDIA_TYPE
from osrl.service.routes.read import attribute_of
from osrl.service.routing import Routes, grant_of, json_response
from osrl.service.tokens import OPERATE, Permission
from osrl.service.workers import Worker
from osrl.study.operations.ask import parse_ask
from osrl.study.operations.batch import ask_call
from osrl.study.study import Study

routes = Routes("/ofrep/v1/evaluate", tag="OpenFeature")

_WITHOUT_VALUE = {
    status: {"description": why, "content": {"application/json": {}, MEDIA_TYPE: {}}}
    for status, why in (("400", "the flag has no value for this context"), ("404", "there is no such flag"))
}


class _NoValue(Exception):  # noqa: N818 - it becomes an answer
    """An evaluation without a value, with the error code of OpenFeature."""

    def __init__(self, status: int, code: str, why: str) -> None:
        super().__init__(why)
        self.status, self.code = status, code


@routes.post("/flags/{name}", Permission(OPERATE), answer=dict[str, Any], optional_body=True, responses=_WITHOUT_VALUE)
async def evaluate(request: Request, name: str, body: EvaluateRequest) -> Response:
    """Return the arm of a subject: its trial, asked for when it is seen for the first time."""
    status, flag = await _evaluate(request, name, body.context)
    return json_response(flag, status)


@routes.post("/flags", Permission(OPERATE, "any"), answer=dict[str, Any], optional_body=True)
async def evaluate_all(request: Request, body: EvaluateRequest) -> Response:
    """Return the arms of a subject in every study that the token may operate."""
    context, grant = context_of(request), grant_of(request)
    names = await context.workers.read(context.storage.names)
    seen = [name for name in names if grant.allows(OPERATE, name)]
    flags = [(await _evaluate(request, name, body.context))[1] for name in seen]
    tag = f'"{hashlib.sha256(json.dumps(flags).encode()).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    response = json_response({"flags": flags})
    response.headers["ETag"] = tag
    return response


async def _evaluate(request: Request, name: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return a flag, and the HTTP status of an answer that has it alone."""
    try:
        return 200, {"key": name, **await _arm(request, name, given)}
    except _NoValue as error:
        return error.status, {"key": name, "errorCode": error.code, "errorDetails": str(error)}


async def _arm(request: Request, name: str, given: dict[str, Any]) -> dict[str, Any]:
    context = context_of(request)
    subject = given.get("targetingKey")
    if not isinstance(subject, str) or not subject:
        raise _NoValue(400, "TARGETING_KEY_MISSING", "the context has no targetingKey; give one for each subject")
    try:
        worker = await context.workers.worker(name)
        task = await _task(context, worker, given)
        call = ask_call(parse_ask(task, None, None, subject, None))
        (trial,) = await act(request, name, call)
    except UnknownStudy as error:
        raise _NoValue(404, "FLAG_NOT_FOUND", str(error)) from None
    except StudyPaused as error:
        raise _NoValue(400, "GENERAL", str(error)) from None
    except (StudyEnded, BudgetSpent):
        return await context.workers.look(name, lambda study: _answer(study, task))
    except OsrlError as error:
        if error.exit_code != OsrlError.exit_code:
            raise
        raise _NoValue(400, "INVALID_CONTEXT", str(error)) from None
    arm = _flag(trial.task, trial.representation, trial.predictor, "SPLIT")
    arm["metadata"].update(trial=trial.id, token=trial.token)
    return arm


async def _task(context: Context, worker: Worker, given: dict[str, Any]) -> str | None:
    """Return the task of a subject; None in a study that has only one."""
    if worker.task_attribute is None:
        worker.task_attribute = await context.workers.read(lambda: attribute_of(context, worker.study.name))
    task = given.get(worker.task_attribute)
    if isinstance(task, str):
        return task
    tasks = (await context.workers.read(lambda: worker.study.settings)).tasks
    if task is None and len(tasks) == 1:
        return None
    raise _NoValue(
        400,
        "INVALID_CONTEXT",
        f"{worker.task_attribute!r} of the context is {task!r:.50}; give the task of the subject, one of "
        f"{', '.join(map(repr, tasks))}",
    )


def _answer(study: Study, task: str | None) -> dict[str, Any]:
    """Return the arm that a study which has ended names for a task."""
    best = study.best
    where = task if task is not None else study.settings.tasks[0]
    if where not in best.predictors:
        raise _NoValue(400, "INVALID_CONTEXT", f"there is no task {where!r:.50} in this study")
    g, h = best.representations[where], best.predictors[where]
    if g is None or h is None:
        raise _NoValue(400, "GENERAL", "the study has ended without an answer for this task")
    return _flag(where, g, h, "STATIC")


def _flag(task: str, representation: str, predictor: str, reason: str) -> dict[str, Any]:
    variant = f"{representation}/{predictor}"
    about = {"task": task, "representation": representation, "predictor": predictor}
    return {"value": variant, "variant": variant, "reason": reason, "metadata": about}
