"""A web study whose results are late: two processes ask and tell while thousands of trials are out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from osrl.study.study import Study
from tests.support.studies import MEANS
from tests.torture.base import Found, folder

# Hands out visitors, and tells their results when so many others came after them; to the verdict.
SERVE = """
import collections, json, random, sys, time
from osrl.errors import OsrlError, StudyEnded
from osrl.study.study import Study

place, seed, window, means = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
rng, out, told, longest = random.Random(seed), collections.deque(), 0, 0.0

def timed(call, *given, **named):
    global longest
    began = time.monotonic()
    answer = call(*given, **named)
    longest = max(longest, time.monotonic() - began)
    return answer

error = None
try:
    with Study.open(place) as study:
        while study.verdict == "running":
            out.extend(timed(study.ask, n=10))
            while len(out) > window:
                trial = out.popleft()
                timed(study.tell, trial, rng.random() < means[trial.representation][trial.predictor])
                told += 1
except StudyEnded:
    pass
except OsrlError as refused:
    error = f"{type(refused).__name__}: {refused}"
print(json.dumps({"told": told, "longest": longest, "error": error}))
"""


def late_results(count: int) -> Found:
    """Keep so many trials pending at any time, half of them in each of two processes with default settings."""
    environment = {name: value for name, value in os.environ.items() if name != "OSRL_COMPILE"}
    with folder() as where:
        place = str(where / "web.db")
        names = {"tasks": ["young", "old"], "representations": list(MEANS), "predictors": ["low", "high"]}
        began = time.monotonic()
        with Study.create(place, **names, delta=0.05) as study:  # type: ignore[arg-type]
            words = [str(count // 2), json.dumps(MEANS)]
            both = [
                subprocess.Popen(
                    [sys.executable, "-c", SERVE, place, str(seed), *words],
                    env=environment, stdout=subprocess.PIPE, text=True,
                )
                for seed in (1, 2)
            ]  # fmt: skip
            found = [json.loads(each.communicate(timeout=3600)[0]) for each in both]
            ended = study.verdict == "decided" and study.best.representation == "A"
            sound = ended and study.trials >= count and study.verify().ok
        errors = [each["error"] for each in found if each["error"] is not None]
        longest = max(each["longest"] for each in found)
        said = "; ".join(errors) or (
            f"{sum(each['told'] for each in found):,} results to the verdict, longest call {longest:.1f} s, "
            f"{time.monotonic() - began:.0f} s in all"
        )
        return Found(count, count if sound and not errors else 0, said)
