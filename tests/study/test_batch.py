"""Many calls in one transaction: the same answers and the same log as one by one, with fewer commits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from osrl.errors import BudgetSpent, OsrlError, RewardRefused, StudyEnded, UnknownTrial
from osrl.study.log.events import Asked, Told
from osrl.study.operations.ask import Redesign, parse_ask
from osrl.study.operations.batch import Call, abandon_call, ask_call, tell_call
from osrl.study.operations.session import WriteTransaction
from osrl.study.operations.tell import Abandonment, TellResult, parse_trial_ref
from osrl.study.storage.base import Log
from osrl.study.study import Study
from tests.support.studies import MEANS, assert_sound, new_study


def ask(task: str | None = None, key: str | None = None, n: int | None = None) -> Call:
    return ask_call(parse_ask(task, n, None, key, None))


def tell(trial: Any, reward: Any) -> Call:
    return tell_call(parse_trial_ref(trial, None), reward, None, None)


def commits(study: Study, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by one with every turn that is stored."""
    stored: list[int] = []
    hold = study._storage.lock_log

    def counted(*given: Any) -> Any:
        stored.append(1)
        return hold(*given)

    monkeypatch.setattr(study._storage, "lock_log", counted)
    return stored


@pytest.mark.parametrize("policy", ["tas", "osrl"])
def test_calls_share_a_turn_and_the_log_is_sound(place: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    with new_study(place, policy=policy, delta=1e-6) as study:
        count = commits(study, monkeypatch)
        out: list[Any] = []
        for _ in range(12):
            calls = [ask() for _ in range(8)]
            calls += [tell(t, rng.random() < MEANS[t.representation][t.predictor]) for t in out[:-1]]
            calls += [
                abandon_call(parse_trial_ref(t, None), Abandonment(policy == "tas", None, None)) for t in out[-1:]
            ]
            rng.shuffle(calls)
            answers = study.together(calls)
            assert not [each for each in answers if isinstance(each, Exception)]
            out = [
                trial
                for each in answers
                if isinstance(each, tuple) and each
                for trial in each
                if not isinstance(each, TellResult)
            ]
        assert study.trials == 96
        assert len(count) < 5 * 12 < 180  # calls; new weights take a turn of their own
        assert_sound(study)


def test_each_call_is_refused_by_itself(path: str) -> None:
    with new_study(path, budget=4) as study:
        first, second = study.ask(n=2)
        study.tell(second, 1)
        answers = study.together(
            [
                tell(first, 1),
                tell(second, 0),
                tell(99, 1),
                tell(first, 2),
                ask(n=3),
                ask(n=2),
                ask(),
                tell(first, 1),
            ],
        )
        kinds = [type(each) for each in answers]
        assert kinds == [
            TellResult,
            RewardRefused,
            UnknownTrial,
            RewardRefused,
            BudgetSpent,
            tuple,
            BudgetSpent,
            TellResult,
        ]
        assert (answers[0].new, answers[-1].new) == (True, False)
        told = [event.body.trial for event in study.events() if isinstance(event.body, Told)]
        assert sorted(told) == [1, 2]
        assert_sound(study)


def test_one_key_is_one_trial_even_in_one_turn(place: str) -> None:
    with new_study(place) as study:
        answers = study.together([ask(key="a"), ask(key="b"), ask(key="a"), ask(key="a")])
        (a,), (b,), *again = answers
        assert again == [(a,), (a,)] and a.id != b.id
        assert study.trials == 2


def test_a_verdict_ends_what_comes_after_it(path: str) -> None:
    with new_study(path, budget=1) as study:
        trial = study.ask()
        told, refused = study.together([tell(trial, 1), ask()])
        assert told.verdict == "budget exhausted" and told.head == study.head
        assert isinstance(refused, StudyEnded)


def test_a_call_that_breaks_off_takes_nobody_with_it(path: str) -> None:
    def torn(transaction: WriteTransaction, weights: Redesign) -> None:
        transaction.issue(transaction.state.choose(None))
        raise OsrlError("after a change")

    with new_study(path) as study:
        bad = Call(torn, asks=True)
        (first,), refused, (second,) = study.together([ask(), bad, ask()])
        assert (first.id, second.id) == (1, 2)
        assert str(refused) == "after a change"
        assert [event.trial for event in study.events() if isinstance(event.body, Asked)] == [1, 2]
        assert_sound(study)


def test_a_request_is_answered_once(path: str) -> None:
    known: dict[str, tuple[int, int]] = {}

    class Book:
        def recall(self, log: Log, request: str) -> tuple[int, int] | None:
            return known.get(request)

        def remember(self, log: Log, request: str, first: int, count: int) -> None:
            known[request] = first, count

    def call(n: int | None) -> Call:
        return ask_call(parse_ask(None, n, None, None, None), "r", Book())

    with new_study(path) as study:
        three, again = study.together([call(3), call(3)])
        assert [each.id for each in three] == [1, 2, 3] and again == three
        (other,) = study.together([call(2)])
        assert "something else" in str(other)
        assert study.trials == 3
