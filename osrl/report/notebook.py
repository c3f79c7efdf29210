"""Results in a notebook: what the command line prints as HTML, and an Altair chart for ``plot()``.

The classes of results lie below this package. Their methods ``_repr_html_`` and ``plot`` import this module when they
are called. Charts are an extra: what draws them is imported when one is asked for.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from osrl.report.charts import Figure

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


def _report(result: object) -> RenderableType:
    match result:
        case Instance():
            return Group(Text(describe(result)), Columns(means_tables(result), padding=(0, 4)))
        case LowerBound(instance=None):
            return AllocationView(_instance_of(result), result.K.allocation, result.best)
        case LowerBound(instance=Instance() as instance):
            alone = separate_tasks(instance, result.delta_g, result.delta_h, tolerance=TOLERANCE)
            return BoundReport(instance, result, alone, TOLERANCE)
        case Allocation():
            best = BestArms(-1, (-1,) * result.weights.shape[0])
            interval = f"value between {result.lower:.6g} and {result.upper:.6g}"
            return Group(AllocationView(_instance_of(result), result.weights, best), Text(interval))
        case Runs():
            return SimulationReport(result.instance, result.summary())
        case Study():
            return StudyReport(result.place, result.name, result.status)
        case Status():
            return StudyReport("", "study", result)
    raise OsrlError(f"there is no report of {type(result).__name__}")


def _figure(result: object) -> Figure:
    from osrl.report.charts import draw_arms, draw_instance, draw_weights
    from osrl.report.run_charts import draw_runs, draw_trace

    match result:
        case Instance():
            return draw_instance(result)
        case LowerBound():
            return draw_weights(_instance_of(result), result.K.allocation, "The allocation of the lower bound K")
        case Allocation():
            return draw_weights(_instance_of(result), result.weights, "The allocation")
        case Runs():
            return draw_runs(result)
        case Trace():
            return draw_trace(result)
        case Study():
            return draw_arms(result.arms, result.name)
    raise OsrlError(f"there is no chart of {type(result).__name__}")


def _instance_of(value: LowerBound | Allocation) -> Instance:
    """Return the instance of a bound; where only its shape is known, one with the names x1, g1, h1, ..."""
    if isinstance(value, LowerBound) and value.instance is not None:
        return value.instance
    return Instance.bernoulli(value.K.allocation if isinstance(value, LowerBound) else value.weights)
