"""Charts: one look for files and pages, light and dark.

Charts are made with Altair and carry no theme of their own. Files get the light theme; a page picks
the theme that its reader prefers (`osrl.report.html`). Nothing is loaded from elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from osrl.errors import OsrlError
from osrl.files import replace_file

try:
    import altair as alt
    import vl_convert
except ImportError as error:
    raise OsrlError(f"charts need {error.name}, which is not installed; run: pip install 'osrl[charts]'") from None

# Colours that differ for every kind of eyesight, on white and on black (after Okabe and Ito).
BLUE, SKY, ORANGE, GREEN, PURPLE, GREY = "#1f7fc4", "#6fc0ef", "#d55e00", "#009e73", "#cc79a7", "#8c8c8c"

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
PIXELS = 2.0  # of a PNG, for each unit of length


class Figure(NamedTuple):
    """A chart, what to call its files, and what it shows."""

    name: str  # fit for a file name and an HTML id
    caption: str
    chart: Any


def theme(*, dark: bool = False) -> dict[str, Any]:
    """Fonts, lines and colours of every chart, as a configuration of Vega-Lite."""
    ink, faint, paper = ("#e6e6e6", "#444444", "#16181c") if dark else ("#222222", "#e3e3e3", "#ffffff")
    text = {"labelColor": ink, "titleColor": ink}
    return {
        "background": paper,
        "font": "Helvetica, Arial, 'Liberation Sans', sans-serif",
        "view": {"stroke": None},
        "axis": {
            **text,
            "gridColor": faint,
            "domainColor": ink,
            "tickColor": ink,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
        },
        "legend": {
            **text,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "labelLimit": 400,
            "symbolStrokeWidth": 2,
        },
        "header": {**text, "labelFontSize": 12, "titleFontSize": 12},
        "title": {
            "color": ink,
            "subtitleColor": ink,
            "fontSize": 13,
            "subtitleFontSize": 11,
            "anchor": "start",
            "fontWeight": "bold",
        },
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": ink},
        "line": {"strokeWidth": 1.8},
    }


def specification(figure: Figure) -> dict[str, Any]:
    """A figure as Vega-Lite, without a theme."""
    spec: dict[str, Any] = figure.chart.to_dict()
    spec.pop("config", None)
    return spec


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write a figure as PNG and PDF; the two files."""
    spec, config = specification(figure), theme()
    png = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, config=config, scale=PIXELS)
    pdf = vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE, config=config)
    files = [folder / f"{figure.name}.png", folder / f"{figure.name}.pdf"]
    for path, content in zip(files, (png, pdf), strict=True):
        replace_file(path, content)
    return files


def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, which defines ``vegaEmbed``."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE))
