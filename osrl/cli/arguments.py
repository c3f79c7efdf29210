"""Arguments that several commands read in the same way."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from osrl.errors import OsrlError

Tolerance = Annotated[
    float | None,
    typer.Option(metavar="E", help="Differences in means of up to E do not matter.  [default: 0]"),
]
ToleranceG = Annotated[
    float | None, typer.Option(metavar="E", help="The same, for answers with another representation.")
]
ToleranceH = Annotated[float | None, typer.Option(metavar="E", help="The same, for answers with another predictor.")]


def key_value(given: str) -> tuple[str, Any]:
    """An option from key=value, where the value is a number, true, false, null or a text."""
    key, separator, value = given.partition("=")
    if not separator or not key:
        raise OsrlError(f"option is {given!r}; give key=value, such as reuse=true")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
