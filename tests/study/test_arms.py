"""Rates: intervals that hold at the worst moment, with losses, and never contradict a verdict."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from osrl.evidence.intervals import mean_intervals
from osrl.study.state.totals import SUM, TOLD
from osrl.study.study import Study
from osrl.study.views.arms import COVERAGE, ArmRate, estimate_arms, reconcile
from tests.support.commands import Capture, printed
from tests.support.memory_study import MemoryStudy
from tests.support.studies import late_and_lost, new_study, play

STUDIES, ROUNDS = 2000, 200
MEANS = np.array([0.5, 0.45, 0.1, 0.9])
LEVEL = 1 - COVERAGE
Intervals = Callable[[Any, Any, Any, float, float], tuple[Any, Any]]


def wald(number: Any, least: Any, most: Any, level: float, noise: float) -> tuple[Any, Any]:
    """The interval of the textbook, for a number of rewards that was fixed in advance: wrong here."""
    from scipy.stats import norm

    n = np.maximum(number, 1.0)
    low, high = least / n, most / n
    sd = np.sqrt(noise) if noise else np.sqrt(np.maximum(low * (1 - high), 0.01))
    radius = norm.isf(level / 2) * sd / np.sqrt(n) + (number < 5) * 10.0
    return low - radius, high + radius


def forgetful(number: Any, least: Any, most: Any, level: float, noise: float) -> tuple[Any, Any]:
    """Leaves out what is missing, though it is missing for a reason."""
    return mean_intervals(number - (most - least), least, least, level, noise)


def missed(intervals: Intervals, noise: float, loss: bool, seed: int = 0) -> int:
    """Of 2,000 studies, in how many some interval is wrong at some moment.

    The adversary sees everything, always samples the arm that is closest to being wrong, and stops there.
    With ``loss`` two of three failures of arms 0 and 2 never report, nor two of three successes of others.
    """
    rng = np.random.default_rng(seed)
    rows = np.arange(STUDIES)
    number, least, most = (np.zeros((STUDIES, 4)) for _ in range(3))
    margin = np.full((STUDIES, 4), -np.inf)  # how far the interval is beyond the truth
    wrong = np.zeros(STUDIES, bool)
    for round_ in range(ROUNDS):
        arm = margin.argmax(axis=1) if round_ >= 4 else np.full(STUDIES, round_)
        truth = MEANS[arm]
        coins = (rng.random(STUDIES) < truth).astype(float)
        reward = coins if noise == 0 else rng.normal(truth, np.sqrt(noise))
        lost = loss & (coins == np.isin(arm, (1, 3))) & (rng.random(STUDIES) < 2 / 3)
        number[rows, arm] += 1.0
        least[rows, arm] += np.where(lost, 0.0, reward)
        most[rows, arm] += np.where(lost, 1.0, reward)
        of_arm = (number[rows, arm], least[rows, arm], most[rows, arm])
        lower, upper = intervals(*of_arm, LEVEL / 4, noise)
        margin[rows, arm] = np.maximum(lower - truth, truth - upper)
        wrong |= margin[rows, arm] > 0
    return int(wrong.sum())


@pytest.mark.parametrize(("noise", "loss"), [(0.0, False), (0.0, True), (2.0, False)])
def test_the_intervals_hold_at_the_worst_moment(noise: float, loss: bool) -> None:
    wrong = missed(mean_intervals, noise, loss)
    assert binom.sf(wrong - 1, STUDIES, LEVEL) > 1e-3, f"{wrong} of {STUDIES} studies"


@pytest.mark.parametrize(
    ("intervals", "noise", "loss"), [(wald, 0.0, False), (wald, 2.0, False), (forgetful, 0.0, True)]
)
def test_the_test_finds_intervals_that_are_wrong(intervals: Intervals, noise: float, loss: bool) -> None:
    assert binom.sf(missed(intervals, noise, loss) - 1, STUDIES, LEVEL) < 1e-12


def is_wrong_once(seed: int, loss: bool, clumsy: bool = False) -> bool:
    """Whether some interval of a whole study is wrong at one of its looks, ties and all.

    With ``loss`` two of three failures of arm 0 of a task never report, nor two of three successes of arm 1.
    ``clumsy``: whoever reads the rates forgets those.
    """
    live, rng = MemoryStudy(tasks=2, representations=2, predictors=2, policy="osrl", seed=seed), random.Random(seed)
    for trial in range(1, 151):
        if not live.running:
            break
        asked = live.ask()
        x, g, h = live.arm(asked)
        reward = rng.random() < MEANS[2 * g + h]
        lost = loss and 2 * g + h < 2 and reward == bool(h) and rng.random() < 2 / 3
        if lost:
            live.abandon(asked.trial, ignorable=clumsy)
        else:
            live.tell(asked.trial, float(reward))
        if trial % 5 == 0:
            progress = live.progress
            for arm in estimate_arms(progress, progress.verdict or progress.best_guess()):
                truth = MEANS[2 * progress.index_of(1, arm.representation) + progress.index_of(2, arm.predictor)]
                if arm.lower is not None and arm.upper is not None and not arm.lower <= truth <= arm.upper:
                    return True
    return False


@pytest.mark.validate
@pytest.mark.parametrize("loss", [False, True])
def test_the_intervals_of_whole_studies_hold_at_every_look(loss: bool) -> None:
    wrong = sum(is_wrong_once(seed, loss) for seed in range(STUDIES))
    assert binom.sf(wrong - 1, STUDIES, LEVEL) > 1e-3, f"{wrong} of {STUDIES} studies"


@pytest.mark.validate
def test_whole_studies_find_losses_that_are_forgotten() -> None:
    wrong = sum(is_wrong_once(seed, loss=True, clumsy=True) for seed in range(STUDIES))
    assert binom.sf(wrong - 1, STUDIES, LEVEL) < 1e-6, f"{wrong} of {STUDIES} studies"


LOOKS = (4, 16, 64, 256)  # trials of every arm


def wrong_at_some_look(live: MemoryStudy, shares: Any, seed: int) -> bool:
    """Whether some of many intervals of a study is wrong at one of its looks; ``shares`` of its arms."""
    rng, tally = np.random.default_rng(seed), live.progress.totals
    truth, guess = rng.random(len(tally.arms)), live.progress.best_guess()
    tally.shares, tally.counts[:] = shares, 0.0
    for told in LOOKS:
        more = told - tally.counts[TOLD]
        tally.counts[SUM] += rng.binomial(more.astype(np.int64), truth)
        tally.counts[TOLD] = told
        arms = estimate_arms(live.progress, guess)
        ends = [(arm.lower, arm.upper, truth[tally.arms[arm[:3]]]) for arm in arms]
        if any(lower > mean or upper < mean for lower, upper, mean in ends):
            return True
    return False


@pytest.mark.parametrize("union", [True, False])
def test_the_intervals_of_many_arms_hold_together(union: bool) -> None:
    """Whoever gives every arm the whole risk is found out."""
    live, runs = MemoryStudy(tasks=10, representations=5, predictors=4, policy="uniform"), 60
    shares = live.progress.totals.shares if union else [1.0] * 200
    wrong = sum(wrong_at_some_look(live, shares, seed) for seed in range(runs))
    if union:
        assert binom.sf(wrong - 1, runs, LEVEL) > 1e-3, f"{wrong} of {runs} studies"
    else:
        assert binom.sf(wrong - 1, runs, LEVEL) < 1e-6, f"{wrong} of {runs} studies"


def test_the_shares_of_all_arms_that_a_study_ever_has_sum_to_less_than_one() -> None:
    live = MemoryStudy(tasks=["1"], representations=["A", "B"], predictors=2, policy="uniform")
    for added in range(2, 40):
        live.begin_stage(["A", "B"], tasks=[str(x + 1) for x in range(added)])
        if added % 3 == 0:
            live.begin_stage(["A"])
            live.begin_stage(["A", "B"])
    shares = live.progress.totals.shares
    assert len(shares) == 39 * 4 and 0.98 < sum(shares) < 1.0


def test_an_interval_is_of_use() -> None:
    lower, upper = mean_intervals(np.array([400.0]), np.array([200.0]), np.array([200.0]), LEVEL, 0.0)
    assert 0.4 < lower[0] < 0.5 < upper[0] < 0.6
    assert lower[0] + upper[0] == pytest.approx(1.0)
    lower, upper = mean_intervals(np.zeros(1), np.zeros(1), np.zeros(1), LEVEL, 0.0)
    assert (lower[0], upper[0]) == (0.0, 1.0)


def test_what_is_missing_makes_it_longer() -> None:
    """Whatever the missing rewards turn out to be, the interval with them lies within."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        n = int(rng.integers(1, 60))
        missing = int(rng.integers(0, n + 1))
        told = rng.random(n - missing).sum()
        now = mean_intervals(np.array([n]), np.array([told]), np.array([told + missing]), 0.01, 0.0)
        later = told + rng.random(missing).sum()
        then = mean_intervals(np.array([n]), np.array([later]), np.array([later]), 0.01, 0.0)
        assert now[0] <= then[0] <= then[1] <= now[1]


# Beside the verdict -------------------------------------------------------------------------------


def test_intervals_claim_nothing_against_what_is_ruled_out() -> None:
    from osrl.hypotheses.state import new_hypotheses
    from osrl.model.families import Family

    rng = np.random.default_rng(2)
    changed = 0
    for _ in range(500):
        X, G, H = (int(each) for each in rng.integers(1, 4, 3))
        hypotheses = new_hypotheses((X, G, H), Family("bernoulli"), (0.1, 0.1))
        hypotheses.possible_h[:] = rng.random((X, G * H)) < 0.7
        hypotheses.possible_h.reshape(X, G, H)[..., 0] = True
        hypotheses.possible_g[:] = rng.random(G) < 0.6
        ends = np.sort(rng.random((2, X, G * H)) * rng.random(), axis=0)
        answers = rng.integers(-1, G * H, X)
        epsilon = np.full((X, G * H), 0.1 * rng.random())
        lower = reconcile(ends[0], ends[1], answers, epsilon, hypotheses)
        assert (lower <= ends[0]).all()  # never shorter
        changed += (lower < ends[0]).any()
        upper = ends[1].reshape(X, G, H)
        for x, c in enumerate(answers):
            if c >= 0:
                others = np.delete(np.arange(G * H), c)
                assert (lower[x, others] <= ends[1][x, c] + epsilon[x, others]).all()
        for x, g, h in np.argwhere(~hypotheses.possible_h.reshape(X, G, H)):
            assert lower.reshape(X, G, H)[x, g, h] <= np.delete(upper[x, g], h).max()
        for g in np.flatnonzero(~hypotheses.possible_g) if G > 1 else ():
            rivals = np.delete(upper, g, axis=1).max(axis=(1, 2))
            assert (lower.reshape(X, G, H)[:, g].max(axis=1) <= rivals).any()
    assert changed > 100


def test_rewards_after_the_verdict_cannot_contradict_it(tmp_path: Path) -> None:
    """Hundreds of late results, all against the answer: its rivals look better, and nothing says they are."""
    with new_study(str(tmp_path / "a.db"), policy="osrl", delta=0.3) as study:
        late = study.ask(n=300)
        play(study, 2000)
        assert study.verdict == "decided"
        best = study.best
        for trial in late:
            answer = (trial.representation, trial.predictor) == (
                best.representation,
                best.predictors[trial.task],
            )
            study.tell(trial, not answer)
        rows = [ArmRate(*row) for row in study.arms.rows()]
        assert max(row.lift for row in rows if row.lift is not None) > 0.3
        assert all(row.lift_lower is not None and row.lift_lower <= 1e-12 for row in rows)


# In a study ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"policy": "osrl"}, {"policy": "tas"}, {"policy": "uniform"}])
def test_the_rates_of_a_study(place: str, changes: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("osrl.study.operations.session.SNAPSHOT_INTERVAL", 15)
    with new_study(place, delta=1e-6, **changes) as study:
        late_and_lost(study, 40)
        frame, history = study.arms, study.history
        names = ["task", "representation", "predictor"]
        told = history.group_by(names).agg(trials=pl.len(), told=pl.col("reward").count(), mean=pl.col("reward").mean())
        expected = told.with_columns(pl.col(names).cast(pl.String)).sort(names)
        seen = frame.filter(pl.col("trials") > 0).sort(names)
        for name in (*names, "trials", "told"):
            assert seen[name].to_list() == expected[name].to_list()
        assert seen["mean"].to_list() == pytest.approx(expected["mean"].to_list())
        assert (frame["lower"] <= frame["upper"]).all() and frame.height == 8
        with Study.open(place) as other:  # from the snapshot
            assert other.arms.equals(frame)


def test_missing_rewards_count_by_their_worst(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "a.db"), policy="osrl", delta=1e-9) as study:
        trials = study.ask(n=60)
        for trial in trials[:40]:
            study.tell(trial, 1)
        open_still = study.arms
        for trial in trials[40:50]:
            study.abandon(trial)
        ends = ["lower", "upper"]
        assert study.arms.select(ends).equals(open_still.select(ends))
        for trial in trials[50:]:
            study.tell(trial, 1)
        assert (study.arms["lower"] >= open_still["lower"]).all()
        assert (study.arms["lower"] > open_still["lower"]).any()


def test_gaussian_rates(tmp_path: Path) -> None:
    rng = random.Random(0)
    path = str(tmp_path / "a.db")
    with new_study(path, policy="osrl", family="gaussian", noise_sd=2.0, delta=1e-6) as study:
        assert study.arms["lower"].null_count() == 8  # nothing is known, and no reward is impossible
        for trial in study.ask("old", n=80):
            study.tell(trial, rng.gauss(3.0, 2.0))
        frame = study.arms.filter(pl.col("task") == "old")
        assert (frame["lower"] < 3.0).all() and (frame["upper"] > 3.0).all()
        assert study.status.without_data == ("young",)


def test_the_command_line_shows_the_rates(tmp_path: Path, capsys: Capture) -> None:
    import json

    path, file = str(tmp_path / "a.db"), tmp_path / "arms.csv"
    with new_study(path, policy="osrl") as study:
        for trial in study.ask("old", n=12):
            study.tell(trial, 1)
        frame = study.arms
    shown = printed(capsys, "study", "status", path)
    assert "Nothing was told yet in young\n" in shown and "What the arms have brought (95%" in shown
    document = json.loads(printed(capsys, "study", "status", path, "--json"))
    assert document["without_data"] == ["young"] and document["coverage"] == COVERAGE
    assert [list(arm.values()) for arm in document["arms"]] == [list(row) for row in frame.rows()]
    assert "the arms are in" in printed(capsys, "study", "export", path, file, "--arms")
    assert pl.read_csv(file).columns == frame.columns
