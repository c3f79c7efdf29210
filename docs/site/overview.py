"""`llms.txt`: what the site has, one line for each page, for readers that are programs (llmstxt.org)."""

from __future__ import annotations

import re
from pathlib import Path

HEAD = """# osrl

> Best-arm identification for tasks that share a representation: find one choice for all tasks and one for
> each, with few samples and a stated risk of being wrong. Certified lower bounds, policies, simulation, and
> live studies with durable storage, from Python, the command line or over HTTP.

Words: a task is a market, a group of patients or a data set; a representation is chosen once for all tasks (a
page design, a drug, a model); a predictor is chosen for each task (a headline, a dose, a prompt); an arm is a
pair of them; a trial is one arm that is tried; `delta` is the accepted risk, `epsilon` the difference that
does not matter.
"""
SECTIONS = {
    "start": "Start",
    "guides": "Guides",
    "gallery": "Gallery",
    "reference": "Reference",
    "theory": "Theory",
    "developing": "Developing",
    "measured": "Measured",
}


def llms_text(source: Path) -> str:
    """Return the overview of the pages below a folder, by section."""
    lines = [HEAD]
    for folder, title in SECTIONS.items():
        lines.append(f"## {title}\n")
        pages = sorted((source / folder).rglob("*.md"), key=lambda page: (page.stem != "index", page))
        for page in pages:
            text = page.read_text(encoding="utf-8")
            heading = re.search(r"^# (.+)$", text, re.M)
            if heading is None:
                raise SystemExit(f"{page} has no heading; begin it with one")
            lines.append(f"- [{heading[1]}]({page.relative_to(source).with_suffix('.html').as_posix()})")
        lines.append("")
    return "\n".join(lines)
