"""Attacks on the storage of a study and on a server, counted: `make torture` writes docs/validation/.

    python -m tests.torture.run docs/validation/storage.md            # the long form
    python -m tests.torture.run --share 0.1                           # a tenth of it, to the terminal
    python -m tests.torture.run --on service docs/validation/service.md

An attack is *survived* when nothing that was acknowledged is lost, nothing wrong is believed, and what is
wrong is said in one line with the right exit code. `tests/torture/test_torture.py` runs a short form.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from osrl.jit.mode import INTERPRETED, process
from tests.support.tampering import TAMPERING
from tests.torture.base import Found
from tests.torture.bombs import bombs, overwriting
from tests.torture.files import cuts, damage, fuzz, snapshots, tampering
from tests.torture.late_rewards import late_results
from tests.torture.service import (
    crossed_roles,
    endless_headers,
    foreign_sites,
    fuzzed_calls,
    half_open,
    killed_servers,
    panics,
    repeated_requests,
    replaced_databases,
    stalled_streams,
    strangers,
    unread_downloads,
)
from tests.torture.writers import (
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
    """An attack, how often it is tried in the long form, and what came of it when it was first tried."""

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


SERVICE = (
    Attack(
        "headers that never end, without a token",
        endless_headers,
        100,
        "160 MB became 3.4 GB; asks timed out",
    ),
    Attack(
        "requests that never end, without a token",
        half_open,
        1_000,
        "over 1,000 sockets stayed open for 40 s",
    ),
    Attack("requests without a token that is known", strangers, 2_000, "1,998 of 1,998"),
    Attack("roles and studies crossed", crossed_roles, 500, "547 of 547"),
    Attack("calls with fields of any kind", fuzzed_calls, 5_000, "18,000 of 18,000"),
    Attack("servers killed or stopped under load", killed_servers, 10, "19,661 of 19,661 tells"),
    Attack("panics inside of reads", panics, 100, "reads hung for ever, and `/healthz` said *alive*"),
    Attack("downloads that nobody reads", unread_downloads, 20, "each kept a copy: 791 MB by six"),
    Attack("streams that nobody reads, at SIGTERM", stalled_streams, 2_000, "10 s, and 7.5 MB of tracebacks"),
    Attack("one Idempotency-Key for two subjects", repeated_requests, 200, "the trial of the other one"),
    Attack("pages of other sites, and two hosts", foreign_sites, 60, "signed in; the last Host counted"),
    Attack("tokens of a database that was replaced", replaced_databases, 5, "known for good"),
    Attack("small files that unpack to a gigabyte", bombs, 8, "4 GB and 15 GB of memory"),
    Attack("commands that would overwrite a study", overwriting, 20, "it was overwritten, exit code 0"),
)


def run_all(attacks: Sequence[Attack], share: float) -> list[tuple[Attack, Found, float]]:
    """Run every attack, as often as its share of the long form."""
    found = []
    for attack in attacks:
        began = time.monotonic()
        result = attack.run(max(1, round(share * attack.times)))
        found.append((attack, result, time.monotonic() - began))
        print(
            f"{attack.name}: {result.survived} of {result.tried} in {found[-1][2]:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    return found


STORAGE_INTRODUCTION = (
    "An attack is survived when nothing",
    "acknowledged is lost, nothing wrong is believed, and what is wrong is said in one line. *Before*:",
    "the first schema, without hashes, as it was attacked by hand.",
)
SERVICE_INTRODUCTION = (
    "An attack is survived when others",
    "are answered meanwhile, nothing acknowledged is lost, nothing is shown to whoever may not see it, and",
    "it takes no more than the last column says. *Before*: what was seen when it was first tried; some have",
    "always held. What else is promised, with the test of each, is in [SECURITY.md](../../SECURITY.md).",
)


# Attacks of the same days that have a test alone: what was seen, and where it is.
ELSEWHERE = (
    (
        "machine code that is empty, cut or garbage; no home, memory or room",
        "a study stopped",
        "test_caches.py",
    ),
    ("machine code in a folder of another user", "it ran", "test_caches.py"),
    ("a log from a C library that rounds otherwise", "called damaged", "test_study_replay.py"),
    ("a fork beside threads that work", "4 of 78 children hung", "test_study_processes.py"),
    ("40,000 pending trials", "31 MB of snapshot every 1,000 events", "test_study_many_pending.py"),
    ("clocks outside of 1970 to 2106", "the page was an error (500)", "test_service_misuse.py"),
    ("an ask in a signal handler", "it waited for itself", "test_service_misuse.py"),
    ("names that are formulas", "they were, in CSV", "test_service_misuse.py"),
    ("reports and token files that others may read", "made, and taken", "test_service_misuse.py"),
    ("versions of starlette with known holes", "allowed", "test_service_misuse.py"),
    ("results of others, probed with a blinded token", "there was no such token", "test_service_identity.py"),
)


def report(found: list[tuple[Attack, Found, float]], share: float, title: str, introduction: Sequence[str]) -> str:
    """Return the results as Markdown."""
    form = "the long form" if share == 1 else f"{share:g} of the long form"
    kernels = "interpreted" if process.mode == INTERPRETED else "compiled"
    lines = [
        f"# Attacks on the {title}, counted",
        "",
        f"Made by `make torture` ({form}, with {kernels} kernels). {introduction[0]}",
        *introduction[1:],
        "",
        "| attack | before | tried | survived | |",
        "|---|---|---|---|---|",
        *(f"| {a.name} | {a.before} | {f.tried} | {f.survived} | {f.said} |" for a, f, _ in found),
        "",
        *(() if title == "storage" else _elsewhere()),
        f"It took {sum(each[2] for each in found) / 60:.0f} minutes with {os.cpu_count()} cores "
        f"(load average at the end: {os.getloadavg()[0]:.0f}).",
        "",
    ]
    return "\n".join(lines)


def _elsewhere() -> list[str]:
    return [
        "These have a test each:",
        "",
        "| attack | before | test |",
        "|---|---|---|",
        *(f"| {attack} | {before} | `tests/{test}` |" for attack, before, test in ELSEWHERE),
        "",
    ]


def main() -> None:
    """Run the attacks, and write what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", nargs="?", type=Path, help="the file to write")
    parser.add_argument("--share", type=float, default=1.0, help="of the long form")
    parser.add_argument("--on", choices=("storage", "service"), default="storage", help="what is attacked")
    options = parser.parse_args()
    storage = options.on == "storage"
    attacks, introduction = (ATTACKS, STORAGE_INTRODUCTION) if storage else (SERVICE, SERVICE_INTRODUCTION)
    text = report(run_all(attacks, options.share), options.share, options.on, introduction)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
