"""One HTML page that holds everything: text, tables, charts and the script that draws them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from osrl.report.charts import Figure, javascript, specification, theme
from osrl.report.table import Grid
from osrl.report.templating import Markup, new_environment


class Section(NamedTuple):
    """A heading, and below it paragraphs, tables and figures."""

    title: str
    text: Sequence[str]
    grids: Sequence[Grid] = ()
    figures: Sequence[Figure] = ()


def render_page(title: str, introduction: Sequence[str], sections: Sequence[Section], footer: str) -> str:
    """Return a page that opens without a network; its charts follow the reader's choice of light or dark."""
    charts = {figure.name: specification(figure) for section in sections for figure in section.figures}
    template = new_environment("osrl.report").get_template("page.html")
    return template.render(
        title=title,
        introduction=introduction,
        sections=sections,
        footer=footer,
        charts=_script_json(charts) if charts else "",
        themes=_script_json([theme(), theme(dark=True)]),
        # Inside a script element a closing tag can only stand in a string.
        vega=Markup(javascript().replace("</script", "<\\/script")) if charts else "",
    )


def _script_json(value: Any) -> Markup:
    """Return JSON for a script element, which a closing tag in a string would end."""
    return Markup(json.dumps(value, allow_nan=False).replace("<", "\\u003c"))
