"""Trials that wait: those that have not reported, and those that have ended before an earlier one has."""

from __future__ import annotations

import math
from typing import NamedTuple

from osrl.model.arrays import Floats
from osrl.study.log.events import Asked

LOST, LEFT_OUT = math.nan, math.inf  # in place of a reward: it counts at its worst, or not at all


class Pending(NamedTuple):
    """A trial that has not reported: task, arm of the task, when it was handed out (microseconds since
    1970), what its reward will be judged with, the hash of the event that handed it out, how its arm was
    drawn (empty where losses are not watched), what that event says, and the stage of the study then.
    """

    x: int
    a: int
    at: int
    ticket: Floats
    hash: str
    draw: Floats
    asked: Asked
    stage: int


class EndedTrial(NamedTuple):
    """A trial that waits for an earlier one: task, arm, ticket, and its reward, or `LOST`, or `LEFT_OUT`."""

    x: int
    a: int
    ticket: Floats
    reward: float
