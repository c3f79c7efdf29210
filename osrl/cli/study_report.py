"""`osrl study report`: the page of a study as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osrl.cli.output import counted, echo, print_json, progress_bar
from osrl.cli.study import Json, Name, Place, app, opened


@app.command()
def report(
    place: Place,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="The HTML file to write.")],
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="SEQUENCE", help="The number of the event after which to look; the last one."),
    ] = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Write the page of a study as one file that opens offline, the same for the same log."""
    from osrl.files import replace_file
    from osrl.page.render import frozen_page
    from osrl.page.snapshot import snapshot_at

    with opened(place, name) as study, progress_bar("events") as bar:
        snapshot = snapshot_at(counted(study.events(), bar), at)
        page = frozen_page(study.name, snapshot)
    replace_file(Path(out), page.encode(), private=True)
    head, verdict = snapshot.status.head, snapshot.status.verdict
    if as_json:
        print_json({"file": out, "sequence": snapshot.sequence, "verdict": verdict, "head": head})
    else:
        echo(f"the page after event {snapshot.sequence:,} is in {out}; verdict: {verdict}")
        echo(f"head of the log: {head}")
