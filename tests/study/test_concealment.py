"""Allocation concealment: nobody knows the arm of a trial before it is handed out."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from osrl.cli import main
from osrl.report.sentences import remarks
from osrl.study.log.chain import read_event
from osrl.study.log.events import SECRET_BITS, Asked, Event
from osrl.study.state.bulk_replay import MIN_BLOCK
from osrl.study.study import Study
from osrl.study.views.verify import verify
from tests.support.memory_study import MemoryStudy
from tests.support.studies import NAMES, chained, late_and_lost, play
from tests.validation.attacks import allowed, foreseen_arms

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
RUNS = 12


def test_who_chooses_tasks_by_the_next_arm_cannot_rule_out_what_is_true() -> None:
    """Where the arms follow from a seed that the status shows, it is 12 of 12."""
    assert sum(foreseen_arms(None, seed)[1] for seed in range(RUNS)) <= allowed(RUNS)


def test_with_a_given_seed_the_attack_succeeds() -> None:
    """What a seed gives up, and that the attack is one."""
    shares, ruled_out = zip(*(foreseen_arms(seed, seed) for seed in range(RUNS)), strict=True)
    assert sum(ruled_out) == RUNS
    assert min(shares) > 0.95  # but for weights that are solved for between the guess and the ask


@pytest.mark.parametrize("task", ["x1", None])
def test_bits_draw_each_arm_by_its_probability(task: str | None) -> None:
    """So the bits of the trials before say nothing about the next arm."""
    study, trials, hits = MemoryStudy(tasks=2, representations=2, predictors=2, policy="uniform"), 400, 0
    draws = random.Random(1)
    for _ in range(trials):
        asked = study.ask(task, bits=draws.getrandbits(SECRET_BITS))
        hits += study.arm(asked) == (0, 1, 0)
        study.tell(asked.trial, 0.0)
    chance = 1 / 4 if task else 1 / 8
    assert binom.ppf(1e-6, trials, chance) <= hits <= binom.isf(1e-6, trials, chance)


def test_every_trial_has_fresh_bits_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which neither the log nor the seed of any generator in the process foretells."""
    study = MemoryStudy(tasks=2, representations=2, predictors=2, policy="uniform")
    random.seed(1)
    bits = [study.ask("x1").bits for _ in range(20)]
    random.seed(1)
    bits += [study.ask("x1").bits for _ in range(20)]
    assert None not in bits
    assert len(set(bits)) == 40
    monkeypatch.setattr("osrl.study.state.state.secrets.randbits", lambda count: 2**count - 1)
    assert study.ask("x1").bits == 2**SECRET_BITS - 1


def begin(path: Path, **changes: Any) -> Study:
    return Study.create(str(path), **{**NAMES, "policy": "uniform", "delta": 1e-3, **changes})


def test_nothing_that_is_shown_draws_the_arms_to_come(tmp_path: Path, capsys: Capture) -> None:
    place = tmp_path / "secret.db"
    with begin(place) as study:
        assert study.settings.seed is None
        assert remarks(study.settings) == []
        trials = study.ask("young", n=3)
        asked = [event.body for event in study._session.events() if isinstance(event.body, Asked)]
        assert len({one.bits for one in asked}) == len(trials)
    assert main(["study", "status", str(place), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seed"] is None
    assert main(["study", "status", str(place)]) == 0
    assert "seed" not in capsys.readouterr().out


def test_a_given_seed_says_what_it_gives_up(tmp_path: Path, capsys: Capture) -> None:
    place = str(tmp_path / "open.db")
    names = ["--tasks", "a,b", "--representations", "A,B", "--predictors", "low,high"]
    assert main(["study", "create", place, *names, "--seed", "7"]) == 0
    assert "arms are drawn by seed 7" in capsys.readouterr().out
    assert main(["study", "status", place, "--json"]) == 0
    assert "can choose the arms" in json.loads(capsys.readouterr().out)["remarks"][0]
    with Study.open(place) as study:
        assert study.ask("a").id == 1
        assert remarks(replace(study.settings, family="gaussian", noise_sd=1.0)) == []  # counts
        assert all(event.body.bits is None for event in study._session.events() if event.trial)  # type: ignore[union-attr]
        assert '"bits"' not in "".join(event.payload for event in study._session.events())


@pytest.mark.parametrize("seed", [None, 7])
def test_a_copy_foretells_the_arms_only_where_there_is_a_seed(seed: int | None, tmp_path: Path) -> None:
    """Both an exported log and a backup; equal by chance with probability 4^-40."""
    log, backup = tmp_path / "log.jsonl", tmp_path / "backup.db"
    with begin(tmp_path / "a.db", seed=seed) as study:
        play(study, 10)
        study.write_log(log)
        assert main(["study", "backup", str(tmp_path / "a.db"), str(backup)]) == 0
        arms = [(one.representation, one.predictor) for one in study.ask("young", n=40)]
    with Study.read_log(str(tmp_path / "b.db"), log) as copy, Study.open(str(backup)) as saved:
        for other in (copy, saved):
            foretold = [(one.representation, one.predictor) for one in other.ask("young", n=40)]
            assert (foretold == arms) == (seed is not None)


def test_one_key_is_one_draw(tmp_path: Path) -> None:
    with begin(tmp_path / "keys.db") as study:
        first = study.ask("young", key="patient-17")
        assert all(study.ask("young", key="patient-17") == first for _ in range(20))


@pytest.mark.parametrize("policy", ["uniform", "osrl", "tas"])
def test_a_log_of_secret_draws_replays(policy: str, tmp_path: Path) -> None:
    """With trials that overlap and ones that do not, after opening it again, and in a copy."""
    place, file = tmp_path / "a.db", tmp_path / "log.jsonl"
    with begin(place, policy=policy, delta=1e-30) as study:
        late_and_lost(study, 40)
        play(study, MIN_BLOCK + 20)
    with Study.open(str(place)) as study:
        study.ask()
        assert study.verify().problems == ()
        study.write_log(file)
        drawn = [event.body for event in study._session.events() if isinstance(event.body, Asked)]
        assert all((one.bits is None) == (one.propensities is None) for one in drawn)
    with Study.read_log(str(tmp_path / "b.db"), file) as twin:
        assert twin.verify().problems == ()
        play(twin, 5)
        assert twin.verify().problems == ()


@pytest.fixture
def log(tmp_path: Path) -> list[Event]:
    """A long one, in which every trial is told before the next is asked for."""
    with begin(tmp_path / "long.db") as study:
        play(study, MIN_BLOCK + 5)
        return list(study._session.events())


def changed(log: list[Event], seed: int | None = None, **changes: Any) -> tuple[str, ...]:
    """What is wrong with a log whose tenth ask, or seed, is another one."""
    bodies: list[Any] = [event.body for event in log]
    tenth = [i for i, body in enumerate(bodies) if isinstance(body, Asked)][9]
    if seed is not None:
        bodies[0] = replace(bodies[0], seed=seed)
    bodies[tenth] = replace(bodies[tenth], **changes)
    return verify(chained(*(event._replace(body=body) for event, body in zip(log, bodies, strict=True)))).problems


def test_another_draw_is_found_out(log: list[Event]) -> None:
    assert changed(log) == ()
    tenth = [event.body for event in log if isinstance(event.body, Asked)][9]
    assert tenth.bits is not None
    assert "was handed out, by replay" in changed(log, bits=(tenth.bits + 2**52) % 2**53)[0]
    assert "has no bits that drew its arm" in changed(log, bits=None)[0]
    assert "though a seed or nothing has drawn" in changed(log, seed=7)[0]


def test_bits_that_are_none_are_refused(log: list[Event]) -> None:
    asked = next(event for event in log if isinstance(event.body, Asked))
    for bits in (-1, 2**53, 0.5, True, "7"):
        payload = json.dumps({**json.loads(asked.payload), "bits": bits})
        with pytest.raises(Exception, match="cannot be read"):
            read_event(asked.seq, asked.at, "ask", payload)
    assert read_event(asked.seq, asked.at, "ask", asked.payload).body == asked.body
