"""`osrl analyse`: the evidence for logs, its guarantee, and how tables are read and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import strategies as st
from scipy.stats import binom

import osrl
from osrl.analysis.trials import read_table
from osrl.analysis.verdict import Analysis, judge
from osrl.cli import main
from osrl.study.views.history import arm_columns
from tests.support.instances import refused, refused_among_others
from tests.support.studies import late_and_lost, new_study, play

Capture = pytest.CaptureFixture[str]
EASY = np.array([[[0.9, 0.3], [0.2, 0.1]], [[0.2, 0.8], [0.1, 0.3]]])
seeds = st.integers(0, 99)
ARMS = arm_columns(["g1", "g2"], ["h1", "h2"])


# Logs ---------------------------------------------------------------------------------------------


def rows_of(rng: np.random.Generator, rows: int, means: Any = EASY, skewed: bool = True) -> pl.DataFrame:
    """Return a log: tasks at random, arms drawn with known propensities, rewards 0 and 1."""
    data = []
    for _ in range(rows):
        x = int(rng.integers(2))
        weights = rng.dirichlet(np.full(4, 2.0)) if skewed else np.full(4, 0.25)
        a = int(rng.choice(4, p=weights))
        reward = float(rng.random() < means[x].ravel()[a])
        data.append([f"x{x + 1}", f"g{a // 2 + 1}", f"h{a % 2 + 1}", reward, *weights])
    return pl.DataFrame(data, schema=["task", "representation", "predictor", "reward", *ARMS], orient="row")


def analysed(frame: pl.DataFrame, tmp_path: Path, suffix: str = ".csv", **options: Any) -> Analysis:
    path = tmp_path / f"log{suffix}"
    write: Any = {".csv": frame.write_csv, ".jsonl": frame.write_ndjson, ".parquet": frame.write_parquet}
    write[suffix](path)
    names = {key: options.pop(key) for key in ("family", "noise_sd", "low", "high") if key in options}
    return judge(read_table(path, **names), **{"delta_g": 0.1, "delta_h": 0.1, **options})


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("known", [True, False])
def test_a_log_is_concluded_with_and_without_propensities(tmp_path: Path, suffix: str, known: bool) -> None:
    frame = rows_of(np.random.default_rng(1), 1500)
    found = analysed(frame if known else frame.drop(ARMS), tmp_path, suffix)
    assert found.evidence == ("betting" if known else "counts")
    assert found.verdict == "decided"
    assert found.decided_after is not None and found.decided_after < 1500
    assert found.best.representation == "g1"
    assert found.best.predictors == {"x1": "h1", "x2": "h2"}
    ruled_out = [(test.representation, test.predictor) for test in found.hypotheses if test.rejected]
    assert ("g2", None) in ruled_out


def test_few_rows_leave_the_answer_open(tmp_path: Path) -> None:
    for known in (True, False):
        frame = rows_of(np.random.default_rng(2), 20)
        found = analysed(frame if known else frame.drop(ARMS), tmp_path)
        assert (found.verdict, found.decided_after) == ("undecided", None)


@pytest.mark.parametrize("known", [True, False])
def test_tasks_that_share_nothing_are_found_out(tmp_path: Path, known: bool) -> None:
    means = np.array([[[0.9, 0.8], [0.1, 0.1]], [[0.1, 0.1], [0.9, 0.8]]])
    frame = rows_of(np.random.default_rng(3), 1500, means)
    found = analysed(frame if known else frame.drop(ARMS), tmp_path)
    assert found.verdict == "no shared representation"
    assert found.best.representation is None
    assert found.best.representations == {"x1": "g1", "x2": "g2"}
    assert {each.representation: each.task for each in found.objections} == {"g1": "x2", "g2": "x1"}


@pytest.mark.slow
def test_the_best_representation_is_rarely_rejected(tmp_path: Path) -> None:
    """A close call, both kinds of evidence: errors stay within the risk."""
    means = np.array([[[0.5, 0.45], [0.45, 0.4]], [[0.45, 0.5], [0.4, 0.45]]])
    delta, runs = 0.2, 100
    rng = np.random.default_rng(4)
    errors = dict.fromkeys(("betting", "counts"), 0)
    for _ in range(runs):
        frame = rows_of(rng, 150, means)
        for log in (frame, frame.drop(ARMS)):
            found = analysed(log, tmp_path, ".parquet", delta_g=delta, delta_h=delta)
            errors[found.evidence] += found.hypotheses[0].rejected
    assert max(errors.values()) <= binom.ppf(0.999, runs, delta)


def test_bounded_and_gaussian_rewards(tmp_path: Path) -> None:
    frame = rows_of(np.random.default_rng(5), 2500).with_columns(pl.col("reward") * 0.8 + 0.1)
    assert analysed(frame, tmp_path).evidence == "betting"
    found = analysed(frame.drop(ARMS), tmp_path)
    assert (found.evidence, found.family.name, found.doubt.alarm) == ("counts", "bounded", False)
    assert (found.verdict, found.best.representation) == ("decided", "g1")
    found = analysed(frame.drop(ARMS), tmp_path, family="gaussian", noise_sd=0.4)
    assert (found.evidence, found.verdict, found.best.representation) == ("counts", "decided", "g1")


@pytest.mark.parametrize("known", [True, False])
def test_rewards_between_other_limits(tmp_path: Path, known: bool) -> None:
    """The same rewards in another unit prove the same; so do tolerances."""
    frame = rows_of(np.random.default_rng(0), 400)
    frame = frame if known else frame.drop(ARMS)
    moved = frame.with_columns(pl.col("reward") * 12 - 2)
    for epsilon in (0.0, 0.1):
        plain = analysed(frame, tmp_path, family="bounded", epsilon=(epsilon, epsilon))
        found = analysed(moved, tmp_path, low=-2, high=10, epsilon=(12 * epsilon, 12 * epsilon))
        assert (found.verdict, found.best, found.limits) == (plain.verdict, plain.best, (-2, 10))
        for one, other in zip(found.hypotheses, plain.hypotheses, strict=True):
            assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-9)
    with refused_among_others("is 10; give a number from -2 to 9, or say with --low and --high"):
        analysed(moved, tmp_path, low=-2, high=9)
    with refused("low and high belong to the bounded family"):
        analysed(frame, tmp_path, family="bernoulli", high=2)
    with refused("low is 3 and high 2"):
        analysed(frame, tmp_path, low=3, high=2)


def test_means_are_those_of_a_study_and_intervals_within_its_own(tmp_path: Path) -> None:
    """The trials of a study give the rates of the study: late, lost and left out."""
    with new_study(str(tmp_path / "study.db"), policy="osrl", delta=1e-9) as study:
        late_and_lost(study, 120)
        for trial in study.pending:
            study.tell(trial, 1)
        study.write_trials(tmp_path / "trials.csv")
        own = {arm[:3]: arm for arm in study.status.arms}
    found = osrl.analyse(tmp_path / "trials.csv", delta=1e-9)
    assert found.missing > found.ignored > 0 and len(found.arms) == 8
    for arm in found.arms:
        same = own[arm[:3]]
        assert (arm.trials, arm.told) == (same.trials, same.told)
        ends = arm.lower, arm.upper, same.lower, same.upper
        assert arm.mean == pytest.approx(same.mean) and None not in ends
        low, high, least, most = (float(end) for end in ends if end is not None)
        assert least - 1e-9 <= low <= high <= most + 1e-9, "a study keeps a share for arms that may be added"


def test_arms_without_rows_are_not_guessed(tmp_path: Path) -> None:
    """Nothing speaks against an arm that was never tried; nothing speaks for it either."""
    rows = [("x1", "g1", "h1", i % 2) for i in range(9)] + [("x2", "g1", "h2", i % 2) for i in range(9)]
    names = ("task", "representation", "predictor", "reward")
    frame = pl.DataFrame(rows, schema=names, orient="row")
    found = osrl.analyse(frame, representations=["g1", "g2"], predictors=["h1", "h2", "h3"])
    guessed = [arm for arm in found.arms if arm.predictor == found.best.predictors[arm.task]]
    named = [h for h in found.best.predictors.values() if h is not None]
    assert found.verdict == "undecided" and len(guessed) == len(named)
    assert {arm[:3] for arm in found.arms} == {("x1", "g1", "h1"), ("x2", "g1", "h2")}


def test_missing_rewards_cost_evidence_unless_they_are_ignorable(tmp_path: Path) -> None:
    frame = rows_of(np.random.default_rng(6), 120)
    holes = pl.when(pl.int_range(pl.len()) % 5 == 0).then(None).otherwise(pl.col("reward")).alias("reward")
    frame = frame.with_columns(holes)
    worst, left_out = analysed(frame, tmp_path), analysed(frame, tmp_path, ignorable=True)
    assert worst.missing == left_out.missing == 24
    pairs = zip(worst.hypotheses[:2], left_out.hypotheses[:2], strict=True)
    assert all(one.log_evidence < other.log_evidence + 1e-9 for one, other in pairs)
    assert (worst.ignored, left_out.ignored) == (0, 24)
    assert analysed(frame.drop(ARMS), tmp_path, ignorable=True).missing == 24
    with refused("24 rows have no reward, and counts have no worst case"):
        analysed(frame.drop(ARMS), tmp_path)


def test_an_answer_that_does_not_look_clear_yet_waits(tmp_path: Path) -> None:
    """Both arms are clearly different, but have hardly been tried: a study would go on."""
    rows = [("x", "A" if i % 2 else "B", "h", float(i % 2), 0.5, 0.5) for i in range(40)]
    columns = ["task", "representation", "predictor", "reward", "propensity[A,h]", "propensity[B,h]"]
    frame = pl.DataFrame(rows, columns, orient="row")
    early, late = (analysed(part, tmp_path, delta_g=0.2) for part in (frame.head(23), frame))
    assert (early.verdict, early.decided_after) == ("undecided", None)
    assert [each.rejected for each in early.hypotheses] == [False, True]
    assert (late.verdict, late.decided_after, late.best.representation) == ("decided", 24, "A")


def test_of_equal_evidence_the_better_means_are_the_guess(tmp_path: Path) -> None:
    rows = [("x", "worse", "h", -1.0), ("x", "better", "h", 1.0)]
    frame = pl.DataFrame(rows, ["task", "representation", "predictor", "reward"], orient="row")
    assert analysed(frame, tmp_path, family="gaussian", noise_sd=5.0).best.representation == "better"


def test_the_trials_of_a_study_prove_what_the_study_says(tmp_path: Path) -> None:
    """With nothing pending, the log of a study has the very evidence of the study."""
    with new_study(str(tmp_path / "study.db"), policy="osrl", delta=0.05) as study:
        play(study, 40)
        study.write_trials(tmp_path / "trials.csv")
        found = judge(read_table(tmp_path / "trials.csv"), delta_g=0.05, delta_h=0.05)
        mine = {tuple(row[:3]): row[3] for row in study.evidence.rows()}
        for test in found.hypotheses:
            key = (test.task, test.representation, test.predictor)
            assert test.log_evidence == pytest.approx(mine[key], abs=1e-9)


def test_lost_trials_of_a_study_are_understood(tmp_path: Path) -> None:
    with new_study(str(tmp_path / "study.db"), policy="uniform", delta=1e-9) as study:
        late_and_lost(study, 60)
        study.write_trials(tmp_path / "trials.parquet")
        frame = study.history
        table = read_table(tmp_path / "trials.parquet")
    lost = frame["status"].cast(pl.String)
    assert table.ignorable.tolist() == (lost == "abandoned, ignorable").to_list()
    assert np.isnan(table.rewards).tolist() == frame["reward"].is_null().to_list()


# Tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop("reward"), "there is no column 'reward'; a table of trials has task"),
        (lambda f: f.head(0), "there are no rows"),
        (lambda f: f.with_columns(reward=pl.lit("x")), "line 2: column 'reward' is 'x'; give a number"),
        (
            lambda f: f.with_columns(reward=pl.lit(3)),
            "line 2: column 'reward' is 3; give a number",
        ),
        (lambda f: f.with_columns(task=pl.lit(None)), "line 2: column 'task' is empty"),
        (lambda f: f.with_columns(pl.lit(0.9).alias(ARMS[0])), "do not sum to 1"),
        (lambda f: f.with_columns(pl.lit(-0.1).alias(ARMS[0])), "a propensity is not between 0 and 1"),
        (lambda f: f.with_columns(pl.lit(None).alias(ARMS[0])), "some propensities are missing"),
    ],
)
def test_tables_that_make_no_sense_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    frame = change(rows_of(np.random.default_rng(0), 30))
    with refused_among_others(message):
        analysed(frame, tmp_path)


def test_an_arm_of_propensity_zero_cannot_have_been_drawn(tmp_path: Path) -> None:
    frame = rows_of(np.random.default_rng(0), 30)
    zero = [pl.lit(0.0).alias(ARMS[0]), *(pl.lit(1 / 3).alias(name) for name in ARMS[1:])]
    with refused_among_others("the arm that was drawn has propensity 0"):
        analysed(frame.with_columns(zero), tmp_path)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with refused("no such file"):
        read_table(tmp_path / "none.csv")
    with refused("unknown suffix '.xlsx'"):
        read_table(tmp_path / "log.xlsx")
    (tmp_path / "log.parquet").write_text("not parquet", encoding="utf-8")
    with refused("cannot be read"):
        read_table(tmp_path / "log.parquet")


def test_an_arm_that_was_never_drawn_is_known_from_its_column(tmp_path: Path) -> None:
    frame = rows_of(np.random.default_rng(0), 60).filter(pl.col("representation") == "g1")
    found = analysed(frame, tmp_path)
    assert [test.representation for test in found.hypotheses[:2]] == ["g1", "g2"]
    path = tmp_path / "log.csv"
    frame.drop(ARMS).write_csv(path)
    assert read_table(path).representations == ("g1",)
    assert read_table(path, representations=["g1", "g2"]).shape == (2, 2, 2)


# The command --------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "log.csv"
    rows_of(np.random.default_rng(1), 1500).write_csv(path)
    assert main(["analyse", str(path), "--delta", "0.05", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (err, out.count("\n")) == ("", 1)
    assert found["verdict"] == "decided" and found["method"] == "betting" and found["delta_g"] == 0.05
    assert found["best"]["predictors"] == {"x1": "h1", "x2": "h2"}
    assert main(["analyse", str(path)]) == 0
    report = capsys.readouterr().out
    assert "decided, after row" in report and "bets on the propensities of the log" in report
    assert main(["analyse", str(tmp_path / "none.csv")]) == 2
    assert "no such file" in capsys.readouterr().err
