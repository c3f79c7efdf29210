"""How results show themselves in a notebook; what draws them lies far above, and is found when needed."""

from __future__ import annotations

import importlib
from typing import Any


def draw(value: Any, **options: Any) -> Any:
    """An Altair chart of a result."""
    return importlib.import_module("osrl.report.notebook").draw(value, **options)


def as_html(value: Any) -> str:
    """A result as a notebook shows it: what the command line prints."""
    page: str = importlib.import_module("osrl.report.notebook").as_html(value)
    return page
