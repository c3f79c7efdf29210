"""Lay out the pages of the site: the Markdown files of the repository at their places, and generated ones.

Pages are written where a reader of the repository looks for them, with links that work there. The site has
its own order (Start, Guides, Gallery, Reference, Theory, Developing), so files are moved, and every relative
link is made to point to the new place of its target. A link to a file that is not there is an error.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from commands import commands_page
from overview import llms_text

ROOT = Path(__file__).resolve().parents[2]
THEORY = ("guarantee.md", "solver.md", "bound.md")
AT_ROOT = {
    "NOTATION.md": "theory/notation.md",
    "CHANGELOG.md": "developing/changelog.md",
    "CONTRIBUTING.md": "developing/contributing.md",
    "SECURITY.md": "developing/security.md",
    "README.md": "index.md",
    "benchmarks/README.md": "measured/index.md",
    "docs/site/conf.py": "conf.py",
}
COPIED = (".md", ".png", ".jpg", ".svg", ".py", ".toml", ".csv")  # what a page may show or link to
LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )([^)\s#:]+)(#[\w-]+)?(?=[)\s])", re.M)


def place_of(file: str) -> str | None:
    """Where a file of the repository stands on the site; None if it has no place there."""
    if file in AT_ROOT:
        return AT_ROOT[file]
    path = PurePosixPath(file)
    if path.suffix not in COPIED or path.parts[:2] == ("docs", "site"):
        return None
    match path.parts:
        case ("docs", "index.md"):
            return "index.md"
        case ("docs", name) if path.suffix == ".md":
            return f"theory/{name}" if name in THEORY else f"guides/{name}"
        case ("docs", "validation", *rest):
            return "/".join(["theory/validation", *rest])
        case ("docs", *rest):
            return "/".join(rest)
        case ("benchmarks", "results", name):
            return f"measured/{name}"
        case ("examples" | "benchmarks", *_):
            return file
    return None


def files() -> Iterator[str]:
    """Return the files of the repository that the site may show."""
    yield from (name for name in AT_ROOT if name != "README.md")
    for folder in ("docs", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and name not in AT_ROOT:
                yield name


def moved(text: str, file: str, place: str) -> str:
    """Return the text of a page with links as they must be from its place on the site."""

    def target(link: re.Match[str]) -> str:
        before, path, anchor = link[1], link[2], link[3] or ""
        wanted = os.path.normpath(os.path.join(os.path.dirname(file), path)).replace(os.sep, "/")
        if not (ROOT / wanted).exists():
            raise SystemExit(f"{file} links to {path}, which is not there; mend the link")
        there = place_of(wanted)
        if there is None:
            raise SystemExit(f"{file} links to {path}, which is not on the site; name it without a link")
        return f"{before}{os.path.relpath(there, os.path.dirname(place) or '.')}{anchor}"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)  # code is left as it is
    return "".join(part if part.startswith("```") else LINK.sub(target, part) for part in parts)


def complete(index: Path) -> None:
    """Let the index of a section list the pages that it does not name, so that a new file is on the site."""
    text = index.read_text(encoding="utf-8")
    listed = {line for tree in re.findall(r"```{toctree}(.*?)```", text, re.S) for line in tree.split()}
    pages = (page.relative_to(index.parent).with_suffix("").as_posix() for page in index.parent.rglob("*.md"))
    if rest := sorted(set(pages) - listed - {"index"}):
        tree = "\n".join(["```{toctree}", ":maxdepth: 1", "", *rest, "```"])
        index.write_text(f"{text}\n{tree}\n", encoding="utf-8")


def assemble(out: Path) -> None:
    """Write the whole source of the site to a folder that is made anew."""
    shutil.rmtree(out, ignore_errors=True)
    for file in files():
        place = place_of(file)
        if place is None:
            continue
        destination = out / place
        destination.parent.mkdir(parents=True, exist_ok=True)
        if destination.suffix == ".md":
            text = (ROOT / file).read_text(encoding="utf-8")
            destination.write_text(moved(text, file, place), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / file, destination)
    (out / "reference" / "commands.md").write_text(commands_page(), encoding="utf-8")
    for index in out.glob("*/index.md"):
        complete(index)
    (out / "llms.txt").write_text(llms_text(out), encoding="utf-8")
