"""Commands of the program, run in this process."""

import pytest

from osrl.cli import main

Capture = pytest.CaptureFixture[str]


def printed(capsys: Capture, *arguments: object) -> str:
    """Return what a command prints; it must end with code 0 and write nothing to stderr."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def refusal(capsys: Capture, *arguments: object) -> str:
    """Return the one line on stderr of a refused command, which must print nothing else."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    return err
