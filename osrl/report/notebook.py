"""Results in a notebook: what the command line prints as HTML, and an Altair chart for ``plot()``.

The classes of results lie below this package. Their methods ``_repr_html_`` and ``plot`` import this module when they
are called, and it chooses by their type.
"""

from __future__ import annotations

import io
from functools import singledispatch
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.text import Text

from osrl.allocation import Allocation
from osrl.bounds.lower import LowerBound
from osrl.bounds.separate_tasks import separate_tasks
from osrl.errors import OsrlError
from osrl.model.instance import BestArms, Instance
from osrl.report.bound import BoundReport
from osrl.report.instance import AllocationView, describe, means_tables
from osrl.report.simulate import SimulationReport
from osrl.report.study import StudyReport
from osrl.simulation.runs import Runs
from osrl.simulation.trace import Trace
from osrl.study.study import Study
from osrl.study.views.status import Status

WIDTH = 110  # characters
TOLERANCE = 1e-3  # relative width of the bounds that are shown
_FRAME = "<pre style='line-height: 1.25; font-family: monospace; white-space: pre; overflow-x: auto'>{code}</pre>"


def html(result: object) -> str:
    """Return the report on a result, as the command line prints it, as HTML."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True, color_system="truecolor")
    console.print(_report(result))
    return console.export_html(inline_styles=True, code_format=_FRAME)


def chart(result: object) -> Any:
    """Return the Altair chart of a result, in the common theme."""
    import altair as alt

    from osrl.report.charts import theme

    found = _figure(result).chart.copy(deep=False)
    found.config = alt.Config.from_dict(theme())
    return found


@singledispatch
def _report(result: object) -> RenderableType:
    raise OsrlError(f"there is no report of {type(result).__name__}")


@_report.register
def _(instance: Instance) -> RenderableType:
    return Group(Text(describe(instance)), Columns(means_tables(instance), padding=(0, 4)))


@_report.register
def _(bound: LowerBound) -> RenderableType:
    instance = _instance_of(bound)
    if bound.instance is None:
        return AllocationView(instance, bound.K.allocation, bound.best)
    alone = separate_tasks(instance, bound.delta_g, bound.delta_h, tolerance=TOLERANCE)
    return BoundReport(instance, bound, alone, TOLERANCE)


@_report.register
def _(allocation: Allocation) -> RenderableType:
    best = BestArms(-1, (-1,) * allocation.weights.shape[0])
    interval = f"value between {allocation.lower:.6g} and {allocation.upper:.6g}"
    return Group(AllocationView(_instance_of(allocation), allocation.weights, best), Text(interval))


@_report.register
def _(runs: Runs) -> RenderableType:
    return SimulationReport(runs.instance, runs.summary())


@_report.register
def _(study: Study) -> RenderableType:
    return StudyReport(study.place, study.name, study.status)


@_report.register
def _(status: Status) -> RenderableType:
    return StudyReport("", "study", status)


@singledispatch
def _figure(result: object) -> Any:
    raise OsrlError(f"there is no chart of {type(result).__name__}")


# Charts are an extra: what draws them is imported when one is asked for.


@_figure.register
def _(instance: Instance) -> Any:
    from osrl.report.charts import draw_instance

    return draw_instance(instance)


@_figure.register
def _(bound: LowerBound) -> Any:
    from osrl.report.charts import draw_weights

    return draw_weights(_instance_of(bound), bound.K.allocation, "The allocation of the lower bound K")


@_figure.register
def _(allocation: Allocation) -> Any:
    from osrl.report.charts import draw_weights

    return draw_weights(_instance_of(allocation), allocation.weights, "The allocation")


@_figure.register
def _(runs: Runs) -> Any:
    from osrl.report.run_charts import draw_runs

    return draw_runs(runs)


@_figure.register
def _(trace: Trace) -> Any:
    from osrl.report.run_charts import draw_trace

    return draw_trace(trace)


@_figure.register
def _(study: Study) -> Any:
    from osrl.report.charts import draw_arms

    return draw_arms(study.arms, study.name)


def _instance_of(value: LowerBound | Allocation) -> Instance:
    """Return the instance of a bound; where only its shape is known, one with the names x1, g1, h1, ..."""
    if isinstance(value, LowerBound) and value.instance is not None:
        return value.instance
    return Instance.bernoulli(value.K.allocation if isinstance(value, LowerBound) else value.weights)
