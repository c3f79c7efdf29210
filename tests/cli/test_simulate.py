"""`osrl simulate`: the JSON contract, the table for the reader, Ctrl-C, and how bad input is refused."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

import osrl
from osrl.cli import main
from osrl.model.instance import Instance
from tests.support.processes import run_python, wait_until
from tests.support.simulations import EASY

Capture = pytest.CaptureFixture[str]
KEYS = [
    *("policy", "threshold", "delta", "delta_g", "delta_h", "epsilon_g", "epsilon_h", "proved"),
    *(
        "seed",
        "mean",
        "median",
        "ci975",
        "std",
        "min",
        "max",
        "q10",
        "q90",
        "tau_g_mean",
        "tau_h_mean",
        "error_g",
        "error_h",
    ),
    *("error_eps", "within_tolerance", "no_shared", "budget_exhausted", "runs", "rounds", "seconds"),
]


@pytest.fixture
def file(tmp_path: Path) -> str:
    EASY.save(tmp_path / "easy.toml")
    return str(tmp_path / "easy.toml")


def printed(capsys: Capture, *arguments: object) -> str:
    """What a command prints when all is well: nothing on stderr, exit code 0."""
    code = main(["simulate", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def results(capsys: Capture, *arguments: object) -> Any:
    """The entries of the JSON document, read strictly: NaN and Infinity are not JSON."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    document = json.loads(printed(capsys, *arguments, "--json"), parse_constant=refuse)
    assert list(document) == ["results"]
    return document["results"]


# The JSON contract


@pytest.mark.slow
def test_one_entry_for_each_policy_threshold_and_risk(capsys: Capture, file: str) -> None:
    found = results(
        capsys,
        *(file, "--policy", "osrl-sc,tas", "--delta", "0.1,0.05", "--runs", 6, "--seed", 2),
        *("--threshold", "theorem,released"),
    )
    assert [[row["policy"], row["threshold"], row["delta"]] for row in found] == [
        ["osrl-sc", "theorem", 0.1],
        ["osrl-sc", "theorem", 0.05],
        ["osrl-sc", "released", 0.1],
        ["osrl-sc", "released", 0.05],
        ["tas", "own", 0.1],
        ["tas", "own", 0.05],
    ]
    assert all(list(row) == KEYS for row in found)
    alone = osrl.simulate(EASY, "osrl-sc", 0.05, runs=6, seed=2, threshold="released").summary().to_dicts()[0]
    for key in set(KEYS) - {"seconds", "rounds"}:
        assert found[3][key] == alone[key]


def test_the_defaults(capsys: Capture, file: str) -> None:
    found = results(capsys, file, "--runs", 3)
    assert [(row["policy"], row["threshold"], row["delta"], row["seed"]) for row in found] == [("osrl", "own", 0.1, 0)]
    assert "1120" in printed(capsys, "--help")


def test_a_risk_for_each_and_options(capsys: Capture, file: str) -> None:
    (row,) = results(
        capsys,
        *(file, "--policy", "osrl-sc", "--option", "reuse=true", "--runs", 3),
        *("--delta-g", 0.05, "--delta-h", "0.2"),
    )
    assert (row["delta"], row["delta_g"], row["delta_h"]) == (None, 0.05, 0.2)
    expected = osrl.simulate(EASY, "osrl-sc", delta_g=0.05, delta_h=0.2, runs=3, options={"reuse": True}).summary()
    assert row["mean"] == expected["mean"][0]


def test_outside_the_class_m_and_with_one_run(capsys: Capture, tmp_path: Path) -> None:
    Instance.bernoulli([[[0.9], [0.1]], [[0.1], [0.9]]]).save(tmp_path / "outside.json")
    (row,) = results(capsys, tmp_path / "outside.json", "--policy", "tas", "--runs", 1, "--budget", 9)
    assert (row["error_g"], row["error_h"], row["std"], row["ci975"]) == (None, None, None, None)
    assert (row["mean"], row["budget_exhausted"]) == (9, 1)
    out = printed(capsys, tmp_path / "outside.json", "--policy", "tas", "--runs", 1)
    assert "outside the paper's class M" in out
    assert "wrong" not in out


def test_the_same_command_goes_on(capsys: Capture, file: str, tmp_path: Path) -> None:
    command = (file, "--policy", "tas", "--out", tmp_path / "out")
    few = results(capsys, *command, "--runs", 5)
    again = results(capsys, *command, "--runs", 5)
    assert few == again, "seconds too: nothing was computed"
    more = results(capsys, *command, "--runs", 9, "--workers", 1)
    (row,) = results(capsys, file, "--policy", "tas", "--runs", 9)
    assert {**more[0], "seconds": 0} == {**row, "seconds": 0}


# The table


def test_the_table(capsys: Capture, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "130")
    out = printed(capsys, file, "--policy", "tas", "--delta", "0.1,0.01", "--runs", 40, "--budget", 120)
    found = osrl.simulate(EASY, "tas", [0.1, 0.01], runs=40, budget=120).summary().to_dicts()
    lines = out.splitlines()
    assert lines[:2] == ["2 tasks, 2 representations, 2 predictors; rewards 0 or 1", "40 runs, seed 0"]
    heading = "policy threshold delta samples std least most for g for h wrong g wrong h exhausted"
    assert " ".join(lines[3].split()) == heading
    for row, line in zip(found, lines[5:7], strict=True):
        assert line.split()[:6] == [
            *("tas", "own", f"{row['delta']:g}", f"{row['mean']:.0f}", "±"),
            f"{row['ci975']:.2g}" if row["ci975"] < 10 else f"{row['ci975']:.0f}",
        ]
        assert line.split()[-1] == str(row["budget_exhausted"])
    assert "they enter the mean with it, and are never wrong" in " ".join(out.split())
    assert "\x1b" not in out, "no colour codes where there is no terminal"


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_table_fits_the_terminal(capsys: Capture, file: str, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = printed(capsys, file, "--policy", "osrl-sc,tas", "--runs", 3)
    assert max(map(len, out.splitlines())) <= columns
    heading = next(line for line in out.splitlines() if line.startswith(" po"))
    assert ("std" in heading) == (columns == 120)
    assert ("for h" in heading) == (columns > 40)


# Refusals


def refusal(capsys: Capture, *arguments: object) -> str:
    """The one line on stderr of a refused command, which prints nothing else."""
    code = main(["simulate", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    return err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "best"], "unknown policy 'best'; use one of"),
        (["--policy", ""], "unknown policy ''"),
        (["--threshold", "sharpest"], "unknown threshold 'sharpest'"),
        (["--runs", "0"], "runs is 0"),
        (["--runs", "-1"], "runs is -1"),
        (["--seed", "-1"], "seed is -1"),
        (["--budget", "0"], "budget is 0"),
        (["--workers", "0"], "workers is 0"),
        (["--delta", "0"], "delta_g is 0.0"),
        (["--delta", "0.1,nan"], "delta_g is nan"),
        (["--delta", "a tenth"], "delta is 'a tenth'; give risks such as"),
        (["--delta", "0.1,"], "delta is '0.1,'"),
        (["--delta", "0.1", "--delta-g", "0.1"], "delta sets both risks"),
        (["--option", "reuse"], "option is 'reuse'; give key=value"),
        (
            ["--policy", "osrl-sc", "--option", "reuse=perhaps"],
            "reuse is 'perhaps'; give true or false",
        ),
        (["--option", "speed=11"], "unknown option 'speed'"),
        (["--dask", "nonsense://"], "cannot reach a Dask scheduler at 'nonsense://'"),
    ],
)
def test_bad_options_are_refused(capsys: Capture, file: str, options: list[str], message: str) -> None:
    for json_too in ([], ["--json"]):
        assert message in refusal(capsys, file, *options, *json_too)


def test_an_unreachable_scheduler_is_refused(
    capsys: Capture, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osrl.simulation.executors.CONNECT_SECONDS", 0.5)
    address = "tcp://127.0.0.1:9"
    message = refusal(capsys, file, "--dask", address, "--out", tmp_path / "out")
    assert f"cannot reach a Dask scheduler at '{address}'" in message
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_else_is_refused(capsys: Capture, file: str, tmp_path: Path) -> None:
    assert "holds 'easy.toml' and no campaign" in refusal(capsys, file, "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["easy.toml"]


def test_a_bad_instance_is_refused(capsys: Capture, tmp_path: Path) -> None:
    assert "no such file" in refusal(capsys, tmp_path / "nowhere.toml")


# Interruption


# A simulation that leaves a file when its first run begins.
ENDLESS = """
import pathlib, sys
from osrl.cli import main
from osrl.simulation.chunk import CancelToken

begun, watch = pathlib.Path(sys.argv.pop(1)), CancelToken.watch

def noted(token, outcome):
    watch(token, outcome)
    begun.touch()

CancelToken.watch = noted
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_ctrl_c_ends_even_a_run_without_end(tmp_path: Path) -> None:
    Instance.bernoulli([[[0.5, 0.5]]]).save(tmp_path / "tie.toml")
    command = [str(tmp_path / "begun"), "simulate", str(tmp_path / "tie.toml"), "--policy", "tas"]
    command += ["--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: (tmp_path / "begun").exists() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    kept = f"0 of 1120 runs are kept in {tmp_path / 'out'}; the same command resumes where it stopped"
    assert err.splitlines() == [kept, "interrupted"]


def test_progress_is_for_terminals_only(file: str) -> None:
    code = "import sys; from osrl.cli import main; sys.exit(main())"
    command = ["-c", code, "simulate", file, "--policy", "tas", "--runs", "3", "--json"]
    ended = run_python(*command, env={**os.environ, "FORCE_COLOR": "1"})
    assert ended.stderr == ""
    assert len(json.loads(ended.stdout)["results"]) == 1


def test_the_python_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulate.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    osrl.simulate(EASY, ["osrl-sc", "tas"], runs=3, out="table1")
    blocks = page.split("```python\n")[1:]
    blocks = [each for each in blocks if each.startswith("import")]  # the others are parts of programs,
    assert len(blocks) == 2  # which test_trace.py, test_notebook.py and test_rewards.py run
    for block in blocks:
        exec(block.partition("```")[0], {})
    assert capsys.readouterr().out.count("shape: (4, 5)") == 1
