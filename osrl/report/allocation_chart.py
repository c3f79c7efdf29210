"""Charts of what belongs to each arm: the means of an instance, the shares of an allocation."""

from __future__ import annotations

import altair as alt
import numpy as np
import polars as pl

from osrl.model.arrays import Floats
from osrl.model.instance import Instance
from osrl.report.charts import ORANGE, Figure

CELL = 52  # units of length


def draw_instance(instance: Instance) -> Figure:
    """The mean of every arm, the best one of each task in a frame."""
    chart = _heat_map(instance, instance.means, "mean reward", ".3~g", "Mean rewards")
    return Figure("instance", "Mean reward of every arm; a frame marks the best arm of a task.", chart)


def draw_weights(instance: Instance, weights: Floats, title: str) -> Figure:
    """The share of every arm."""
    chart = _heat_map(instance, weights, "share of the samples", ".1%", title)
    return Figure("allocation", "Share of the samples that every arm gets.", chart)


def _heat_map(instance: Instance, values: Floats, what: str, form: str, title: str) -> alt.FacetChart:
    """One panel for each task: rows are representations, columns are predictors."""
    shape = instance.shape
    x, g, h = (index.ravel() for index in np.indices(shape))
    best = np.zeros(shape, bool)
    if instance.in_model_class and values is instance.means:
        best[np.arange(shape[0]), instance.best.representation, instance.best.predictors] = True
    middle = float(values.min() + values.max()) / 2
    data = pl.DataFrame(
        {
            "task": [instance.tasks[i] for i in x],
            "representation": [instance.representations[i] for i in g],
            "predictor": [instance.predictors[i] for i in h],
            "value": values.ravel().round(6),
            "best": best.ravel(),
            "dark": values.ravel() > middle,
        }
    )
    base = alt.Chart(data).encode(
        alt.X("predictor:N", sort=list(instance.predictors), title="predictor").axis(labelAngle=0),
        alt.Y("representation:N", sort=list(instance.representations), title="representation"),
    )
    colour = alt.Color("value:Q", title=what, scale=alt.Scale(scheme="blues")).legend(format=form)
    ink = alt.when("datum.dark").then(alt.value("white")).otherwise(alt.value("black"))
    cells = base.mark_rect().encode(colour)
    frames = base.mark_rect(filled=False, stroke=ORANGE, strokeWidth=2.5).transform_filter("datum.best")
    numbers = base.mark_text(fontSize=11).encode(alt.Text("value:Q", format=form), color=ink)
    return (
        alt.layer(cells, frames, numbers)
        .properties(width=CELL * shape[2], height=0.6 * CELL * shape[1])
        .facet(facet=alt.Facet("task:N", sort=list(instance.tasks), title=None), columns=4)
        .properties(title=title)
    )
