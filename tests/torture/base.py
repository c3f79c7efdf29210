"""What the attacks of `tests.torture.run` have in common."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from osrl.cli import main as command
from tests.support.studies import new_study, play


class Found(NamedTuple):
    """How often an attack was tried and survived, and what else there is to say."""

    tried: int
    survived: int
    said: str = ""


def said(*arguments: object) -> tuple[int, str, str]:
    """Return what a command of `osrl study` says: exit code, standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = command(["study", *map(str, arguments)])
        except Exception as error:  # what the user would see as a traceback
            return -1, out.getvalue(), f"Traceback: {error!r}"
    return code, out.getvalue(), err.getvalue()


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="osrl-torture-") as name:
        yield Path(name)


def sound_study(path: Path, trials: int = 60, policy: str = "uniform") -> bytes:
    """Return the bytes of a study that nobody has open."""
    with new_study(str(path), policy=policy, delta=1e-6) as study:
        play(study, trials)
    return path.read_bytes()
