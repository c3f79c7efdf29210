"""Whatever is read or typed, only a refusal of one line comes out. `tests.support.fuzz` says how cases are made."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path

import polars as pl
import pytest

import osrl
from osrl.analysis.trials import MAX_ARMS, read_table
from osrl.model.instance import MAX_NAME_LETTERS, Instance
from osrl.study.log import tables as frames
from osrl.study.log.chain import read_event
from tests.support.commands import Capture, refusal
from tests.support.fuzz import fuzz_analyse, fuzz_import
from tests.support.fuzz_commands import fuzz_command_line
from tests.support.instances import refused

pytestmark = pytest.mark.slow

COLUMNS = ("task", "representation", "predictor", "reward")


def test_analyse_survives(tmp_path: Path) -> None:
    assert fuzz_analyse(60, tmp_path).wrong == []


def test_import_survives(tmp_path: Path) -> None:
    assert fuzz_import(50, tmp_path).wrong == []


def test_the_command_line_survives(tmp_path: Path) -> None:
    assert fuzz_command_line(50, tmp_path).wrong == []


@pytest.mark.validate
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_analyse_survives_for_long(tmp_path: Path, seed: int) -> None:
    assert fuzz_analyse(1000, tmp_path, seed).wrong == []


@pytest.mark.validate
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_import_survives_for_long(tmp_path: Path, seed: int) -> None:
    assert fuzz_import(400, tmp_path, seed).wrong == []


@pytest.mark.validate
def test_the_command_line_survives_for_long(tmp_path: Path) -> None:
    assert fuzz_command_line(500, tmp_path, 1).wrong == []


# Limits ---------------------------------------------------------------------------------------------------


def test_a_small_file_of_very_many_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes stand for very many equal rows: they are counted before they are read."""
    monkeypatch.setattr(frames, "MAX_ROWS", 10**6)
    rows = pl.DataFrame({name: ["1"] for name in COLUMNS}).select(pl.all().repeat_by(10**6 + 1).explode())
    rows.write_parquet(tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 10**5
    with refused("it has 1,000,001 rows and 4 columns; at most 1,000,000 rows"):
        read_table(tmp_path / "bomb.parquet")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_BYTES", 10)
    (tmp_path / "log.csv").write_text(",".join(COLUMNS), encoding="utf-8")
    with refused("it has more than 10 bytes"):
        read_table(tmp_path / "log.csv")


def test_a_small_file_of_long_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kilobyte of Parquet stands for a thousand times as much, from its first row on or later."""
    assert frames.MAX_TEXT == 2**28
    monkeypatch.setattr(frames, "MAX_TEXT", 2**20)
    bomb, text = tmp_path / "bomb.parquet", "x" * 10**4
    for values in ([text] * 1000, ["a"] * 500 + [text] * 1000):
        pl.DataFrame({name: values for name in COLUMNS}).write_parquet(bomb)
        assert bomb.stat().st_size < 10**4
        with refused("its text has more than 1,048,576 bytes; leave out columns, or split it"):
            read_table(bomb)
        with refused("its text has more than 1,048,576 bytes"):
            osrl.Study.read_log(tmp_path / "s.db", bomb)


def test_nested_columns_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({name: ["1"] for name in COLUMNS})
    for nested in (pl.lit([[1]]), pl.struct(a=1), pl.lit([1.0], pl.Array(pl.Float64, 1))):
        frame.with_columns(more=nested).write_parquet(tmp_path / "log.parquet")
        with monkeypatch.context() as patch, refused("column 'more' holds "):
            patch.delattr(pl.LazyFrame, "collect")
            read_table(tmp_path / "log.parquet")


def test_packed_text_is_unpacked_up_to_a_limit(tmp_path: Path) -> None:
    """A megabyte stands for a gigabyte."""
    rows = b"de,new,a,1\n" * 10**6
    with gzip.open(tmp_path / "log.csv.gz", "wb", compresslevel=1) as file:
        file.write(",".join(COLUMNS).encode() + b"\n")
        for _ in range(25):
            file.write(rows)
    with refused("unpacked it has more than 268,435,456 bytes; unpack it first"):
        read_table(tmp_path / "log.csv.gz")


def test_long_names_are_refused(tmp_path: Path) -> None:
    name = "x" * 10**7
    with refused("name 1 of tasks has 10,000,000 letters; use at most 1,000"):
        Instance.bernoulli([[[0.5]]], tasks=[name])
    with refused("name 1 of tasks has 10,000,000 letters"):
        osrl.Study.create(tmp_path / "s.db", tasks=[name], representations=1, predictors=1)
    with refused("letters; use at most"):
        osrl.Study.create(tmp_path / "s.db", tasks=1, representations=1, predictors=1, name="x" * 10**7)
    frame = pl.DataFrame({"task": [name], "representation": ["a"], "predictor": ["p"], "reward": [1]})
    frame.write_parquet(tmp_path / "log.parquet")
    with refused("column 'task' has a name of 10,000,000 letters"):
        read_table(tmp_path / "log.parquet")
    assert MAX_NAME_LETTERS == 1000


def test_more_arms_than_anybody_has_are_refused(tmp_path: Path) -> None:
    names = [str(i) for i in range(1001)]
    frame = pl.DataFrame({"task": names, "representation": names, "predictor": "p", "reward": 1})
    frame.write_csv(tmp_path / "log.csv")
    with refused(f"are more than {MAX_ARMS:,} arms"):
        read_table(tmp_path / "log.csv")


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1" + "0" * 400])
def test_numbers_that_no_database_holds(number: str, tmp_path: Path, capsys: Capture) -> None:
    db = str(tmp_path / "s.db")
    with osrl.Study.create(db, tasks=1, representations=2, predictors=2) as study:
        study.ask()
        with refused("no such trial"):
            study.tell(int(number), 1)
        with refused("no such trial"):
            study.abandon(int(number))
    for command in (["tell", db, "--", number, "1"], ["abandon", db, "--", number]):
        refusal(capsys, "study", *command)
    for option in ("--seed", "--budget"):
        refusal(capsys, "study", "create", tmp_path / "t.db", "--tasks", "a", "--representations", "g,f",
                "--predictors", "h", option, number)  # fmt: skip


@pytest.mark.parametrize("value", [None, "1", [1], {}, True, 10**400, -(2**63)])
def test_options_in_a_log_are_read_like_any_others(value: object, tmp_path: Path) -> None:
    """They reach the compiler otherwise, which has its own words for what it does not know."""
    with osrl.Study.create(tmp_path / "s.db", tasks=1, representations=2, predictors=2) as study:
        study.ask()
        study.write_log(tmp_path / "log.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    name = next(name for name, option in lines[0]["payload"]["options"].items() if type(option) is float)
    lines[0]["payload"]["options"][name] = value
    text = "\n".join(json.dumps({key: line[key] for key in line if key != "hash"}) for line in lines)
    (tmp_path / "log.jsonl").write_text(text, encoding="utf-8")
    with refused(f"option {name} is "):
        osrl.Study.read_log(tmp_path / "t.db", tmp_path / "log.jsonl")
    with refused(f"option {name} is "):
        osrl.simulate(Instance.load("paper"), options={name: value}, runs=1)


@pytest.mark.parametrize("reward", [2**63, -(2**63) - 1, 10**400, True, "1", None, [1]])
def test_rewards_in_a_log_are_numbers(reward: object) -> None:
    with refused("event 3 of kind 'tell' cannot be read"):
        read_event(3, 0, "tell", json.dumps({"trial": 1, "reward": reward, "verdict": None}))


def test_what_is_no_file_is_not_read(tmp_path: Path, capsys: Capture) -> None:
    """A pipe or a device would never end."""
    for name in ("log.csv", "log.jsonl", "log.parquet", "instance.toml"):
        os.mkfifo(tmp_path / name)
        command = "bound" if name.endswith("toml") else "analyse"
        assert "not a file" in refusal(capsys, command, tmp_path / name)
    assert "not a file" in refusal(capsys, "study", "import", tmp_path / "s.db", tmp_path / "log.jsonl")


def test_a_panic_of_the_library_is_an_error_of_ours(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And what it writes to the terminal is not seen; what others write is."""

    def panic(*_: object) -> pl.DataFrame:
        os.write(2, b"thread panicked")
        raise pl.exceptions.PanicException("assertion failed")

    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    with pytest.MonkeyPatch.context() as patch, refused("cannot be read (assertion failed)"):
        patch.setattr(frames, "_read_parquet", panic)
        read_table(tmp_path / "log.parquet")
    assert capfd.readouterr().err == ""
    content = io.BytesIO()
    pl.DataFrame({name: ["1"] for name in COLUMNS}).write_parquet(content)
    (tmp_path / "log.parquet").write_bytes(content.getvalue())
    with pytest.MonkeyPatch.context() as patch:
        whole = frames._read_parquet
        patch.setattr(frames, "_read_parquet", lambda given: (os.write(2, b"a warning"), whole(given))[1])
        read_table(tmp_path / "log.parquet")
    assert capfd.readouterr().err == "a warning"


def test_a_name_of_a_file_that_cannot_be(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a" * 5000 + ".db", "\0.db"):
        refusal(capsys, "study", "status", name)
        refusal(capsys, "study", "create", name, "--tasks", "a", "--representations", "g", "--predictors", "h")
