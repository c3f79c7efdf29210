"""Sphinx's settings for the site; `assemble.py` has laid its pages out before."""

from importlib.metadata import version as installed

project = "osrl"
author = "the osrl authors"
copyright = "the osrl authors, MIT licence"
version = release = installed("osrl")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 3

# Docstrings are prose with `names` in backticks, not cross-references.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90

html_theme = "furo"
html_title = f"osrl {release}"
html_extra_path = ["llms.txt"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"source_edit_link": "", "navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"


def _plain_bars(app, what, name, object, options, lines):
    """Bars in docstrings are absolute values, not the substitutions of reStructuredText."""
    lines[:] = [line if "`" in line or ">>>" in line else line.replace("|", "\\|") for line in lines]


def setup(app):
    """Connect to the events of Sphinx, which calls this."""
    app.connect("autodoc-process-docstring", _plain_bars)
