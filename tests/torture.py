"""Attacks on the storage of a study, counted: `make torture` writes docs/validation/storage.md.

    python -m tests.torture docs/validation/storage.md            # the long form
    python -m tests.torture --share 0.1                           # a tenth of it, to the terminal

An attack is *survived* when nothing that was acknowledged is lost, nothing wrong is believed, and what is
wrong is said in one line with the right exit code. `tests/test_torture.py` runs a short form.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from osrl.way import INTERPRETED, process
from tests.tampering import TAMPERING
from tests.torture_base import Found
from tests.torture_files import cuts, damage, fuzz, snapshots, tampering
from tests.torture_late import late_results
from tests.torture_writers import (
    backups,
    failovers,
    frozen,
    full_disks,
    kills,
    skew,
    starvation,
    system_calls,
    vanished,
)


class Attack(NamedTuple):
    """An attack, how often it is tried in the long form, and what came of it before there were hashes."""

    name: str
    run: Callable[[int], Found]
    times: int
    before: str


ATTACKS = (
    Attack("writers killed at random", kills, 960, "960 of 960"),
    Attack("writers killed at single system calls", system_calls, 100, "100 of 100"),
    Attack("random damage", damage, 400, "some silent, some *call again*"),
    Attack("files that are cut", cuts, 60, "*holds no study; create one there*"),
    Attack("tampering", tampering, len(TAMPERING), "36 of 72"),
    Attack("changed snapshots", snapshots, 60, "a verdict could be set"),
    Attack("clocks that jump", skew, 100, "not noted"),
    Attack("failover to a copy that lagged", failovers, 20, "told onto another arm"),
    Attack("full disk", full_disks, 20, "survived"),
    Attack("write-ahead log removed", vanished, 10, "not noticed"),
    Attack("copies of a running study", backups, 15, "0 of 15: 11 older, 4 empty"),
    Attack("pending in two processes, to the verdict", late_results, 20_000, "*database is locked*"),
    Attack("24 writers, none waits 2 s", starvation, 24, "longest wait 63.7 s"),
    Attack("a server that does not answer", frozen, 2, "hung for 200 s"),
    Attack("imported files changed at random", fuzz, 300, "200 tracebacks of 1,200"),
)


def run_all(share: float) -> list[tuple[Attack, Found, float]]:
    """Every attack, as often as its share of the long form."""
    found = []
    for attack in ATTACKS:
        began = time.monotonic()
        result = attack.run(max(1, round(share * attack.times)))
        found.append((attack, result, time.monotonic() - began))
        print(
            f"{attack.name}: {result.survived} of {result.tried} in {found[-1][2]:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    return found


def report(found: list[tuple[Attack, Found, float]], share: float) -> str:
    """The results as Markdown."""
    form = "the long form" if share == 1 else f"{share:g} of the long form"
    kernels = "interpreted" if process.way == INTERPRETED else "compiled"
    lines = [
        "# Attacks on the storage, counted",
        "",
        f"Made by `make torture` ({form}, with {kernels} kernels). An attack is survived when nothing",
        "acknowledged is lost, nothing wrong is believed, and what is wrong is said in one line. *Before*:",
        "the first schema, without hashes, as it was attacked by hand.",
        "",
        "| attack | before | tried | survived | |",
        "|---|---|---|---|---|",
        *(f"| {a.name} | {a.before} | {f.tried} | {f.survived} | {f.said} |" for a, f, _ in found),
        "",
        f"It took {sum(each[2] for each in found) / 60:.0f} minutes with {os.cpu_count()} cores "
        f"(load average at the end: {os.getloadavg()[0]:.0f}).",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run the attacks, and write what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", nargs="?", type=Path, help="the file to write")
    parser.add_argument("--share", type=float, default=1.0, help="of the long form")
    options = parser.parse_args()
    text = report(run_all(options.share), options.share)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
