"""The page of the command line, written from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from osrl.cli import app

HEAD = """# Commands

Written from the commands themselves. Every command that reports something takes `--json`, and then prints
one JSON document and nothing else ([what is in it](documents.md)). Exit codes: 0 success; 2 unusable input;
3 the study has ended, or is paused; 4 storage busy or out of reach; 5 storage damaged, or a log that does not
verify; 130 Ctrl-C.
"""


def commands_page() -> str:
    """Usage, help and options of every command, as Markdown."""
    return "\n".join([HEAD, *_entries(typer.main.get_command(app), "osrl", None)])


def _entries(command: Any, name: str, parent: Any) -> Iterator[str]:
    """One command, or those of a group."""
    context = command.context_class(command, info_name=name, parent=parent)
    if hasattr(command, "commands"):
        for below, child in command.commands.items():
            yield from _entries(child, below, context)
        return
    yield f"## `{context.command_path}`\n"
    yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```\n"
    yield f"{_text(command.help)}\n"
    yield "| | |\n|---|---|"
    for parameter in command.get_params(context):
        if record := parameter.get_help_record(context):
            yield f"| `{_cell(record[0])}` | {_cell(record[1])} |"
    yield ""


def _text(words: str | None) -> str:
    """Help as running text; its paragraphs stay."""
    paragraphs = (words or "").replace("\b", "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs)


def _cell(words: str) -> str:
    """Text that stands in one cell of a table."""
    return " ".join(words.split()).replace("|", "\\|")
