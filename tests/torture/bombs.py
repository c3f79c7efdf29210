"""Small files that would take much memory, and commands that would overwrite: see `tests.torture.run`."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import polars as pl

from tests.support.processes import run_python
from tests.support.studies import new_study, play
from tests.torture.base import Found, folder, said

COLUMNS = ("task", "representation", "predictor", "reward")
MOST = 1500  # megabytes


def bombs(times: int) -> Found:
    """Give `osrl analyse` Parquet and gzip that become a gigabyte and more: it refuses them, with little memory."""
    survived, most = 0, 0.0
    with folder() as place:
        for i in range(times):
            code, line, used = _analyse(_make(place, MAKERS[i % len(MAKERS)].__name__))
            most = max(most, used)
            survived += code == 2 and len(line.splitlines()) == 1 and used < MOST
    return Found(times, survived, f"refused in one line, with at most {most:,.0f} MB of memory")


def _long_text(place: Path) -> Path:
    pl.DataFrame({name: ["x" * 10**6] * 1000 for name in COLUMNS[:1]}).write_parquet(place / "text.parquet")
    return place / "text.parquet"


def _late(place: Path) -> Path:
    values = ["a"] * 500 + ["x" * 10**6] * 1000
    pl.DataFrame({COLUMNS[0]: values}).write_parquet(place / "late.parquet")
    return place / "late.parquet"


def _nested(place: Path) -> Path:
    frame = pl.DataFrame({"a": [[0] * 1000]}).select(pl.col("a").repeat_by(100_000).explode())
    frame.with_columns(**{name: pl.lit("1") for name in COLUMNS}).write_parquet(place / "nested.parquet")
    return place / "nested.parquet"


def _packed(place: Path) -> Path:
    with gzip.open(place / "log.csv.gz", "wb", compresslevel=1) as file:
        file.write(",".join(COLUMNS).encode() + b"\n")
        for _ in range(100):
            file.write(b"de,new,a,1\n" * 10**6)
    return place / "log.csv.gz"


MAKERS = (_long_text, _nested, _late, _packed)


def _make(place: Path, maker: str) -> Path:
    """Make a file in a process of its own: a child counts what its parent had when it was born."""
    program = "import sys, pathlib; from tests.torture import bombs; "
    program += f"print(bombs.{maker}(pathlib.Path(sys.argv[1])))"
    return Path(run_python("-c", program, str(place)).stdout.strip())


def _analyse(file: Path) -> tuple[int, str, float]:
    """Return the exit code of `osrl analyse`, what it says, and the megabytes that it has taken."""
    command = [sys.executable, "-m", "osrl.cli", "analyse", str(file)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, line, usage.ru_maxrss / 1000


def overwriting(times: int) -> Found:
    """Write backups and reports onto a live study: refused, and the study is as it was."""
    survived = 0
    with folder() as place:
        live, old = place / "live.db", place / "old.db"
        for path, trials in ((live, 20), (old, 3)):
            with new_study(str(path)) as study:
                play(study, trials)
        for i in range(times):
            before = live.read_bytes()
            if i % 2:
                code, _, line = said("backup", old, live)
            else:
                code, _, line = said("report", old, "--out", live)
            survived += code != 0 and len(line.strip().splitlines()) == 1 and live.read_bytes() == before
    return Found(times, survived, "`osrl study backup OLD LIVE`, `report --out LIVE`")
