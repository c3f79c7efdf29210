"""Files and modules that documents, docstrings and tests name do exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"\b((?:osrl|tests|benchmarks|examples|docs)/[\w/-]+\.(?:py|md|toml|json))\b")
MODULE = re.compile(r"\b(?:from|import) ((?:osrl|tests)(?:\.\w+)+)")
PATCHED = re.compile(r"\"(osrl\.[a-z_]+(?:\.\w+)+)\"")  # such as "osrl.model.rng.uniform"
PLACEHOLDERS = ("docs/NAME.md",)


def documents() -> list[Path]:
    """Return the sources and pages that speak of the present: changelog and measurements speak of the past."""
    folders = ("osrl", "tests", "benchmarks", "examples", "docs")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]
    found = [path for path in found if "results" not in path.parts]
    return sorted([*found, *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md")])


def test_what_is_named_exists() -> None:
    """Also in strings, such as the programs that a test runs."""
    missing = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        files = [name for name in FILE.findall(text) if name not in PLACEHOLDERS and not (ROOT / name).exists()]
        modules = [name for name in MODULE.findall(text) if not _is_module(ROOT / name.replace(".", "/"))]
        patched = [name for name in PATCHED.findall(text) if path.is_relative_to(ROOT / "tests") and not _is_in(name)]
        missing += [f"{path.relative_to(ROOT)}: {name}" for name in (*files, *modules, *patched)]
    assert missing == []


def _is_in(name: str) -> bool:
    """Tell whether a dotted name is a module, or something in a module: an attribute, or an attribute of one."""
    parts = name.split(".")
    return _is_module(ROOT.joinpath(*parts)) or any(
        ROOT.joinpath(*parts[:-depth]).with_suffix(".py").exists() for depth in (1, 2)
    )


def _is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()
