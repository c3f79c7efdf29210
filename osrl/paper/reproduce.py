"""`reproduce`: the paper's experiments again, in a folder with tables, figures and one report."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

import osrl.report.charts  # noqa: F401  (first, because its message names the extra that is missing)
from osrl.errors import OsrlError
from osrl.files import replace_file
from osrl.model.instance import Instance
from osrl.paper.experiment import Experiment, no_progress
from osrl.paper.published import AGREES, DIFFERS, PUBLISHED_RUNS
from osrl.paper.report import (
    ReportPart,
    baselines_part,
    figures_part,
    page_of,
    pairs_part,
    table_1_part,
    table_2_part,
)
from osrl.report.charts import save
from osrl.text import printable

PAPER_PARTS = ("table1", "table2", "figures")  # of the paper
EXTRA_PARTS = ("pairs", "others")  # which the paper does not have
DEFAULT_FOLDER = "paper-results"
SETTINGS = "settings.json"
REPORT = "report.html"


class Reproduction(NamedTuple):
    """The results, and where they are written."""

    runs: int
    seed: int
    parts: Sequence[ReportPart]
    folder: Path
    files: Sequence[str]  # within the folder

    def document(self) -> dict[str, Any]:
        """Return the document of `osrl paper --json`: the records of each CSV file under its name."""
        drawn = [figure for part in self.parts for figure in part.figures]
        return {
            "runs": self.runs,
            "seed": self.seed,
            **{name: list(records) for part in self.parts for name, records in part.records.items()},
            "figures": [{"name": figure.name, "caption": figure.caption} for figure in drawn],
            "folder": str(self.folder),
            "files": list(self.files),
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the tables for the terminal."""
        for part in self.parts:
            yield from part.grids
        yield Text(summary(self.parts))
        yield Text(printable(f"Everything is in {self.folder}; open {self.folder / REPORT}"), overflow="fold")


def summary(parts: Sequence[ReportPart]) -> str:
    """Say how many numbers agree with what was published."""
    words = Counter(record["verdict"] for part in parts for record in part.judged())
    agreement = (
        f"Of {words.total()} numbers that stand beside a published one, {words[AGREES]} agree within "
        f"sampling error and {words[DIFFERS]} differ, for the reasons given."
    )
    left = words.total() - words[AGREES] - words[DIFFERS]
    return f"{agreement} {left} were not judged." if left else agreement


def reproduce(
    part: str | Sequence[str] = "all",
    *,
    runs: int = PUBLISHED_RUNS,
    seed: int = 0,
    out: str | os.PathLike[str] = DEFAULT_FOLDER,
    workers: int | None = None,
    released: bool = True,
    progress: Callable[[str, int, int], None] = no_progress,
) -> Reproduction:
    """Run ``part`` of the paper's experiments, one or several; write the results to ``out``.

    Parts are table1, table2 and figures, and besides them pairs (every sampling rule with every stopping
    rule) and others (published numbers of others); all of them by default.

    ``released``: with `osrl-sc-released`, the policy that made the published numbers, which takes longest.
    Finished runs of Table 1 survive an interruption: the same call continues where it stopped.
    ``progress(what, done, total)`` is called as each piece of work advances.
    """
    known = (*PAPER_PARTS, *EXTRA_PARTS)
    wanted = known if part == "all" else (part,) if isinstance(part, str) else tuple(part)
    for name in wanted:
        if name not in known:
            raise OsrlError(f"the paper has no part {name!r}; use one of {', '.join(known)}, all")
    for name, value, least in (("runs", runs, 1), ("seed", seed, 0), ("workers", workers, 1)):
        if value is not None and not least <= value < 2**63:
            raise OsrlError(f"{name} is {value}; give a whole number, at least {least}")
    experiment = Experiment(Instance.load("paper"), runs, seed, workers, released, progress)
    folder = _open_folder(Path(out), {"runs": runs, "seed": seed})
    made = [_make_part(name, experiment, folder) for name in wanted]
    files = [*_write_tables(made, folder), *_write_figures(made, folder, experiment.progress_for("figures")), REPORT]
    replace_file(folder / REPORT, page_of(made, runs, seed, summary(made)).encode())
    return Reproduction(runs, seed, made, folder, files)


def _make_part(name: str, experiment: Experiment, folder: Path) -> ReportPart:
    if name == "table1":
        return table_1_part(experiment, folder / "runs")
    makers = {"table2": table_2_part, "figures": figures_part, "pairs": pairs_part, "others": baselines_part}
    return makers[name](experiment)


def _open_folder(folder: Path, settings: dict[str, int]) -> Path:
    """Open the folder, new or with results of the same settings; refuse anything else."""
    if folder.exists() and not folder.is_dir():
        raise OsrlError(f"{folder} is a file; name a folder for the results")
    if folder.exists() and any(folder.iterdir()):
        try:
            held = json.loads((folder / SETTINGS).read_bytes())
        except (OSError, ValueError):
            raise OsrlError(f"{folder} holds other files; name a new folder for the results") from None
        if held != settings:
            said = ", ".join(f"{name} {value}" for name, value in held.items())
            raise OsrlError(f"{folder} holds the results of {said}; name another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / SETTINGS, json.dumps(settings).encode())
    return folder


def _write_tables(parts: Sequence[ReportPart], folder: Path) -> Iterator[str]:
    """Write the CSV files, and yield their names."""
    for part in parts:
        tables = {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in part.records.items()}
        for name, table in {**tables, **part.data}.items():
            content = io.BytesIO()
            table.write_csv(content)
            replace_file(folder / f"{name}.csv", content.getvalue())
            yield f"{name}.csv"


def _write_figures(parts: Sequence[ReportPart], folder: Path, progress: Callable[[int, int], None]) -> Iterator[str]:
    """Write PNG and PDF files, and yield their names."""
    drawn = [figure for part in parts for figure in part.figures]
    (folder / "figures").mkdir(exist_ok=True)
    for i, figure in enumerate(drawn):
        progress(i, len(drawn))
        for path in save(figure, folder / "figures"):
            yield path.relative_to(folder).as_posix()
    progress(len(drawn), len(drawn))
