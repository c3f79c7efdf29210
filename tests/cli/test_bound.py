"""`osrl bound`: the JSON contract, and the report for the reader."""

import json
import re
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osrl.allocation import single_task
from osrl.bounds.lower import lower_bound
from osrl.bounds.separate_tasks import separate_tasks
from osrl.model.families import divergence
from osrl.model.instance import Instance
from osrl.report.bound import BoundReport
from tests.support.commands import Capture, printed
from tests.support.instances import PAPER


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "2000")  # no line is wrapped


def document(capsys: Capture, *arguments: object) -> Any:
    """The JSON document of a command, read strictly: NaN and Infinity are not JSON."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(printed(capsys, *arguments, "--json"), parse_constant=refuse)


def saved(tmp_path: Path, instance: Instance) -> Path:
    path = tmp_path / "instance.toml"
    instance.save(path)
    return path


# The JSON contract


def test_json_has_these_keys_and_no_others(capsys: Capture) -> None:
    found = document(capsys, "bound", "paper")
    certified = {"lower", "upper", "allocation"}
    assert {key: set(value) if isinstance(value, dict) else None for key, value in found.items()} == {
        "family": None,
        "tasks": None,
        "representations": None,
        "predictors": None,
        "delta_g": None,
        "delta_h": None,
        "best": {"representation", "predictors"},
        "K_sharp": certified,
        "K": certified,
        "K_valid": certified,
        "K_G": certified,
        "K_H": certified,
        "L_G": {"value", "assignment", "exact"},
        "K_G_sigma": {"sigma", "value", "C_sigma", "allocation"},
        "separate_tasks": {"lower", "upper"},
    }


def test_json_says_what_lower_bound_found_by_name(capsys: Capture, tmp_path: Path) -> None:
    instance = Instance.bernoulli(PAPER, tasks=["young", "old"], representations=["a", "b", "c"], predictors=["p", "q"])
    path = saved(tmp_path, instance)
    found = document(capsys, "bound", path, "--delta-g", 0.05, "--delta-h", 0.2, "--sigma", 7)
    bound = lower_bound(instance, delta_g=0.05, delta_h=0.2, sigma=7.0)
    for name in ("K", "K_sharp", "K_valid", "K_G", "K_H"):
        value = getattr(bound, name)
        assert found[name] == {
            "lower": value.lower,
            "upper": value.upper,
            "allocation": value.allocation.tolist(),
        }
    assert found["L_G"] == {
        "value": bound.L_G.value,
        "assignment": {"b": "old", "c": "young"},
        "exact": True,
    }
    assert found["K_G_sigma"] == {
        "sigma": 7.0,
        "value": bound.K_G_sigma.value,
        "C_sigma": bound.K_G_sigma.C_sigma,
        "allocation": bound.K_G_sigma.allocation.tolist(),
    }
    assert found["best"] == {"representation": "a", "predictors": {"young": "p", "old": "p"}}
    assert (found["delta_g"], found["delta_h"]) == (0.05, 0.2)
    assert (found["family"], found["tasks"]) == ("bernoulli", ["young", "old"])
    assert (found["representations"], found["predictors"]) == (["a", "b", "c"], ["p", "q"])


def test_json_is_one_line_with_nested_allocations(capsys: Capture) -> None:
    out = printed(capsys, "bound", "paper", "--json")
    assert out.count("\n") == 1
    for name in ("K", "K_sharp", "K_valid", "K_G", "K_H", "K_G_sigma"):
        weights = np.array(json.loads(out)[name]["allocation"])
        assert weights.shape == (2, 3, 2)
        assert weights.sum() == pytest.approx(1)


def test_default_risks_are_a_tenth_and_delta_sets_both(capsys: Capture) -> None:
    default = document(capsys, "bound", "paper")
    assert default == document(capsys, "bound", "paper", "--delta", 0.1)
    assert default == document(capsys, "bound", "paper", "--delta-h", 0.1)
    assert default["K"]["lower"] <= 2820.976 <= default["K"]["upper"] + 1e-3
    assert default["K_G"]["upper"] == pytest.approx(44.892, abs=1e-3)


def test_infinity_is_null(capsys: Capture) -> None:
    found = document(capsys, "bound", "paper", "--sigma", 1e-9)["K_G_sigma"]
    assert (found["value"], found["C_sigma"]) == (None, None)


# The bound without sharing


def test_separate_tasks_are_the_characteristic_times_when_the_risks_are_equal() -> None:
    paper = Instance.load("paper")
    k = divergence(0.05, 0.95, 0.0)
    total = sum(k * single_task(paper.means[x].ravel(), 0.0).time for x in range(2))
    found = separate_tasks(paper, 0.05, 0.05, tolerance=1e-6)
    assert found.lower <= total * (1 + 1e-9)
    assert total <= found.upper * (1 + 1e-9)
    assert found.upper == pytest.approx(found.lower, rel=1e-5)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), delta_g=st.floats(0.01, 0.4), delta_h=st.floats(0.01, 0.4))
def test_sharing_never_costs_anything(seed: int, delta_g: float, delta_h: float) -> None:
    means = np.random.default_rng(seed).uniform(0.1, 0.6, (3, 3, 2))
    means[:, 1, 0] = 0.7
    instance = Instance.bernoulli(means)
    bound = lower_bound(instance, delta_g=delta_g, delta_h=delta_h)
    assert bound.K.lower <= separate_tasks(instance, delta_g, delta_h, tolerance=1e-6).upper


# The report


def test_the_report_on_the_papers_instance(capsys: Capture) -> None:
    out = printed(capsys, "bound", "paper")
    for text in (
        "2 tasks, 3 representations, 2 predictors; rewards 0 or 1",
        "Best representation: g1; best predictors: h1 in x1, h1 in x2",
        "delta_g = 0.1 (representation), delta_h = 0.1 (each predictor)",
        "2,672.765 to 2,672.766",
        "2,820.975 to 2,820.976",
        "2,190.780 to 2,190.781",
        "44.891 to 44.892",
        "2,804.230 to 2,804.231",
        "(g2 in x2, g3 in x1)",
        "sigma = 100000",
        "The intervals are certified; relative gap at most",
        "*24.8   24.9",
        "expect at least about 2,673 samples",
        "Theorem 1, as printed, says 2,821",
        "25 % on (x1, g1, h1)",
        "treats every task on its own takes 2,964 samples, 5 % more",
    ):
        assert text in out
    assert "\x1b" not in out, "no colour codes where there is no terminal"


@pytest.mark.parametrize("columns", ["40", "80", "120"])
def test_the_report_fits_the_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = printed(capsys, "bound", "paper")
    assert max(map(len, out.splitlines())) <= int(columns)


def test_the_shades_deepen_with_the_share(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    out = printed(capsys, "bound", "paper")
    assert "48;2;8;48;107m  *24.8" in out
    assert "48;2;222;235;247m    0.2" in out


def test_one_representation(capsys: Capture, tmp_path: Path) -> None:
    path = saved(tmp_path, Instance.bernoulli([[[0.5, 0.3]], [[0.2, 0.4]]]))
    found = document(capsys, "bound", path)
    assert (found["K_G"]["lower"], found["K_G"]["upper"]) == (0.0, 0.0)
    assert found["L_G"] == {"value": 0.0, "assignment": {}, "exact": True}
    out = printed(capsys, "bound", path)
    assert "the representation alone 0." in out
    assert "2 tasks, 1 representation, 2 predictors" in out


def test_one_predictor(capsys: Capture, tmp_path: Path) -> None:
    path = saved(tmp_path, Instance.bernoulli([[[0.5], [0.3]], [[0.4], [0.2]]]))
    found = document(capsys, "bound", path)
    assert (found["K_H"]["lower"], found["K_H"]["upper"]) == (0.0, 0.0)
    assert "The predictors alone take at least 0" in printed(capsys, "bound", path)


@pytest.mark.parametrize(("means", "delta"), [([[[0.5]]], 0.1), (PAPER, 0.5)], ids=["one arm", "a risk of one half"])
def test_nothing_to_learn(capsys: Capture, tmp_path: Path, means: Any, delta: float) -> None:
    path = saved(tmp_path, Instance.bernoulli(means))
    assert document(capsys, "bound", path, "--delta", delta)["K"]["upper"] == 0
    out = printed(capsys, "bound", path, "--delta", delta)
    assert "No samples are needed" in out
    assert "Share of the samples" not in out


def test_gaussian_rewards(capsys: Capture, tmp_path: Path) -> None:
    path = saved(tmp_path, Instance.gaussian([[[3.0, 2.0], [1.0, 0.0]]], 1.5))
    out = printed(capsys, "bound", path)
    assert "normal rewards with standard deviation 1.5" in out
    assert "coins" not in out
    assert "treats every task on its own" not in out, "there is only one task"
    assert document(capsys, "bound", path)["family"] == "gaussian"


def test_bounded_rewards_are_told_from_coins(capsys: Capture, tmp_path: Path) -> None:
    path = saved(tmp_path, Instance.bounded(PAPER))
    out = printed(capsys, "bound", path)
    assert "rewards in [0, 1]" in out
    assert "coins (rewards 0 or 1) with these means; rewards that vary less may be learnt faster" in out
    coins = document(capsys, "bound", "paper")
    assert document(capsys, "bound", path) == {**coins, "family": "bounded"}


def test_many_arms_are_listed_instead_of_drawn(capsys: Capture, tmp_path: Path) -> None:
    means = np.random.default_rng(0).uniform(0.1, 0.6, (6, 8, 5))
    means[:, 2, 3] = 0.8
    out = printed(capsys, "bound", saved(tmp_path, Instance.bernoulli(means)))
    assert "The 12 largest shares of the samples" in out
    assert "228 others" in out
    assert len(out.splitlines()) < 50


def test_a_heat_map_that_is_too_wide_becomes_a_list(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"a predictor with a name {h}" for h in range(4)]
    instance = Instance.bernoulli([[[0.5, 0.4, 0.3, 0.2]]], predictors=names)
    out = printed(capsys, "bound", saved(tmp_path, instance))
    assert "The 4 largest shares of the samples" in out
    assert "others" not in out


def test_names_are_shown_as_they_are(capsys: Capture, tmp_path: Path) -> None:
    names = ["[red]x[/red]", "année 😀 " + "long " * 40]
    out = printed(capsys, "bound", saved(tmp_path, Instance.bernoulli(PAPER, tasks=names)))
    assert "h1 in [red]x[/red], h1 in année 😀 long" in out
    assert "…" in out, "shortened in the heat map"


def test_a_wide_interval_is_admitted() -> None:
    from rich.console import Console

    paper = Instance.load("paper")
    bound = lower_bound(paper, delta=0.1)
    bound = bound._replace(K_G=bound.K_G._replace(lower=40.0))
    report = BoundReport(paper, bound, separate_tasks(paper, 0.1, 0.1, tolerance=1e-6), 1e-6)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(report)
    assert "Not certified to the requested relative width 1e-06: K_G (1e-01)" in capture.get()
    assert "40.000 to 44.892" in capture.get()


def test_an_infinite_regularised_bound_is_explained(capsys: Capture) -> None:
    out = printed(capsys, "bound", "paper", "--sigma", 1e-9)
    assert "K_G_sigma is infinite: this sigma outweighs all evidence; give a larger one" in out


def test_the_page_shows_what_the_command_prints(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = Path(__file__).parents[2] / "docs" / "bound.md"
    shown = page.read_text(encoding="utf-8").partition("$ osrl bound paper\n")[2].partition("```")[0]

    def words(text: str) -> list[str]:
        """Line by line, with the last digits, which depend on the machine, left out."""
        return [re.sub(r"\d[\d.,e-]*", "#", line).rstrip() for line in text.strip().splitlines()]

    assert words(shown) == words(printed(capsys, "bound", "paper"))
