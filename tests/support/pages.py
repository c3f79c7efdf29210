"""Studies in every state that a page has a wording for, and a browser to look at them."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from osrl.page.snapshot import PageSnapshot, snapshot_at
from osrl.study.study import Study
from tests.support.requirements import missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = os.environ.get("OSRL_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
DAY = 86_400 * 10**6
HOSTILE = ["<script>alert(1)</script>", "\u202eevil\u202c &amp; שלום", "🐆" * 30 + "x" * 170]

_SHARED = {
    "young": {"ibex": (0.95, 0.1), "lynx": (0.1, 0.1)},
    "old": {"ibex": (0.1, 0.95), "lynx": (0.1, 0.1)},
}
_APART = {
    "young": {"ibex": (0.95, 0.1), "lynx": (0.1, 0.1)},
    "old": {"ibex": (0.1, 0.1), "lynx": (0.1, 0.95)},
}
_EVEN = {"young": {"ibex": (0.5, 0.5), "lynx": (0.5, 0.5)}, "old": {"ibex": (0.5, 0.5), "lynx": (0.5, 0.5)}}

STATES = {
    "empty": "empty",
    "pending": "pending",
    "first": "first",
    "running": "running",
    "missing": "missing",
    "stale": "stale",
    "decided": "decided",
    "within": "within",
    "none": "none",
    "spent": "spent",
    "closed": "closed",
    "paused": "paused",
    "hostile": "running",
}


def begin(place: str, name: str, **changes: Any) -> Study:
    """Create a small study."""
    names: dict[str, Any] = {
        "tasks": ["young", "old"],
        "representations": ["ibex", "lynx"],
        "predictors": ["low", "high"],
    }
    return Study.create(place, name=name, **{**names, "delta": 0.1, "seed": 3, **changes})


def play(study: Study, trials: int, means: Any = _SHARED, task: str | None = None) -> None:
    """Ask and tell so many times, or until there is a verdict."""
    rng = random.Random(0)
    for _ in range(trials):
        if study.verdict != "running":
            return
        trial = study.ask(task)
        names = study.settings
        x, g, h = (
            of.index(each)
            for of, each in (
                (names.tasks, trial.task),
                (names.representations, trial.representation),
                (names.predictors, trial.predictor),
            )
        )
        chance = list(list(means.values())[x].values())[g % 2][h]
        study.tell(trial, rng.random() < chance)


def make_states(place: str) -> None:
    """Create one study for each of `STATES`."""
    begin(place, "empty").close()
    with begin(place, "pending") as study:
        study.ask(n=3)
    with begin(place, "first") as study:
        play(study, 4)
    for name in ("running", "stale"):
        with begin(place, name, delta=1e-9) as study:
            play(study, 60)
            study.ask(key="patient-17")
            study.abandon(study.ask(), reason="moved away")
    with begin(place, "missing") as study:
        play(study, 12, task="young")
    with begin(place, "decided") as study:
        play(study, 2000)
    with begin(place, "within", epsilon=0.9) as study:
        play(study, 2000, _EVEN)
    with begin(place, "none") as study:
        play(study, 3000, _APART)
    with begin(place, "spent", budget=20, delta=1e-6) as study:
        play(study, 20)
    with begin(place, "closed", delta=1e-6) as study:
        play(study, 30)
        study.close("the funds are spent", by="Ann")
    with begin(place, "paused", delta=1e-6) as study:
        play(study, 30)
        study.pause("the freezer is broken", by="Ann")
    hostile = {
        "tasks": HOSTILE[:2],
        "representations": HOSTILE,
        "predictors": ["<b>low</b>", '"><img src=x onerror=alert(1)>'],
    }
    with begin(place, "hostile", delta=1e-9, **hostile) as study:
        play(study, 60)
        study.ask(key="'\"><svg onload=alert(1)>")


def snapshot_of(place: str, name: str) -> PageSnapshot:
    """Return what the page of a study shows; for a stale one, three days later."""
    with Study.open(place, name) as study:
        snapshot = snapshot_at(study.events(), None)
    return snapshot._replace(at=snapshot.at + 3 * DAY) if name == "stale" else snapshot


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a Chromium; skip the test where there is none."""
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        missing("no Chromium is installed; set OSRL_CHROMIUM, or install the package chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield found
        finally:
            found.close()


class Complaints:
    """Everything that a browser complains about, and every request that leaves the server."""

    def __init__(self, page: Page, *homes: str) -> None:
        self.found: list[str] = []
        page.on("console", lambda message: self._console(message.type, message.text))
        page.on("pageerror", lambda error: self.found.append(str(error)))
        page.on("request", lambda request: self._request(request.url, homes))

    def _console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.found.append(text)

    def _request(self, url: str, homes: tuple[str, ...]) -> None:
        if not url.startswith((*homes, "file:", "data:")):
            self.found.append(f"request to {url}")
