"""`osrl token`: who may use a server. Every command takes --json."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from osrl.cli.options import Json
from osrl.cli.output import echo, print_json, print_result
from osrl.cli.serve import MISSING
from osrl.errors import OsrlError

if TYPE_CHECKING:
    from osrl.study.storage.sql import SqlStorage

app = typer.Typer(
    help="Make, list and revoke the tokens of a server (`osrl serve`).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Place = Annotated[str, typer.Argument(metavar="DB", help="A SQLite file, or the URL of a PostgreSQL database.")]


@app.command()
def create(
    place: Place,
    role: Annotated[
        str,
        typer.Option(help="read, operate (also ask and tell), blind (ask and tell, no results) or own (everything)."),
    ],
    study: Annotated[str | None, typer.Option(help="For this study alone.  [default: all]")] = None,
    label: Annotated[str | None, typer.Option(metavar="TEXT", help="Whose it is, for the list.")] = None,
    as_json: Json = False,
) -> None:
    """Make a token. It is shown this once: the database keeps only its hash."""
    with closing(_storage(place, make=True)) as storage:
        from osrl.service.tokens import create_token

        made = create_token(storage, role, study, label)
    if as_json:
        print_json(vars(made))
    else:
        typer.echo(made.token)
        echo(f"token {made.id} is ready; note it now, it is not shown again", err=True)


@app.command("list")
def list_all(place: Place, as_json: Json = False) -> None:
    """List the tokens, without their secrets."""
    with closing(_storage(place)) as storage:
        from osrl.service.tables import prepare_tables
        from osrl.service.tokens import list_tokens
        from osrl.study.log.events import as_datetime

        prepare_tables(storage)
        found = list_tokens(storage)
    if as_json:
        print_json({"tokens": [vars(each) for each in found]})
        return
    for each in found:
        what = "all studies" if each.everywhere else each.study or "a study that was deleted"
        made = as_datetime(each.at).strftime("%Y-%m-%d")
        label = f", {each.label}" if each.label else ""
        state = ", revoked" if each.revoked_at is not None else ""
        echo(f"{each.id}: {each.role} for {what}, made {made}{label}{state}")


@app.command()
def revoke(
    place: Place,
    id: Annotated[str, typer.Argument(metavar="ID", help="The token, by its id as `list` shows it.")],
    as_json: Json = False,
) -> None:
    """Revoke a token. Servers know it within a second, and its open streams end."""
    with closing(_storage(place)) as storage:
        from osrl.service.tokens import revoke_token

        revoke_token(storage, id)
    print_result(as_json, {"revoked": id}, f"token {id} is revoked")


def _storage(place: str, *, make: bool = False) -> SqlStorage:
    """Open the database of the tokens."""
    try:
        from osrl.study.storage.sql import SqlStorage
    except ModuleNotFoundError:
        raise OsrlError(MISSING) from None
    return SqlStorage(place, make=make)
