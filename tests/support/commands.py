"""Commands of the program, run in this process."""

import pytest

from osrl.cli import main

Capture = pytest.CaptureFixture[str]


def printed(capsys: Capture, *arguments: object) -> str:
    """What a command prints when all is well: nothing on stderr, exit code 0."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def refusal(capsys: Capture, *arguments: object) -> str:
    """The one line on stderr of a refused command, which prints nothing else."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    return err
