"""Arguments and options that several commands share, and how their values are read."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from osrl.errors import OsrlError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

# Instances, risks and rewards

InstanceFile = Annotated[
    str, typer.Argument(metavar="FILE", help="An instance file (.toml or .json), or 'paper' for the paper's.")
]
Delta = Annotated[float | None, typer.Option(help="Both risks at once.  [default: 0.1]")]
DeltaG = Annotated[float | None, typer.Option(help="Accepted risk of a wrong representation.")]
DeltaH = Annotated[float | None, typer.Option(help="Accepted risk of a wrong predictor.")]
Epsilon = Annotated[
    float | None, typer.Option(metavar="E", help="Differences in means of up to E do not matter.  [default: 0]")
]
EpsilonG = Annotated[float | None, typer.Option(metavar="E", help="The same, for answers with another representation.")]
EpsilonH = Annotated[float | None, typer.Option(metavar="E", help="The same, for answers with another predictor.")]
NoiseSd = Annotated[float | None, typer.Option(help="Standard deviation of gaussian rewards.")]

# Studies

Place = Annotated[
    str,
    typer.Argument(
        metavar="DB", help="A SQLite file, the URL of a PostgreSQL database, or that of a server (http://...)."
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="The study, if the database holds several.")]
NewName = Annotated[str, typer.Option("--name", help="A name for the study.")]
By = Annotated[str | None, typer.Option("--by", metavar="WHO", help="Who does this, kept in the log.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="The reason, kept in the log.")]
RequiredReason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason, kept in the log.")]
CorrectionReason = Annotated[str, typer.Option(metavar="TEXT", help="Why the reward was wrong, kept in the log.")]
TrialArgument = Annotated[str, typer.Argument(metavar="TRIAL", help="The number of the trial, or its token.")]
RightReward = Annotated[str, typer.Argument(metavar="REWARD", help="The right reward.")]
Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help="The key with which the trial was asked for.")]
FromFile = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="FILE", help="Many at once, from a CSV or JSON Lines file, or - for standard input."
    ),
]
NameList = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME,...", help="Names separated by commas; or repeat the option for each."),
]


def key_value(given: str) -> tuple[str, Any]:
    """Read an option from key=value, where the value is a number, true, false, null or a text."""
    key, separator, value = given.partition("=")
    if not separator or not key:
        raise OsrlError(f"option is {given!r}; give key=value, such as reuse=true")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def split_commas(given: str | None) -> list[str] | None:
    """Split a list with commas."""
    return None if given is None else given.split(",")
