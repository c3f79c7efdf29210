"""The documentation site builds without a warning, is complete, and asks nothing of other machines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.processes import run_python

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    run_python(str(ROOT / "docs" / "site" / "build.py"), str(folder), cwd=ROOT)
    return folder / "html"


def test_every_section_is_there(site: Path) -> None:
    for section in ("start", "guides", "gallery", "reference", "theory", "developing", "measured"):
        assert (site / section / "index.html").is_file()


def test_nothing_is_asked_of_other_machines(site: Path) -> None:
    """No script, style, font or image from elsewhere; links that a reader clicks on may lead anywhere."""
    loads = r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=\"([^\"]+)\"|<link\b[^>]*?\bhref=\"([^\"]+)\""
    pages = sorted(site.rglob("*.html"))
    found = [name for page in pages for pair in re.findall(loads, page.read_text()) for name in pair if name]
    assert len(pages) > 40 and len(found) > 100
    assert [name for name in found if re.match(r"(https?:)?//", name)] == []
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", style.read_text()) == []


def test_the_reference_has_every_command_and_every_name(site: Path) -> None:
    import osrl

    commands = (site / "reference" / "commands.html").read_text()
    for command in ("osrl bound", "osrl simulate", "osrl study ask", "osrl study verify", "osrl serve"):
        assert f'id="{command.replace(" ", "-")}"' in commands
    names = (site / "reference" / "python.html").read_text()
    for name in osrl.__all__:
        home = getattr(osrl, name).__module__
        assert f'id="osrl.{name}"' in names or f'id="{home}.{name}"' in names, name


def test_search_works_from_the_disk(site: Path) -> None:
    """The index is a script, which a browser loads without a server."""
    assert (site / "searchindex.js").read_text().startswith("Search.setIndex(")


def test_the_overview_for_programs_links_to_pages(site: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text())
    assert len(links) > 30
    assert [link for link in links if not (site / link).is_file()] == []
