"""HTML pages from templates (Jinja2), in which every value is escaped: names are text, whatever they contain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from osrl.errors import OsrlError
from osrl.report.table import Grid
from osrl.text import printable

try:
    from jinja2 import Environment as Environment
    from jinja2 import PackageLoader, StrictUndefined
    from markupsafe import Markup as Markup
except ImportError:
    raise OsrlError("pages need jinja2, which is not installed; run: pip install 'osrl[page]'") from None


if TYPE_CHECKING:
    from osrl.report.charts import Figure


def new_environment(package: str) -> Environment:
    """Return the environment of the templates of a package."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )


class Section(NamedTuple):
    """A heading, and below it paragraphs, tables and figures."""

    title: str
    text: Sequence[str]
    grids: Sequence[Grid] = ()
    figures: Sequence[Figure] = ()


def render_page(title: str, introduction: Sequence[str], sections: Sequence[Section], footer: str) -> str:
    """Return a page that opens without a network; its charts follow the reader's choice of light or dark."""
    from osrl.report.charts import javascript, specification, theme  # an extra, which pages of studies do not need

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
