"""One page that holds everything: text, tables, charts and the script that draws them.

It opens without a network, in light or dark, as the reader prefers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from osrl.report.charts import Figure, javascript, specification, theme

_STYLE = """
:root {
  color-scheme: light dark;
  --ink: #222; --faint: #666; --line: #ddd; --paper: #fff; --good: #1a7f37; --bad: #9a5b00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e6e6; --faint: #a0a0a0; --line: #3a3d44; --paper: #16181c; --good: #58c46e; --bad: #e0a040;
  }
}
body {
  background: var(--paper); color: var(--ink); font: 15px/1.5 Helvetica, Arial, sans-serif;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
}
h1 { font-size: 1.6rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; border-bottom: 1px solid var(--line); }
p, figcaption { max-width: 50rem; }
.note { margin: .2rem 0; }
.note, figcaption, footer { color: var(--faint); font-size: .9rem; }
figure { margin: 1.2rem 0; overflow-x: auto; }
.grid { margin-bottom: .4rem; }
.grid figcaption { font-weight: bold; color: var(--ink); }
table { border-collapse: collapse; font-size: .88rem; }
th, td { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: top; }
td:first-child { white-space: pre-wrap; }
thead th { border-bottom: 2px solid var(--line); }
tbody { border-bottom: 1px solid var(--line); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.quiet { color: var(--faint); }
.strong { font-weight: bold; }
nav a { margin-right: 1rem; color: inherit; }
"""

# Charts are drawn again when the reader changes between light and dark.
_DRAW = """
const dark = matchMedia("(prefers-color-scheme: dark)");
function draw() {
  for (const [id, spec] of Object.entries(charts))
    vegaEmbed("#" + id, spec, {actions: false, renderer: "svg", config: themes[dark.matches ? 1 : 0]});
}
dark.addEventListener("change", draw);
draw();
"""


class Section(NamedTuple):
    """A heading and what stands below it: pieces of HTML from `text`, `Page.figure` and `Grid.html`."""

    title: str
    pieces: Sequence[str]


class Page:
    """A page in the making: it collects the charts that its script will draw."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._charts: dict[str, dict[str, Any]] = {}

    def figure(self, figure: Figure) -> str:
        """The place of a figure, with its caption."""
        self._charts[figure.name] = specification(figure)
        caption = f"<figcaption>{escape(figure.caption)}</figcaption>"
        return f"<figure><div id='{escape(figure.name)}'></div>{caption}</figure>"

    def render(self, introduction: Sequence[str], sections: Sequence[Section], footer: str) -> str:
        """The whole page."""
        links = "".join(f"<a href='#s{i}'>{escape(one.title)}</a>" for i, one in enumerate(sections))
        body = "".join(
            f"<section id='s{i}'><h2>{escape(one.title)}</h2>{''.join(one.pieces)}</section>"
            for i, one in enumerate(sections)
        )
        return (
            "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
            "<meta name='viewport' content='width=device-width, initial-scale=1'>"
            f"<title>{escape(self.title)}</title><style>{_STYLE}</style></head><body>"
            f"<h1>{escape(self.title)}</h1>{''.join(introduction)}<nav>{links}</nav>{body}"
            f"<footer><p>{escape(footer)}</p></footer>{self._script()}</body></html>\n"
        )

    def _script(self) -> str:
        if not self._charts:
            return ""
        themes = [theme(), theme(dark=True)]
        data = f"const charts = {_script_json(self._charts)}, themes = {_script_json(themes)};"
        return f"<script>{_inline(javascript())}</script><script>{data}{_DRAW}</script>"


def text(paragraph: str) -> str:
    """A paragraph."""
    return f"<p>{escape(paragraph)}</p>"


def _script_json(value: Any) -> str:
    """JSON inside a script element, where a closing tag in a string would end the script."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _inline(script: str) -> str:
    """A script as the content of a script element; a closing tag can only stand in its strings."""
    return script.replace("</script", "<\\/script")
