"""The template engine of pages and reports: Jinja2, which escapes every value."""

from __future__ import annotations

from osrl.errors import OsrlError
from osrl.text import printable

try:
    from jinja2 import Environment as Environment
    from jinja2 import PackageLoader, StrictUndefined
    from markupsafe import Markup as Markup
except ImportError:
    raise OsrlError("pages need jinja2, which is not installed; run: pip install 'osrl[page]'") from None


def new_environment(package: str) -> Environment:
    """Return an environment for the templates of a package; names are text, whatever they contain."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
