"""Waiting: short, fair, and with an end; nothing slow happens while others wait."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from osrl.errors import StorageBusy
from osrl.policies.contract import find
from osrl.policies.round import wants_design
from osrl.study.fold import Fold
from osrl.study.study import Study
from tests.studies import assert_sound, new_study, play
from tests.writers import starve


def test_nobody_waits_while_weights_are_solved_for(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One ask solves for long; another process tells meanwhile, and the weights are solved for again."""
    with new_study(place, policy="osrl", delta=1e-6) as study, Study.open(place) as other:
        play(study, 10)
        waiting = list(other.ask(n=8))
        solve, told = Fold.solve, []

        def slow(fold: Fold) -> Any:
            if wants_design(fold.state):
                began = time.monotonic()
                other.tell(waiting.pop(), 1)  # would wait for ever if the log were held
                told.append(time.monotonic() - began)
            return solve(fold)

        monkeypatch.setattr(Fold, "solve", slow)
        monkeypatch.setattr("osrl.study.weights.QUICK", 0.0)
        while len(told) < 2:
            study.tell(study.ask(), 0)
        assert max(told) < 5
        monkeypatch.undo()
        play(study, 5)
        assert study.verify().ok
        assert any("time for new weights, but there are none" in note for note in study.verify().notes)


def test_an_ask_in_peace_uses_what_was_solved_for_outside(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_study(path, policy="osrl", delta=1e-6) as study:
        held: list[bool] = []
        design: Any = find("osrl").design

        def watched(state: Any) -> None:
            held.append(bool(study._session._writing._is_owned()))  # type: ignore[attr-defined]
            design(state)

        monkeypatch.setitem(find("osrl").__dict__, "design", watched)
        play(study, 20)
        assert held and not any(held)
        assert study.verify().notes == ()


def test_a_reader_does_not_wait_for_a_writer_of_its_own_process(place: str) -> None:
    """One thread waits until another process lets go of the log; another thread looks at the same object."""
    with new_study(place, policy="uniform") as study, Study.open(place) as other:
        play(study, 3)
        with other._session.turn():
            thread = threading.Thread(target=lambda: study.tell(study.ask(), 1))
            thread.start()
            time.sleep(0.2)
            began = time.monotonic()
            assert study.status.told == 3 and study.verdict == "running" and len(study.history) == 3
            assert time.monotonic() - began < 2
            assert thread.is_alive()
        thread.join()
        assert study.status.told == 4


def test_waiting_ends_with_an_error_of_its_own(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osrl.study.place.WAIT", 0.1)
    with new_study(place) as study, Study.open(place) as other:
        with other._session.turn(), pytest.raises(StorageBusy, match="writing for too long") as caught:
            study.ask()
        assert caught.value.exit_code == 4


def test_turns_are_fair(path: str) -> None:
    with new_study(path, policy="uniform", delta=1e-9) as study:
        play(study, 3)
        worst = starve(path, 3.0, 12)
        assert len(worst) == 12 and max(worst) < 5, worst
        assert_sound(study)
