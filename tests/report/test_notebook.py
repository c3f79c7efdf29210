"""Results in a notebook: charts, and what the command line prints as HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import osrl
from osrl.report.charts import save
from osrl.report.run_charts import draw_runs, draw_trace
from osrl.testing import EASY


@pytest.fixture(scope="module")
def runs() -> osrl.Runs:
    return osrl.simulate(EASY, ["uniform", "tas"], delta=[0.1, 0.01], runs=20)


def titles(spec: Any) -> list[str]:
    """The titles of all axes of a chart."""
    if isinstance(spec, dict):
        own = [spec[axis].get("title", "") for axis in ("x", "y") if isinstance(spec.get(axis), dict)]
        return own + [title for value in spec.values() for title in titles(value)]
    return [title for value in spec for title in titles(value)] if isinstance(spec, list) else []


@pytest.mark.slow
def test_charts_are_drawn_and_every_axis_has_a_title(runs: osrl.Runs) -> None:
    charts = {
        "instance": EASY.plot(),
        "bound": osrl.lower_bound(EASY, delta=0.1).plot(),
        "allocation": osrl.allocate(EASY, osrl.Needs.of(EASY, 1.0, 1.0)).plot(),
        "runs": runs.plot(),
        "trace": runs.trace("evidence", 20, runs=3).plot(),
        "many": runs.trace("pulls", 20).plot(),
    }
    for name, chart in charts.items():
        spec = chart.to_dict()
        assert spec["config"]["font"], name
        assert any(titles(spec)), name
    panels = charts["runs"].to_dict()["hconcat"]
    assert {"samples (log scale)", "share of runs that have stopped"} <= set(titles(panels[0]))
    assert {"ln(1 / delta)", "mean number of samples (log scale)"} <= set(titles(panels[1]))
    assert len(charts["trace"].to_dict()["vconcat"]) == 4


def test_a_chart_becomes_a_file(runs: osrl.Runs, tmp_path: Path) -> None:
    for figure in (draw_runs(runs), draw_trace(runs.trace("means", 20))):
        assert all(path.stat().st_size > 2000 for path in save(figure, tmp_path))


def test_results_show_themselves(runs: osrl.Runs) -> None:
    bound = osrl.lower_bound(EASY, delta=0.1)
    shown = {
        EASY._repr_html_(): "2 tasks, 2 representations",
        bound._repr_html_(): "K_H",
        osrl.allocate(EASY, osrl.Needs.of(EASY, 1.0, 0.0))._repr_html_(): "value between",
        runs._repr_html_(): "uniform",
        runs.trace("pulls", 20)._repr_html_(): "representation",
    }
    for html, words in shown.items():
        assert words in html
        assert "<pre" in html or "<table" in html
        assert "\x1b" not in html


def test_a_study_shows_itself(path: str) -> None:
    names: dict[str, Any] = {
        "tasks": ["<young>", "old"],
        "representations": ["A", "B"],
        "predictors": ["l", "h"],
    }
    with osrl.Study.create(path, family="bernoulli", delta_g=0.1, delta_h=0.1, seed=1, **names) as study:
        for i in range(12):
            study.tell(study.ask(), i % 2)
        html = study._repr_html_()
        assert "&lt;young&gt;" in html and "<young>" not in html
        assert "handed out" in study.status._repr_html_() or "trials" in study.status._repr_html_()
        spec = study.plot().to_dict()
        assert "mean reward, with its interval" in titles(spec)
