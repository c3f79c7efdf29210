"""The command line: `osrl`, with one file of this package for each command.

Commands import the mathematics when they run, so that help and usage errors come at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated

import typer

import osrl
import osrl.cli.study_admin  # noqa: F401  (adds the commands of its owner)
import osrl.cli.study_log  # noqa: F401  (adds the commands about logs and databases)
from osrl.cli.analyse import analyse
from osrl.cli.bound import bound
from osrl.cli.paper import paper
from osrl.cli.plan import plan
from osrl.cli.serve import serve
from osrl.cli.simulate import rules, simulate
from osrl.cli.study import app as study
from osrl.cli.token import app as token
from osrl.cli.warm_up import warm_up
from osrl.errors import OsrlError

INTERRUPTED = 130  # the exit code of a shell for Ctrl-C

# At its end Python would search all that was imported for cycles, which takes longer than most commands.
atexit.register(gc.freeze)

# Without markup, usage errors are three plain lines; tracebacks are Python's own, without local values.
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command(help="How many samples any policy needs, and how best to spread them.")(bound)
app.command()(simulate)
app.command()(paper)
app.command(help="How many trials to expect, if the means are as guessed.")(plan)
app.command()(rules)
app.add_typer(study, name="study")
app.command(help="What a log of trials proves, whatever rule collected it.")(analyse)
app.command()(serve)
app.add_typer(token, name="token")
app.command("warm-up")(warm_up)


@app.callback(invoke_without_command=True)
def _osrl(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Find the best representation and the best predictors for several tasks with few samples."""
    if show_version:
        typer.echo(f"osrl {version('osrl')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what is refused is one line on stderr.

    2: input; 3: the study has ended; 4: storage busy or out of reach; 5: damaged, or it does not verify.
    """
    if "Study" not in osrl.__all__:
        print("error: osrl-lib, another project, has replaced files of this; uninstall both", file=sys.stderr)
        return 2
    try:
        app(arguments, prog_name="osrl")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print("interrupted", file=sys.stderr)
        return end.code if isinstance(end.code, int) else 0
    except OsrlError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        _discard_output()
        print(f"error: cannot write the output: {error.strerror}; write it elsewhere", file=sys.stderr)
        return 2
    return 0


def _discard_output() -> None:
    """Drop what could not be written, or Python would try again, and complain, when it ends."""
    with suppress(OSError, ValueError):  # a stream that somebody has put in its place has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
