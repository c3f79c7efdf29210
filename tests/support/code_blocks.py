"""What stands in the pages of the docs, beside what is printed when it is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = "ibex|lynx|low|high|young|old|France|Spain|plain|friendly"


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield the console and Python blocks of a page, in order, the latter with what they print."""
    block = r"```(console|python)\n(.*?)```(?:\n\n```(?:text)?\n(.*?)```)?"
    yield from re.findall(block, (ROOT / page).read_text(encoding="utf-8"), re.S)


def masked(text: str) -> list[str]:
    """Return the lines of a text without what depends on chance, time and the width of a terminal."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"\b[0-9a-f]{64}\b", "HASH", line)
        line = re.sub(r"[█░]+", "=", line)
        line = re.sub(r"─+", "-", line)
        line = re.sub(rf"\b({NAMES})\b", "@", line)
        line = re.sub(r"-?\d[\d,.]*", "#", line)
        line = re.sub(r"\bsecond\b", "seconds", line)
        line = " ".join(line.split())
        if line:
            lines.append(line)
    return lines


def compare(written: list[str], printed: list[str]) -> None:
    """Check that the lines of a page were printed, in this order; "..." stands for any lines."""
    skipping = False
    rest = iter(printed)
    for line in written:
        if line == "...":
            skipping = True
            continue
        found = next(rest, None)
        while skipping and found is not None and found != line:
            found = next(rest, None)
        assert found == line
        skipping = False
    assert skipping or next(rest, None) is None
