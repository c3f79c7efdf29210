"""What requests and answers look like: the schemas of the API, with examples."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(max_length=10_000)]
Key = Annotated[str, Field(min_length=1, max_length=200)]
Scalar = str | int | float | bool | None
Number = bool | float
Names = Annotated[list[str], Field(min_length=1, max_length=10_000)] | Annotated[int, Field(ge=1, le=10_000)]


class Body(BaseModel):
    """What a request may say; names that are not known are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Create(Body):
    """A new study. ``task_attribute``: where an OpenFeature context has the task of its subject."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "prices",
                    "tasks": ["young", "old"],
                    "representations": ["A", "B"],
                    "predictors": ["low", "high"],
                    "delta": 0.05,
                }
            ]
        }
    )

    name: Annotated[str, Field(min_length=1, max_length=1000)] = "study"
    tasks: Names
    representations: Names
    predictors: Names
    family: str = "bernoulli"
    noise_sd: float | None = None
    low: float | None = None
    high: float | None = None
    harm_limit: float | None = None
    delta: float | None = None
    delta_g: float | None = None
    delta_h: float | None = None
    epsilon: float | None = None
    epsilon_g: float | None = None
    epsilon_h: float | None = None
    model_check: float | None = None
    seed: int | None = None
    budget: int | None = None
    policy: str = "osrl"
    threshold: str | None = None
    options: dict[str, Any] | None = None
    task_attribute: Annotated[str, Field(min_length=1, max_length=200)] = "segment"

    @property
    def axes(self) -> tuple[Names, Names, Names]:
        """Tasks, representations and predictors: their names, or how many there are."""
        return self.tasks, self.representations, self.predictors


class Ask(Body):
    """The next trial, or ``n`` of them."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"task": "young", "key": "patient-17"}]})

    task: str | None = None
    n: int | None = None
    key: Key | None = None
    note: dict[str, Scalar] | None = None
    lease: str | None = None


class Tell(Body):
    """The reward of a trial, by its number, its token or its key."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"key": "patient-17", "reward": 1}]})

    trial: int | str | None = None
    key: Key | None = None
    reward: Number
    harm: Number | None = None
    by: Text | None = None


class Row(Body):
    """One of many rewards."""

    trial: int | str | None = None
    key: Key | None = None
    reward: Number
    harm: Number | None = None


class TellMany(Body):
    """Many rewards, all of them or none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rewards": [{"trial": 1, "reward": 1}]}]})

    rewards: Annotated[list[Row], Field(max_length=10_000)]
    by: Text | None = None


class Abandon(Body):
    """A trial that will never report."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"trial": 1, "reason": "moved away"}]})

    trial: int | str | None = None
    key: Key | None = None
    ignorable: bool = False
    by: Text | None = None
    reason: Text | None = None


class Which(Body):
    """One of many trials."""

    trial: int | str | None = None
    key: Key | None = None


class AbandonMany(Body):
    """Many trials that will never report, all of them or none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"trials": [{"trial": 1}, {"trial": 2}]}]})

    trials: Annotated[list[Which], Field(max_length=10_000)]
    ignorable: bool = False
    by: Text | None = None
    reason: Text | None = None


class Track(Body):
    """The reward of the subject of an OpenFeature flag."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"targetingKey": "user-1", "reward": 1}]})

    targetingKey: Key
    reward: Number
    harm: Number | None = None


class Correct(Body):
    """The right reward of a trial that was told wrong."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"trial": 1, "reward": 0, "reason": "typo"}]})

    trial: int | str
    reward: Number
    reason: Text
    by: Text | None = None


class Why(Body):
    """The reason of something that is done to a study, kept in its log."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the freezer is broken"}]})

    reason: Text
    by: Text | None = None


class Whether(Body):
    """The same, where a reason is not needed."""

    reason: Text | None = None
    by: Text | None = None


class Budget(Body):
    """The largest number of trials, in all."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"budget": 2000}]})

    budget: int
    reason: Text | None = None
    by: Text | None = None


class Arm(Body):
    """A representation, a predictor or a task that is withdrawn or added."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"representation": "B", "reason": "rash"}]})

    representation: str | None = None
    predictor: str | None = None
    task: str | None = None
    reason: Text
    by: Text | None = None


class NewToken(Body):
    """A token with a role, for one study or for all of them."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"role": "read", "study": "prices"}]})

    role: str
    study: str | None = None
    label: Text | None = None


# Answers ---------------------------------------------------------------------------------------------


class Problem(BaseModel):
    """RFC 9457: what is wrong and what to do; ``type`` is the class of the Python error."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "StudyEnded",
                    "title": "The study does not go on",
                    "status": 409,
                    "detail": "the study has ended (decided); read its verdict, or begin a new study",
                }
            ]
        }
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


class PageDocument(BaseModel):
    """Some trials of the history, and after which trial to go on; null at the end."""

    trials: list[RecordDocument]
    next: int | None


class DoneDocument(BaseModel):
    """What was stored: it is on the disk. ``new``: whether it was not known before."""

    trial: int
    new: bool
    verdict: str
    head: str


class ManyDocument(BaseModel):
    """How many of many were new, and what is known now."""

    rows: int
    new: int
    verdict: str
    head: str


class LifeDocument(BaseModel):
    """What is known after something was done to a study."""

    verdict: str
    head: str


class SummaryDocument(BaseModel):
    """A study in a list."""

    study: str
    verdict: str
    handed_out: int
    told: int


class StudiesDocument(BaseModel):
    """The studies that the token may see."""

    studies: list[SummaryDocument]


class TokenDocument(BaseModel):
    """A token, without its secret."""

    id: str
    role: str
    study: str | None
    everywhere: bool
    label: str | None
    at: int
    revoked_at: int | None


class TokensDocument(BaseModel):
    """All tokens that may be seen."""

    tokens: list[TokenDocument]


class SecretDocument(BaseModel):
    """A new token: it is shown this once."""

    id: str
    token: str
