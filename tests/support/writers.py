"""Processes that write into one study at the same time: some are killed, some are only in a hurry."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from typing import NoReturn

from osrl.study.log.events import Abandoned, Asked, Told
from osrl.study.study import Study
from tests.support.processes import forked

BATCH = 8  # writers that live at the same time, each killed at its own moment


def write_until_killed(study: Study, seed: int, acknowledged: int) -> NoReturn:
    """Ask, tell and abandon without end; write down in a pipe what was stored when each call had returned."""
    rng = random.Random(seed)
    while True:
        for trial in study.ask(n=rng.choice([1, 1, 1, 3])):
            os.write(acknowledged, f"ask {trial.id}\n".encode())
            kind = rng.choices(["tell", "abandon", "forget"], [20, 1, 1])[0]
            reward = rng.randrange(2)
            if kind == "tell":
                study.tell(trial, reward)
            if kind == "abandon":
                study.abandon(trial, ignorable=bool(reward))
            os.write(acknowledged, f"{kind} {trial.id} {reward}\n".encode())


def killed_writers(study: Study, place: str, rng: random.Random) -> list[str]:
    """Let writers work at the same time, kill each at its own moment; what they were promised."""
    reading, writing = os.pipe()

    def work(seed: int) -> None:
        # Half of them go on with the object of their parent, half open the study themselves.
        write_until_killed(study if seed % 2 else Study.open(place), seed, writing)

    pids = [forked(partial(work, rng.randrange(10**9))) for _ in range(BATCH)]
    os.close(writing)
    with os.fdopen(reading) as acknowledged:
        promised = []
        for pid in pids:
            promised += [acknowledged.readline() for _ in range(rng.randrange(12))]
            os.kill(pid, signal.SIGKILL)
            assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        return [line.rstrip("\n") for line in [*promised, *acknowledged]]


def stored(study: Study) -> set[str]:
    """Return what the log holds, in the words of the writers."""
    found = set()
    for each in study.events():
        match each.body:
            case Asked() as asked:
                found |= {f"ask {asked.trial}", f"forget {asked.trial} 0", f"forget {asked.trial} 1"}
            case Told() as told:
                found.add(f"tell {told.trial} {told.reward:g}")
            case Abandoned() as lost:
                found.add(f"abandon {lost.trial} {int(lost.ignorable)}")
    return found


def starve(place: str, seconds: float, writers: int) -> list[float]:
    """Return the longest call of each of many processes that write at once, in seconds."""
    reading, writing = os.pipe()

    def work(seed: int) -> None:
        with Study.open(place) as study:
            worst, end = 0.0, time.monotonic() + seconds
            study.tell(study.ask(), seed % 2)
            while time.monotonic() < end:
                began = time.monotonic()
                trial = study.ask()
                asked = time.monotonic()
                study.tell(trial, seed % 2)
                worst = max(worst, asked - began, time.monotonic() - asked)
            os.write(writing, f"{worst}\n".encode())

    pids = [forked(partial(work, i)) for i in range(writers)]
    os.close(writing)
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
    with os.fdopen(reading) as file:
        return [float(line) for line in file]
