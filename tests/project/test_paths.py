"""Files and modules that documents, docstrings and tests name do exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"\b((?:osrl|tests|benchmarks|examples|docs)/[\w/-]+\.(?:py|md|toml|json))\b")
MODULE = re.compile(r"\b(?:from|import) ((?:osrl|tests)(?:\.\w+)+)")
PLACEHOLDERS = ("docs/NAME.md",)


def documents() -> list[Path]:
    """Return the sources and pages that speak of the present: the changelog speaks of the past."""
    folders = ("osrl", "tests", "benchmarks", "examples", "docs")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]
    return sorted([*found, *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md")])


def test_what_is_named_exists() -> None:
    """Also in strings, such as the programs that a test runs."""
    missing = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        files = [name for name in FILE.findall(text) if name not in PLACEHOLDERS and not (ROOT / name).exists()]
        modules = [name for name in MODULE.findall(text) if not _is_module(ROOT / name.replace(".", "/"))]
        missing += [f"{path.relative_to(ROOT)}: {name}" for name in (*files, *modules)]
    assert missing == []


def _is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()
