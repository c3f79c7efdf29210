"""Schemas of requests and answers, with examples."""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from osrl.service.tokens import TokenRecord
from osrl.study.settings import DEFAULT_NAME, DEFAULTS, CreateOptions

Text = Annotated[str, Field(max_length=10_000)]
Key = Annotated[str, Field(min_length=1, max_length=200)]
Scalar = str | int | float | bool | None
Number = bool | float
Names = Annotated[list[str], Field(min_length=1, max_length=10_000)] | Annotated[int, Field(ge=1, le=10_000)]


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


# Requests


class RequestModel(BaseModel):
    """The body of a request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


_AXES = ("tasks", "representations", "predictors")
_OPTIONS: dict[str, Any] = {
    name: (Names, ...) if name in _AXES else (hint, DEFAULTS.get(name))
    for name, hint in get_type_hints(CreateOptions).items()
}


class CreateRequest(create_model("CreateFields", __base__=RequestModel, **_OPTIONS)):  # type: ignore[misc]
    """A new study. ``task_attribute``: where an OpenFeature context has the task of its subject."""

    model_config = _example(
        name="prices", tasks=["young", "old"], representations=["A", "B"], predictors=["low", "high"], delta=0.05
    )

    name: Annotated[str, Field(min_length=1, max_length=1000)] = DEFAULT_NAME
    task_attribute: Annotated[str, Field(min_length=1, max_length=200)] = "segment"

    @property
    def axes(self) -> list[list[str] | int]:
        """Return tasks, representations and predictors: their names, or how many there are."""
        return [getattr(self, name) for name in _AXES]


class AskRequest(RequestModel):
    """The next trial, or ``n`` of them."""

    model_config = _example(task="young", key="patient-17")

    task: str | None = None
    n: int | None = None
    key: Key | None = None
    note: dict[str, Scalar] | None = None
    lease: str | None = None


class TrialReference(RequestModel):
    """One of many trials."""

    trial: int | str | None = None
    key: Key | None = None


class TellRow(TrialReference):
    """One of many rewards."""

    reward: Number
    harm: Number | None = None


class TellRequest(TellRow):
    """The reward of a trial, by its number, its token or its key."""

    model_config = _example(key="patient-17", reward=1)

    by: Text | None = None


class TellManyRequest(RequestModel):
    """Many rewards, all of them or none."""

    model_config = _example(rewards=[{"trial": 1, "reward": 1}])

    rewards: Annotated[list[TellRow], Field(max_length=10_000)]
    by: Text | None = None


class AbandonRequest(TrialReference):
    """A trial that will never report."""

    model_config = _example(trial=1, reason="moved away")

    ignorable: bool = False
    by: Text | None = None
    reason: Text | None = None


class AbandonManyRequest(RequestModel):
    """Many trials that will never report, all of them or none."""

    model_config = _example(trials=[{"trial": 1}, {"trial": 2}])

    trials: Annotated[list[TrialReference], Field(max_length=10_000)]
    ignorable: bool = False
    by: Text | None = None
    reason: Text | None = None


class TrackRequest(RequestModel):
    """The reward of the subject of an OpenFeature flag."""

    model_config = _example(targetingKey="user-1", reward=1)

    targetingKey: Key
    reward: Number
    harm: Number | None = None


class EvaluateRequest(BaseModel):
    """Whom a flag is evaluated for."""

    model_config = _example(context={"targetingKey": "user-1", "segment": "young"})

    context: dict[str, Any] = {}


class ReasonRequest(RequestModel):
    """The reason of something that is done to a study, kept in its log."""

    model_config = _example(reason="the freezer is broken")

    reason: Text
    by: Text | None = None


class OptionalReasonRequest(RequestModel):
    """The same, where a reason is not needed."""

    reason: Text | None = None
    by: Text | None = None


class CorrectRequest(ReasonRequest):
    """The right reward of a trial that was told wrong."""

    model_config = _example(trial=1, reward=0, reason="typo")

    trial: int | str
    reward: Number


class BudgetRequest(OptionalReasonRequest):
    """The largest number of trials, in all."""

    model_config = _example(budget=2000)

    budget: int


class ArmChangeRequest(ReasonRequest):
    """A representation, a predictor or a task that is withdrawn or added."""

    model_config = _example(representation="B", reason="rash")

    representation: str | None = None
    predictor: str | None = None
    task: str | None = None


class TokenRequest(RequestModel):
    """A token with a role, for one study or for all of them."""

    model_config = _example(role="read", study="prices")

    role: str
    study: str | None = None
    label: Text | None = None


# Answers


class ProblemDocument(BaseModel):
    """RFC 9457: what is wrong and what to do; ``type`` is the class of the Python error."""

    model_config = _example(
        type="StudyEnded",
        title="The study does not go on",
        status=409,
        detail="the study has ended (decided); read its verdict, or begin a new study",
    )

    type: str
    title: str
    status: int
    detail: str


class TrialDocument(BaseModel):
    """A trial that was handed out."""

    trial: int
    task: str
    representation: str
    predictor: str
    propensity: float | None
    token: str
    key: str | None
    note: dict[str, Scalar] | None


class TrialsDocument(BaseModel):
    """Several trials that were handed out at once."""

    trials: list[TrialDocument]


class RecordDocument(TrialDocument):
    """A trial with what became of it; times in microseconds since 1970 (UTC)."""

    status: str
    reward: float | None
    asked_at: int
    ended_at: int | None
    amended: float | None = None


class HistoryDocument(BaseModel):
    """Some trials of the history, and after which trial to go on; null at the end."""

    trials: list[RecordDocument]
    next: int | None


class ChangeDocument(BaseModel):
    """What is known after something was done to a study."""

    verdict: str
    head: str


class StoredDocument(ChangeDocument):
    """What was stored: it is on the disk. ``new``: whether it was not known before."""

    trial: int
    new: bool


class StoredManyDocument(ChangeDocument):
    """How many of many were new, and what is known now."""

    rows: int
    new: int


class SummaryDocument(BaseModel):
    """A study in a list."""

    study: str
    verdict: str
    handed_out: int
    told: int


class StudiesDocument(BaseModel):
    """The studies that the token may see."""

    studies: list[SummaryDocument]


class TokensDocument(BaseModel):
    """All tokens that may be seen."""

    tokens: list[TokenRecord]
