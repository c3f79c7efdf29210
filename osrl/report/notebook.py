"""Results in a notebook: what the command line prints as HTML, and an Altair chart for ``plot()``."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group
from rich.text import Text

from osrl.allocation import Allocation
from osrl.bounds.lower import LowerBound
from osrl.errors import OsrlError
from osrl.model.instance import BestArms, Instance
from osrl.report.allocation import AllocationView
from osrl.report.bound import BoundReport
from osrl.report.instance import describe, means_tables
from osrl.report.separate_tasks import separate_tasks
from osrl.report.simulate import SimulationReport
from osrl.report.study import StudyReport
from osrl.simulation.runs import Runs
from osrl.simulation.trace import Trace
from osrl.study.study import Study
from osrl.study.views.status import Status

WIDTH = 110  # characters
TOLERANCE = 1e-3  # of what a picture shows
_FRAME = "<pre style='line-height: 1.25; font-family: monospace; white-space: pre; overflow-x: auto'>{code}</pre>"


def draw(value: Any, **options: Any) -> Any:
    """The chart of a result, in the look of all charts."""
    import altair as alt

    from osrl.report.allocation_chart import draw_instance, draw_weights
    from osrl.report.charts import theme
    from osrl.report.run_charts import draw_arms, draw_runs, draw_trace

    if isinstance(value, Instance):
        figure = draw_instance(value)
    elif isinstance(value, LowerBound):
        figure = draw_weights(names_of(value), value.K.allocation, "The allocation of the lower bound K")
    elif isinstance(value, Allocation):
        figure = draw_weights(names_of(value), value.weights, "The allocation")
    elif isinstance(value, Runs):
        figure = draw_runs(value, **options)
    elif isinstance(value, Trace):
        figure = draw_trace(value, **options)
    elif isinstance(value, Study):
        figure = draw_arms(value.arms, value.name)
    else:
        raise OsrlError(f"there is no chart of {type(value).__name__}")
    chart = figure.chart.copy(deep=False)
    chart.config = alt.Config.from_dict(theme())
    return chart


def as_html(value: Any) -> str:
    """What the command line prints about a result, as HTML."""
    file = io.StringIO()
    console = Console(record=True, file=file, width=WIDTH, force_terminal=True, color_system="truecolor")
    console.print(_report(value))
    return console.export_html(inline_styles=True, code_format=_FRAME)


def _report(value: Any) -> Any:
    if isinstance(value, Instance):
        return Group(Text(describe(value)), Columns(means_tables(value), padding=(0, 4)))
    if isinstance(value, LowerBound):
        instance = names_of(value)
        if value.instance is None:
            return AllocationView(instance, value.K.allocation, value.best)
        alone = separate_tasks(instance, value.delta_g, value.delta_h, tolerance=TOLERANCE)
        return BoundReport(instance, value, alone, TOLERANCE)
    if isinstance(value, Allocation):
        best = BestArms(-1, (-1,) * value.weights.shape[0])
        interval = f"value between {value.lower:.6g} and {value.upper:.6g}"
        return Group(AllocationView(names_of(value), value.weights, best), Text(interval))
    if isinstance(value, Runs):
        return SimulationReport(value.instance, value.summary())
    if isinstance(value, Study):
        return StudyReport(value.place, value.name, value.status, datetime.now(UTC))
    if isinstance(value, Status):
        return StudyReport("", "study", value, datetime.now(UTC))
    raise OsrlError(f"there is no report of {type(value).__name__}")


def names_of(value: LowerBound | Allocation) -> Instance:
    """The instance of a bound; where only its shape is known, one with the names x1, g1, h1, ..."""
    if isinstance(value, LowerBound):
        if value.instance is not None:
            return value.instance
        weights = value.K.allocation
    else:
        weights = value.weights
    return Instance.bernoulli(weights)
