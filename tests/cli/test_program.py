"""The program around a command, by the example of `osrl bound`: refusals, help, Ctrl-C, broken pipes."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

import osrl.bounds.lower
from osrl.cli import main
from tests.support.commands import Capture, printed, refusal
from tests.support.instances import table
from tests.support.processes import TIMEOUT, run_python


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (table(means=[[[math.nan, 0.4]]]), "means[x1][g1][h1] is nan"),
        (table(means=[[0.5, 0.4]]), "means[x1][g1] is 0.5, not a list"),
        (table(means=[[[0.5, 0.4], [0.2]]]), "means[x1][g2] has 1 number but means[x1][g1] has 2"),
        (table(means=[[[0.5, 0.4]], [[0.5, 0.4], [0.3, 0.2]]]), "means[x2] has 2 rows but means[x1] has 1"),
        (table(predictors=["h", "h"]), "predictors repeats 'h'"),
        (table(means=[[[1.5, 0.4]]]), "means[x1][g1][h1] is 1.5"),
        (table(family="bounded", means=[[[-0.1, 0.4]]]), "means[x1][g1][h1] is -0.1"),
        (table(family="gaussian"), "noise_sd"),
        (table(family="poisson"), "unknown family 'poisson'"),
        (table(means=[[[0.5, 0.5]]]), "task x1 has 2 best arms, (g1,h1), (g1,h2)"),
        (table(means=[[[0.5], [0.4]], [[0.4], [0.5]]]), "one representation must be best in every task"),
        (table(mean=[[[0.5]]]), "unknown key 'mean'"),
        (table(means=None), "the key 'means' is missing"),
        (table(means="many"), "means is 'many'"),
    ],
)
def test_a_bad_instance_is_refused(capsys: Capture, tmp_path: Path, keys: Any, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(keys))
    for options in ((), ("--json",)):
        assert message in refusal(capsys, "bound", path, *options)


@pytest.mark.parametrize(("name", "text"), [("cut.toml", "means = [[[0.5,"), ("cut.json", '{"means": [[[0.5')])
def test_a_truncated_file_is_refused(capsys: Capture, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert f"{name}: not valid {name[4:].upper()}" in refusal(capsys, "bound", tmp_path / name)


def test_a_file_that_cannot_be_read_is_refused(capsys: Capture, tmp_path: Path) -> None:
    assert "nowhere.toml: no such file" in refusal(capsys, "bound", tmp_path / "nowhere.toml")
    (tmp_path / "folder.toml").mkdir()
    assert "folder.toml: cannot be read" in refusal(capsys, "bound", tmp_path / "folder.toml")
    assert "unknown suffix" in refusal(capsys, "bound", tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--delta", "0"), "delta_g is 0.0; a risk is a number between 0 and 1"),
        (("--delta-g", "1"), "delta_g is 1.0"),
        (("--delta-h", "-0.1"), "delta_h is -0.1"),
        (("--delta-h", "nan"), "delta_h is nan"),
        (("--delta", "0.1", "--delta-h", "0.1"), "delta sets both risks"),
        (("--sigma", "0"), "sigma is 0.0"),
        (("--sigma", "inf"), "sigma is inf"),
    ],
)
def test_bad_options_are_refused(capsys: Capture, options: tuple[str, ...], message: str) -> None:
    assert message in refusal(capsys, "bound", "paper", *options)


@pytest.mark.parametrize(
    "arguments",
    [("bound",), ("bound", "paper", "--gamma"), ("bound", "paper", "--delta", "x"), ("bond",), ("--bond",)],
)
def test_a_wrong_call_is_refused_in_a_few_lines(capsys: Capture, arguments: tuple[str, ...]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) <= 4
    assert "Error: " in err


# The program


def test_help_and_version(capsys: Capture) -> None:
    assert printed(capsys) == printed(capsys, "--help")
    assert "How many samples any policy needs" in printed(capsys, "--help")
    assert "--delta-g" in printed(capsys, "bound", "--help")
    assert printed(capsys, "--version").startswith("osrl 0.")


def test_ctrl_c(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(osrl.bounds.lower, "lower_bound", interrupted)
    assert main(["bound", "paper"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def program(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    code = "import sys; from osrl.cli import main; sys.exit(main())"
    return subprocess.Popen([sys.executable, "-c", code, *arguments], text=True, **options)


@pytest.mark.parametrize("option", [[], ["--json"]], ids=["report", "json"])
def test_a_reader_that_leaves_is_no_error(option: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    process = program("bound", "paper", *option, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert process.communicate(timeout=TIMEOUT)[1] == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written() -> None:
    with open("/dev/full", "w") as full:
        process = program("bound", "paper", "--json", stdout=full, stderr=subprocess.PIPE)
        err = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 2
    assert err == "error: cannot write the output: No space left on device; write it elsewhere\n"


def test_a_terminal_without_unicode() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = program("bound", "paper", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, err) == (0, "")
    assert "2,820.975 to 2,820.976" in out
    assert out.isascii()


def test_help_loads_neither_tables_nor_bounds_of_its_own() -> None:
    code = (
        "import sys, osrl; before = set(sys.modules); from osrl.cli import main; main(['--help'])\n"
        "assert not {name for name in set(sys.modules) - before if name.startswith(('rich', 'osrl.report'))}"
    )
    run_python("-c", code)
