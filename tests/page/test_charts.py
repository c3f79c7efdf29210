"""Every mark of a chart is where the number of the status puts it, read back along the axis that is shown."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osrl.page.render import frozen_page
from osrl.page.snapshot import PageSnapshot, snapshot_at
from osrl.study.log.events import Told
from osrl.study.study import Study
from osrl.study.views.evidence import share_of_limit
from tests.support.markup import Node, read_markup
from tests.support.pages import begin, snapshot_of

STATES = ["running", "decided", "missing", "within", "none", "hostile", "empty"]


@pytest.fixture(scope="module")
def place(states: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    found = str(shutil.copytree(states, tmp_path_factory.mktemp("marks") / "copy") / "studies.db")
    with begin(found, "gaussian", family="gaussian", noise_sd=1.0, predictors=["one"]) as study:
        for i in range(12):
            study.tell(study.ask(), -2.5 + i)
    return found


def section(page: Node, heading: str) -> Node:
    (found,) = [each for each in page.all("section") if each["aria-labelledby"] == heading]
    return found


def axis(group: Node) -> Callable[[float], float]:
    """The number at a place of the axis, in percent, by the first and the last of its labels."""
    labels = group.one("svg", "labels").all("text")
    (low, first), (high, last) = (
        (each.percent("x"), float(each.text.replace(",", "").replace("−", "-"))) for each in (labels[0], labels[-1])
    )
    return lambda at: first + (last - first) * (at - low) / (high - low)


@pytest.mark.parametrize("name", [*STATES, "gaussian"])
def test_rates_are_where_their_axis_says(place: str, name: str) -> None:
    snapshot = snapshot_of(place, name)
    arms = snapshot.status.arms
    page = read_markup(frozen_page(name, snapshot))
    seen = 0
    for group in section(page, "rates").all("div", "group"):
        value = axis(group)
        near = abs(value(100.0) - value(0.0)) * 2e-5  # places are written with three decimals
        for row in group.all("li", "arm"):
            key = row.all("data")[0]["data-key"]
            arm = arms[int(key.split(".")[1])]
            line = row.one("line", "range")
            ends = (value(line.percent("x1")), value(line.percent("x2")))
            known = (arm.lower, arm.upper)
            expected = [each if each is not None else end for each, end in zip(known, ends, strict=True)]
            assert ends == pytest.approx(expected, abs=near)
            means = row.all("circle", "mean")
            assert len(means) == (arm.mean is not None)
            for mean in means:
                assert value(mean.percent("cx")) == pytest.approx(arm.mean, abs=near)
            for guide in row.all("line", "guide"):
                best = snapshot.status.best
                (leader,) = [
                    each.mean
                    for each in arms
                    if each.task == arm.task
                    and each.representation == best.representations[arm.task]
                    and each.predictor == best.predictors[arm.task]
                ]
                assert value(guide.percent("x1")) == pytest.approx(leader, abs=near)
            seen += 1
    assert seen == len(arms)


@pytest.mark.parametrize("name", STATES)
def test_bars_are_as_long_as_their_numbers(place: str, name: str) -> None:
    snapshot = snapshot_of(place, name)
    status = snapshot.status
    page = read_markup(frozen_page(name, snapshot))
    rivals = [row for row in section(page, "possible").all("li", "rival") if row.all("rect")]
    assert rivals
    for row in rivals:
        each = status.hypotheses[int(row.all("data")[0]["data-key"].split(".")[1])]
        share = share_of_limit(each)
        assert row.one("rect", "fill").percent("width") == pytest.approx(100 * share, abs=0.006)
    total = max(status.handed_out, 1)
    bars = [row.one("rect", "fill") for row in section(page, "samples").one("div", "columns").all("li")]
    by_task = sorted(status.arms, key=lambda arm: status.settings.tasks.index(arm.task))
    for bar, arm in zip(bars, by_task, strict=True):
        assert bar.percent("width") == pytest.approx(100 * arm.trials / total, abs=0.006)


def points(line: Node) -> dict[float, float]:
    """Where a path is: percent of the trials, and of the limit."""
    pairs = (each.split(",") for each in line["points"].split())
    return {float(x): 100 - float(y) for x, y in pairs}


def shares(snapshot: PageSnapshot, figure: Node) -> list[float]:
    """How far the evidence against each rival of a figure is, in the order of drawing."""
    title = figure.one("figcaption").text
    found: dict[str, float] = {}
    for each in snapshot.status.hypotheses:
        whose = f"With {each.representation}, which is the best in {each.task}?"
        if (each.predictor is None and "every task" in title) or whose == title:
            found[each.predictor or each.representation] = share_of_limit(each)
    names = [each.one("bdi").text for each in figure.one("ul", "legend").all("li")]
    return [100 * found[name] for name in reversed(names)]


@pytest.mark.parametrize("name", ["running", "decided"])
def test_paths_go_through_what_was_known_then(place: str, name: str) -> None:
    snapshot = snapshot_of(place, name)
    page = read_markup(frozen_page(name, snapshot))
    figures = section(page, "paths").all("figure", "path")
    assert figures
    total = snapshot.status.handed_out
    with Study.open(place, name) as study:
        tells = [event.seq for event in study.events() if isinstance(event.body, Told)]
        snapshots = [snapshot_at(study.events(), tells[i]) for i in (9, 19, 29)]
    for then in [*snapshots, snapshot]:
        at = round(100 * then.status.handed_out / total, 2)
        for figure in figures:
            for line, share in zip(figure.all("polyline"), shares(then, figure), strict=True):
                found = min(points(line).items(), key=lambda point: abs(point[0] - at))
                assert found == pytest.approx((at, share), abs=0.011)


def test_a_mark_that_is_moved_is_noticed(place: str) -> None:
    """The tests above can fail: a mean that is drawn a hundredth of the axis too far is found."""
    snapshot = snapshot_of(place, "running")
    page = read_markup(frozen_page("running", snapshot))
    group = section(page, "rates").all("div", "group")[0]
    (first, *_) = group.all("li", "arm")
    key = first.all("data")[0]["data-key"].split(".")
    mean: Any = snapshot.status.arms[int(key[1])].mean
    moved = axis(group)(first.one("circle", "mean").percent("cx") + 1)
    assert abs(moved - mean) > 2e-5
