"""`osrl serve`: studies over HTTP."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from osrl.cli.output import echo
from osrl.cli.warm_up import compile_for_studies
from osrl.errors import OsrlError

if TYPE_CHECKING:
    from osrl.service.app import Application

MISSING = "serving studies needs the extra 'service'; install osrl[service]"


def serve(
    place: Annotated[
        str, typer.Argument(metavar="[DB]", help="A SQLite file, or the URL of a PostgreSQL database.")
    ] = "osrl.db",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8765,
    token_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file with a token that owns everything; made if it is not there."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name by which the server may be called; may be repeated."),
    ] = None,
    root_path: Annotated[str, typer.Option(metavar="PATH", help="The path under which a proxy shows the server.")] = "",
    on_verdict: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send a message here when a study has ended, signed with the secret in OSRL_VERDICT_SECRET.",
        ),
    ] = None,
) -> None:
    """Serve studies over HTTP, to programs and people who have a token."""
    try:
        from osrl.service.server import serve as run
        from osrl.service.webhooks import SECRET_VARIABLE, read_receiver
    except ModuleNotFoundError:
        raise OsrlError(MISSING) from None
    receiver = None if on_verdict is None else read_receiver(on_verdict, os.environ.get(SECRET_VARIABLE))
    run(
        place,
        host=host,
        port=port,
        token_file=token_file,
        hosts=allow_host or [],
        root_path=root_path,
        receiver=receiver,
        prepare=_compile,
        started=_say,
    )


def _compile(application: Application) -> None:
    """Compile for the studies that are there: requests come to a server that has its machine code."""
    from osrl.study.log.events import Created

    storage = application.context.storage
    created = [storage.first(storage.find(name)).body for name in storage.names()]
    compile_for_studies((body.policy, body.family) for body in created if isinstance(body, Created))


def _say(address: str, application: Application) -> None:
    echo(f"serving {application.context.storage.place} at {address}", err=True)
    if not application.context.tokens.grants:
        echo("there is no token yet; make one with: osrl token create DB --role own", err=True)
