"""`osrl paper`: the paper's experiments, with the published numbers beside ours."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from osrl.cli.options import Json
from osrl.cli.output import Progress, echo, print_report, progress_bar, working


def paper(
    part: Annotated[
        str, typer.Argument(metavar="[PART]", help="table1, table2, figures, pairs, others or all.")
    ] = "all",
    runs: Annotated[int | None, typer.Option(help="Number of runs for each policy.  [default: 1120]")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder for tables, figures and report.html.  [default: paper-results]"),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Threads.  [default: one for each core]")] = None,
    released: Annotated[
        bool, typer.Option("--released/--no-released", help="Include osrl-sc-released, which takes longest.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Repeat the paper's experiments and compare them with the published numbers."""
    with working("loading ..."):
        # Here, not above: these load kernels, which help and usage errors do not need.
        from osrl.paper.published import PUBLISHED_RUNS
        from osrl.paper.reproduce import DEFAULT_FOLDER, reproduce

        folder = DEFAULT_FOLDER if out is None else out
    with _Stages() as stages:
        try:
            reproduction = reproduce(
                part,
                runs=PUBLISHED_RUNS if runs is None else runs,
                seed=seed,
                out=folder,
                workers=workers,
                released=released,
                progress=stages.update,
            )
        except KeyboardInterrupt:
            stages.close()
            kept = f"finished runs of Table 1 are kept in {folder}"
            echo(f"{kept}; the same command resumes where it stopped", err=True)
            raise
    print_report(reproduction, as_json)


class _Stages(ExitStack):
    """One progress bar after the other, each under its own name."""

    _name = ""
    _bar = Progress()

    def update(self, name: str, done: int, total: int) -> None:
        """Show how much of ``name`` is done."""
        if name != self._name:
            self.close()
            self._name, self._bar = name, self.enter_context(progress_bar(name))
        self._bar.update(done, total)
