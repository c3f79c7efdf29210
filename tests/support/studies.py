"""Small studies for tests: how they are made and played, and what is true of every sound one."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from osrl.policies.registry import find
from osrl.policies.state_arrays import differences
from osrl.study.log.chain import link
from osrl.study.log.events import Asked, Event, Told
from osrl.study.state.bulk_replay import apply_all
from osrl.study.state.state import StudyState
from osrl.study.study import Study

NAMES: dict[str, Any] = {
    "tasks": ["young", "old"],
    "representations": ["A", "B"],
    "predictors": ["low", "high"],
}
MEANS = {"A": {"low": 0.9, "high": 0.2}, "B": {"low": 0.3, "high": 0.1}}
EARLY = Path(__file__).parents[1] / "data" / "schema1"  # written before events had hashes


def new_study(place: str, **changes: Any) -> Study:
    """Create a small study with a cheap policy."""
    return Study.create(place, **{**NAMES, "policy": "tas", "seed": 7, "delta": 0.2, **changes})


def play(study: Study, trials: int = 100_000, seed: int = 0, means: Any = MEANS) -> None:
    """Ask and tell so many times, or until there is a verdict."""
    rng = random.Random(seed)
    for _ in range(trials):
        if study.verdict != "running":
            return
        trial = study.ask()
        study.tell(trial, rng.random() < means[trial.representation][trial.predictor])


def late_and_lost(study: Study, rounds: int, seed: int = 3, means: Any = MEANS) -> None:
    """Ask in batches, in arrived tasks and not; tell late, in any order; abandon some."""
    rng = random.Random(seed)
    any_task = find(study.settings.policy).given_tasks
    tasks = [None, *study.settings.tasks] if any_task else [None]
    waiting: list[Any] = []
    for _ in range(rounds):
        if study.verdict != "running":
            return
        if rng.random() < 0.5:
            waiting += study.ask(rng.choice(tasks), n=rng.randrange(1, 5))
        rng.shuffle(waiting)
        for trial in waiting[: rng.randrange(4)]:
            waiting.remove(trial)
            if rng.random() < 0.15:
                study.abandon(trial, ignorable=not any_task or rng.random() < 0.5)
            else:
                study.tell(trial, rng.random() < means[trial.representation][trial.predictor])


def load_kernels(folder: Path, policy: str = "tas") -> None:
    """Play a little elsewhere, with trials that overlap: children that are forked afterwards are warm."""
    with new_study(str(folder / "warm.db"), policy=policy, delta=1e-6) as study:
        late_and_lost(study, 20)


@contextmanager
def held(study: Study) -> Iterator[None]:
    """Hold the log of a study in another thread until the end of the block."""
    begun, free = threading.Event(), threading.Event()

    def hold() -> None:
        with study._storage.lock_log(study._session.number):
            begun.set()
            free.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        free.set()
        thread.join()


def closed(study: Study, path: str) -> bytes:
    """Close a SQLite study, and return the bytes of its file."""
    study.close()
    return Path(path).read_bytes()


def chained(*events: Event, after: Event | None = None) -> list[Event]:
    """Return events with their hashes, one after the other."""
    found, head = [], "" if after is None else after.hash
    for event in events:
        head = link(head, event.seq, event.at, event.kind, event.payload)
        found.append(event._replace(hash=head))
    return found


def folded(study: Study) -> StudyState:
    """Return the state of a study by its log alone, without a snapshot."""
    events = list(study.events())
    progress = StudyState(events[0].body)  # type: ignore[arg-type]
    progress.last = events[0]
    apply_all(progress, events[1:])
    return progress


def assert_sound(study: Study) -> None:
    """Check that the log is whole, and that the state is that of an undisturbed run with the same log."""
    events = list(study.events())
    assert [each.seq for each in events] == list(range(len(events)))
    asked = [each.body.trial for each in events if isinstance(each.body, Asked)]
    assert asked == list(range(1, len(asked) + 1))
    told = [each.body.trial for each in events if isinstance(each.body, Told)]
    assert len(told) == len(set(told))
    verification = study.verify()
    assert verification.ok, verification.problems
    assert verification.exact and verification.largest_difference == 0.0
    undisturbed = folded(study)
    with study._session.reading() as progress:
        held, expected = dict(progress.arrays()), dict(undisturbed.arrays())
        assert differences(held, expected) == []
        assert repr(progress.pending) == repr(undisturbed.pending)
        assert (progress.asked, progress.told, progress.verdict) == (
            undisturbed.asked,
            undisturbed.told,
            undisturbed.verdict,
        )
