"""`osrl study`: the studies of a database, their logs as files, checks, backups, reports, and deletion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osrl.cli.open_study import (
    check_local,
    delete_study,
    deleted_studies,
    list_studies,
    opened,
    without_password,
)
from osrl.cli.options import By, Json, Name, NewName, Place, Reason
from osrl.cli.output import counted, print_result, progress_bar, working
from osrl.cli.study import app
from osrl.errors import OsrlError, StorageDamaged

if TYPE_CHECKING:
    from osrl.study.backup import Copied


@app.command("list")
def list_all(place: Place, as_json: Json = False) -> None:
    """List the studies of a database."""
    names, deleted = list_studies(place), deleted_studies(place)
    summaries = []
    for name in names:
        with opened(place, name) as study:
            known = study.summary
        summaries.append({"study": name, **{key: known[key] for key in ("verdict", "handed_out", "told")}})
    document = {"studies": list(names), "summaries": summaries, "deleted": [each._asdict() for each in deleted]}
    lines = ["{study}: {verdict}, {told:,} of {handed_out:,} trials told".format(**each) for each in summaries]
    print_result(as_json, document, *lines)


@app.command()
def export(
    place: Place,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A .csv, .jsonl or .parquet file to write.")],
    trials: Annotated[
        bool, typer.Option("--trials", help="A table with one row for each trial, instead of the log.")
    ] = False,
    arms: Annotated[
        bool, typer.Option("--arms", help="A table with one row for each arm: mean, interval, lift.")
    ] = False,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Write the complete log to a file; or a table of the trials or the arms, for use elsewhere."""
    if trials and arms:
        raise OsrlError("--trials and --arms are two different tables; export each to its own file")
    with opened(place, name) as study:
        (study.write_trials if trials else study.write_arms if arms else study.write_log)(file)
        handed_out, head = study.trials, study.head
    document = {"file": file, "trials": handed_out, "head": head}
    done = f"{'the arms' if arms else f'{handed_out:,} trials'} are in {file}"
    print_result(as_json, document, done, f"head of the log: {head}")


@app.command("import")
def import_log(
    place: Place,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A log that `osrl study export` has written.")],
    name: NewName = "study",
    as_json: Json = False,
) -> None:
    """Make a study from an exported log, after replaying it."""
    from osrl.study.study import Study

    check_local(place)
    with working("replaying the log"):
        read = Study.read_log(place, file, name)
    with read as study:
        handed_out, verdict = study.trials, study.verdict
    document = {"study": name, "trials": handed_out, "verdict": verdict}
    done = f"study {name!r} with {handed_out:,} trials is in {without_password(place)}: {verdict}"
    print_result(as_json, document, done)


@app.command()
def verify(
    place: Place,
    head: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="A head (hash of an event) noted earlier: the log must contain it."),
    ] = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Replay the log from its first event and compare. The exit code is 5 if something differs."""
    with opened(place, name) as study:
        with working("replaying the log"):
            checked = study.verify(head)
    how = "bit for bit" if checked.exact else "to 1e-9 (other versions have written to it)"
    print_result(
        as_json,
        {"ok": checked.ok, **checked._asdict()},
        f"{checked.events:,} events, {checked.trials:,} trials; verdict: {checked.verdict}",
        f"replay agrees {how}" if checked.ok else f"replay differs in {len(checked.problems)} places:",
        *(f"  {problem}" for problem in checked.problems),
        *(f"note: {note}" for note in checked.notes),
        f"head of the log: {checked.head}",
    )
    if not checked.ok:
        raise typer.Exit(StorageDamaged.exit_code)


@app.command()
def anchor(
    place: Place,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to append to, preferably on another machine.")],
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Note the head of the log (the hash of its last event) in a file, to reveal a rewritten log later."""
    with opened(place, name) as study:
        noted = study.anchor(file)
    print_result(as_json, noted, f"{noted['events']:,} events with head {noted['head']} are noted in {file}")


@app.command()
def backup(
    place: Place,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is no earlier backup of these studies.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write every study of a database to one verified file, while others go on writing."""
    from osrl.study.backup import backup

    check_local(place)
    with working("copying the studies, and replaying their logs"):
        copied = backup(place, file, force=force)
    _print_copied(copied, file, as_json)


@app.command()
def restore(
    place: Place,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that `osrl study backup` has written.")],
    as_json: Json = False,
) -> None:
    """Recreate the studies of a backup. Trials that were handed out after the backup are then refused."""
    from osrl.study.backup import restore

    check_local(place)
    with working("replaying the logs of the backup"):
        copied = restore(place, file)
    _print_copied(copied, without_password(place), as_json)


@app.command()
def recover(
    place: Place,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why the study goes on from here.")],
    by: By = None,
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Confirm that the study goes on from the log as it is, even if some processes have seen a longer one."""
    with opened(place, name) as study:
        study.recover(reason, by=by)
        trials, head = study.trials, study.head
    done = f"the study goes on after trial {trials}"
    print_result(as_json, {"trials": trials, "head": head}, done, f"head of the log: {head}")


@app.command()
def delete(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The study to remove.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    by: By = None,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Remove a study and all its events for good. Only a record that it existed is kept."""
    if not yes and not as_json and name in list_studies(place):
        typer.confirm(f"remove study {name!r} from {without_password(place)}, with all its events?", abort=True)
    if not yes and as_json:
        raise OsrlError("removing a study cannot be undone; add --yes to do it")
    delete_study(place, name, by, reason)
    print_result(as_json, {"deleted": name}, f"study {name!r} is removed")


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
    document = {"file": out, "sequence": snapshot.sequence, "verdict": verdict, "head": head}
    done = f"the page after event {snapshot.sequence:,} is in {out}; verdict: {verdict}"
    print_result(as_json, document, done, f"head of the log: {head}")


def _print_copied(copied: list[Copied], where: str, as_json: bool) -> None:
    lines = [
        line
        for each in copied
        for line in (
            f"study {each.study!r} with {each.events:,} events is in {where}, verified",
            f"head of the log: {each.head}",
        )
    ]
    print_result(as_json, {"place": where, "studies": [each._asdict() for each in copied]}, *lines)
