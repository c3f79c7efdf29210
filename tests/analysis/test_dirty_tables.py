"""Exports of warehouses with all kinds of dirt: read, or refused with the line, the column and the remedy."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import osrl
from osrl.analysis.trials import Table, read_table
from osrl.analysis.verdict import Analysis
from osrl.cli import main
from osrl.errors import OsrlError
from tests.support.instances import refused, refused_among_others
from tests.support.studies import new_study, play

HEADER = "task,representation,predictor,reward"
ROWS = ["de,new,a,1", "fr,old,a,0", "de,old,b,1", "fr,new,b,0"]
CLEAN = "\n".join([HEADER, *ROWS]) + "\n"


def read(folder: Path, content: str | bytes, name: str = "log.csv", **options: Any) -> Table:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, **options)


def line(number: int, text: str) -> str:
    """Return the clean log with another text in one of its lines."""
    lines = CLEAN.splitlines()
    lines[number - 1] = text
    return "\n".join(lines) + "\n"


def add(column: str, *values: str) -> str:
    """Return the clean log with one more column."""
    rows = [f"{row},{value}" for row, value in zip(ROWS, values, strict=True)]
    return "\n".join([f"{HEADER},{column}", *rows]) + "\n"


READ: dict[str, tuple[str | bytes, dict[str, Any]]] = {
    "clean": (CLEAN, {}),
    "tabs": (CLEAN.replace(",", "\t"), {"name": "log.tsv"}),
    "tabs in a .csv": (CLEAN.replace(",", "\t"), {}),
    "semicolons": (CLEAN.replace(",", ";"), {}),
    "bars": (CLEAN.replace(",", "|"), {"name": "log.txt"}),
    "gzip": (gzip.compress(CLEAN.encode()), {"name": "log.csv.gz"}),
    "gzip without its suffix": (gzip.compress(CLEAN.encode()), {}),
    "byte order mark": ("\ufeff" + CLEAN, {}),
    "UTF-16": (CLEAN.encode("utf-16"), {}),
    "lines of Windows": (CLEAN.replace("\n", "\r\n"), {}),
    "blank lines": (CLEAN.replace("fr,old", "\nfr,old") + "\n  \n,,,\n", {}),
    "no newline at the end": (CLEAN.rstrip("\n"), {}),
    "true and false": (CLEAN.replace(",1\n", ",TRUE\n").replace(",0\n", ",false\n"), {}),
    "t and f": (CLEAN.replace(",1\n", ",t\n").replace(",0\n", ",f\n"), {}),
    "blanks around numbers": (CLEAN.replace(",1\n", ", 1 \n"), {}),
    "decimal commas": (CLEAN.replace(",", ";").replace(";1\n", ";1,0\n"), {}),
    "quoted": ("\n".join('"' + row.replace(",", '","') + '"' for row in CLEAN.split()) + "\n", {}),
    "JSON Lines": (
        "\n".join(json.dumps(dict(zip(HEADER.split(","), row.split(","), strict=True))) for row in ROWS),
        {"name": "log.jsonl"},
    ),
    "other names": (
        CLEAN.replace("task", "market").replace("reward", "paid"),
        {"columns": {"task": "market", "reward": "paid"}},
    ),
    "a column of another meaning with our name": (
        "\n".join([f"{HEADER},paid", *(f"{row[:-1]}9,{row[-1]}" for row in ROWS)]) + "\n",
        {"columns": {"reward": "paid"}},
    ),
    "names of columns in other letters": (CLEAN.replace("task", " Task ").replace("reward", "REWARD"), {}),
    "names that differ in case, tidied": (line(4, "DE ,old,b,1").replace("fr,new", "fr,New"), {"tidy": True}),
    "out of order": (
        "\n".join([f"at,{HEADER}", *(f"2026-01-0{i},{row}" for i, row in reversed([*enumerate(ROWS, 1)]))]),
        {"order_by": "at"},
    ),
    "out of order, in seconds": (
        "\n".join([f"at,{HEADER}", *(f"{9 + i},{row}" for i, row in reversed([*enumerate(ROWS)]))]),
        {"order_by": "at"},
    ),
    "times in several zones": (
        add("at", "2026-01-01T08:00:00Z", "2026-01-01T10:30:00+02:00", "2026-01-01 09:00Z", "2026-01-02T00Z"),
        {"order_by": "at"},
    ),
}


@pytest.mark.parametrize("kind", READ)
def test_dirt_that_is_read(tmp_path: Path, kind: str) -> None:
    content, options = READ[kind]
    table = read(tmp_path, content, **options)
    assert table.task_names == ("de", "fr")
    assert set(table.representations) == {"new", "old"} and set(table.predictors) == {"a", "b"}
    assert table.rewards.tolist() == [1, 0, 1, 0]
    assert table.tasks.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("word", ["", "NULL", "null", "None", "NaN", "N/A", "\\N", " "])
def test_words_for_nothing_are_missing_rewards(tmp_path: Path, word: str) -> None:
    table = read(tmp_path, line(3, f"fr,old,a,{word}"))
    assert np.isnan(table.rewards).tolist() == [False, True, False, False]


REFUSED: dict[str, tuple[str | bytes, dict[str, Any], str]] = {
    "no column": (CLEAN.replace("reward", "paid"), {}, "with --columns reward=NAME,...; there are 'task'"),
    "a column that is nearly right": (CLEAN.replace("reward", "rewards"), {}, "did you mean 'rewards'?"),
    "a mapping to nothing": (CLEAN, {"columns": {"task": "markt"}}, "there is no column 'markt'; there are"),
    "a mapping of nothing": (CLEAN, {"columns": {"arm": "task"}}, "there is no role 'arm'; map task,"),
    "one column twice": (
        CLEAN,
        {"columns": {"task": "predictor", "reward": "predictor"}},
        "column 'predictor' is mapped twice; give each column one role",
    ),
    "no header": ("\n".join(ROWS), {}, "there is no column 'task'"),
    "a header twice": (
        CLEAN.replace("predictor", "task"),
        {},
        "line 1: column 'task' is there twice; leave one",
    ),
    "empty": ("", {}, "it is empty; give a table of trials"),
    "only a header": (HEADER + "\n", {}, "there are no rows"),
    "too many fields": (line(3, "fr,old,a,b,0"), {}, "line 3: 5 fields, and 4 columns in the header; put"),
    "too few fields": (line(3, "fr,old,0"), {}, "line 3: 3 fields, and 4 columns in the header"),
    "an open quotation mark": (line(3, 'fr,"old,a,0'), {}, "line 3: 2 fields, and 4 columns"),
    "not UTF-8": (
        CLEAN.replace("fr", "f\xfc").encode("latin-1"),
        {},
        "line 3: its bytes are not UTF-8; save",
    ),
    "NUL": (CLEAN.replace("fr,old", "f\0,old"), {}, "line 3: there is a NUL character"),
    "cut by gzip": (gzip.compress(CLEAN.encode())[:-12], {}, "is cut or damaged"),
    "a spreadsheet": (b"PK", {"name": "log.xlsx"}, "save the sheet as CSV"),
    "a word": (line(3, "fr,old,a,lost"), {}, "line 3: column 'reward' is 'lost'; give a number, true, false"),
    "a percentage": (line(3, "fr,old,a,50%"), {}, "line 3: column 'reward' is '50%'; give a number"),
    "money": (line(3, "fr,old,a,12.50"), {}, "line 3: column 'reward' is 12.5; give a number in [0, 1], or"),
    "infinity": (line(3, "fr,old,a,inf"), {}, "line 3: column 'reward' is 'inf'; give a number"),
    "no task": (line(3, ",old,a,0"), {}, "line 3: column 'task' is empty; give the task, or remove"),
    "NULL for a name": (line(3, "fr,NULL,a,0"), {}, "line 3: column 'representation' is 'NULL'; give"),
    "a total": (CLEAN + "Total,,,2\n", {}, "line 6: column 'representation' is empty"),
    "a name that is not listed": (
        CLEAN,
        {"representations": ["new"]},
        "line 3: column 'representation' is 'old', not among the names given; correct",
    ),
    "a trial twice": (add("trial", "1", "2", "1", "3"), {}, "line 4: column 'trial' is '1' as in line 2; a"),
    "no such time": (CLEAN, {"order_by": "at"}, "there is no column 'at' to order by; there are 'task'"),
    "a time of its own": (
        add("at", "2026-01-01", "17.3.2026", "2026-01-01", "2026-01-01"),
        {"order_by": "at"},
        "line 3: column 'at' is '17.3.2026'; give a time such as 2026-",
    ),
    "no time": (
        add("at", "1", "", "3", "4"),
        {"order_by": "at"},
        "line 3: column 'at' is empty; give a time",
    ),
    "a time without its zone": (
        add("at", "2026-01-01T08Z", "2026-01-01T09", "2026-01-01T08Z", "2026-01-01T08Z"),
        {"order_by": "at"},
        "line 3: column 'at' has no time zone, other than the rows before; write all times with their zone",
    ),
    "percent for a propensity": (
        add("propensity", "25", "25", "25", "25"),
        {},
        "line 2: column 'propensity' is 25; give the probability of the arm that was drawn",
    ),
    "a propensity of 0": (add("propensity", "1", "0", "1", "1"), {}, "line 3: column 'propensity' is 0"),
    "propensities that do not add up": (
        add("propensity", ".25", ".5", ".25", ".5"),
        {},
        "line 2: column 'propensity': those of the arms of this task sum to 0.5, not 1; give",
    ),
    "propensities and --uniform": (
        add('"propensity[new,a]"', *".1111"[1:].replace("1", "1 ").split()),
        {"uniform": True},
        "there is a column 'propensity[new,a]'; leave out --uniform",
    ),
    "a line that is no JSON": (
        '{"task": 1}\n{"task": \n',
        {"name": "log.jsonl"},
        "line 2: not a JSON object",
    ),
    "a list in JSON": ('{"task": 1}\n[1]\n', {"name": "log.jsonl"}, "line 2: not a JSON object; correct"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_dirt_that_is_refused(tmp_path: Path, kind: str) -> None:
    content, options, message = REFUSED[kind]
    with refused_among_others(message):
        read(tmp_path, content, **options)


def test_copies_of_a_row_count_once(tmp_path: Path) -> None:
    """Delivered twice, at another time; without a key they are two trials."""
    rows = [f"{row},v{i},{i}" for i, row in enumerate(ROWS)]
    text = "\n".join([f"{HEADER},visitor,at", *rows, f"{ROWS[1]},v1,9", f"{ROWS[1]},v1,10"])
    assert len(read(tmp_path, text).rewards) == 6
    table = read(tmp_path, text, distinct="visitor", order_by="at")
    assert len(table.rewards) == 4 and table.remarks == (
        "2 rows are copies of another with the same 'visitor', and left out",
    )
    trials = text.replace("visitor", "trial")
    with refused_among_others("line 6: column 'trial' is 'v1' as in line 3; a trial counts once"):
        read(tmp_path, trials)
    assert len(read(tmp_path, trials, distinct="trial").rewards) == 4
    with refused("line 6: column 'visitor' is 'v1' as in line 3, but column 'reward' differs"):
        read(tmp_path, text.replace("fr,old,a,0,v1,9", "fr,old,a,1,v1,9"), distinct="visitor")
    with refused("line 6: column 'visitor' is empty; give the key"):
        read(tmp_path, text.replace("v1,9", ",9"), distinct="visitor")
    with refused("there is no column 'visiter' of keys"):
        read(tmp_path, text, distinct="visiter")


def test_all_problems_of_a_file_are_said_at_once(tmp_path: Path) -> None:
    text = "\n".join(
        [
            f"{HEADER},trial,propensity",
            "de,new,a,1,1,0.5",
            ",new,a,2,2,0.5",
            "de,old,a,much,3,50",
            "fr,,b,0,1,",
        ]
    )
    with pytest.raises(OsrlError) as found:
        read(tmp_path, text)
    first, *problems = str(found.value).splitlines()
    assert first.endswith("log.csv: 7 problems")
    assert sorted(problem.split(";")[0].strip() for problem in problems) == [
        "line 3: column 'reward' is 2",
        "line 3: column 'task' is empty",
        "line 4: column 'propensity' is 50",
        "line 4: column 'reward' is 'much'",
        "line 5: column 'propensity' is empty",
        "line 5: column 'representation' is empty",
        "line 5: column 'trial' is '1' as in line 2",
    ]


def test_of_many_problems_some_are_listed(tmp_path: Path) -> None:
    with pytest.raises(OsrlError) as found:
        read(tmp_path, HEADER + "\n" + "de,new,a,7\n" * 50)
    lines = str(found.value).splitlines()
    assert lines[0].endswith("50 problems") and lines[-1].strip() == "and 30 more" and len(lines) == 22


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    """Blank lines, breaks inside quotation marks, and another order do not move them."""
    rows = ['"d\ne",new,a,1,5', "", "fr,old,a,0,4", "fr,new,a,x,3"]
    content = "\n".join([f"{HEADER},at", *rows]) + "\n"
    with refused("line 6: column 'reward' is 'x'"):
        read(tmp_path, content)
    with refused("line 6: column 'reward' is 'x'"):
        read(tmp_path, content, order_by="at")


def test_names_that_look_alike_are_reported(tmp_path: Path) -> None:
    table = read(tmp_path, line(4, "DE ,old,b,1"))
    assert table.task_names == ("de", "fr", "DE ")
    assert table.remarks[0].startswith("line 4: column 'task' has 'DE ', elsewhere 'de': they differ only")
    assert "--tidy reads them as one" in table.remarks[0]
    table = read(tmp_path, "\n".join([HEADER, "1,g,a,1", "1.0,g,a,1", "1,g,a,0"]), tidy=True)
    assert table.task_names == ("1",)
    assert table.remarks == ("column 'task': '1.0' is read as '1'",)


def test_rows_of_the_same_time_are_reported(tmp_path: Path) -> None:
    table = read(tmp_path, add("at", "3", "1", "3", "2"), order_by="at")
    assert table.tasks.tolist() == [0, 0, 1, 1]  # fr first, in the order of the times
    assert table.remarks == ("1 rows have the time of another; these stay in the order of the file",)


# Propensities -------------------------------------------------------------------------------------


def trials_of(rows: int, seed: int = 1) -> pl.DataFrame:
    """Return a log of an even split, with one column of propensities."""
    rng = np.random.default_rng(seed)
    means = np.array([[0.9, 0.3, 0.2, 0.1], [0.2, 0.8, 0.1, 0.3]])
    x, a = rng.integers(2, size=rows), rng.integers(4, size=rows)
    reward = (rng.random(rows) < means[x, a]).astype(int)
    names = [np.array(["de", "fr"])[x], np.array(["g1", "g2"])[a // 2], np.array(["h1", "h2"])[a % 2]]
    columns = ("task", "representation", "predictor", "reward", "propensity")
    return pl.DataFrame(dict(zip(columns, [*names, reward, np.full(rows, 0.25)], strict=True)))


def test_one_column_of_propensities_is_enough_where_the_split_is_fixed() -> None:
    frame = trials_of(600)
    single, even = osrl.analyse(frame), osrl.analyse(frame.drop("propensity"), uniform=True)
    assert single == even
    assert (single.evidence, single.verdict, single.best.representation) == ("betting", "decided", "g1")
    rows = {"task": ["x", "x"], "representation": ["a", "b"], "predictor": ["h", "h"], "reward": [0, 1]}
    table = read_table({**rows, "propensity": [0.7, 0.2]}, representations=["a", "b", "c"])
    assert table.propensities is not None
    assert table.propensities.tolist() == pytest.approx(np.array([[0.7, 0.2, 0.1]] * 2))
    changed = frame.with_columns(propensity=pl.when(pl.int_range(pl.len()) < 590).then(0.25).otherwise(0.3))
    with refused("row 591: column 'propensity' is 0.3, and 0.25 for the same arm in row"):
        osrl.analyse(changed)


# From Python, and the command ---------------------------------------------------------------------


def test_frames_are_taken_as_they_are() -> None:
    frame = trials_of(300)
    found: list[Analysis] = [osrl.analyse(log) for log in (frame, frame.lazy(), frame.to_dict(as_series=False))]
    assert found[0] == found[1] == found[2]
    assert dict(zip(found[0].names.tasks, found[0].of_tasks, strict=True)) == {
        task: frame.filter(pl.col("task") == task).height for task in ("de", "fr")
    }
    with pytest.raises(OsrlError, match="the log is no table"):
        osrl.analyse(object())


def test_the_command_says_what_it_has_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.tsv"
    frame = trials_of(300).rename({"task": "market"}).with_columns(at=299 - pl.int_range(pl.len()))
    frame.write_csv(path, separator="\t")
    options = ["--columns", "task=market", "--order-by", "at"]
    assert main(["analyse", str(path), *options]) == 0
    said = capsys.readouterr().out
    assert "300 rows, 2 tasks, 2 representations, 2 predictors; rows by task:" in " ".join(said.split())
    assert main(["analyse", str(path), *options, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    with new_study(str(tmp_path / "study.db"), policy="osrl", delta=0.05) as study:
        play(study, 3)
    assert main(["study", "status", str(tmp_path / "study.db"), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    only_logs = {"method", "decided_after", "of_tasks", "doubt", "remarks"}
    assert set(document) - only_logs <= set(status)
    for key in set(document) - only_logs:
        assert type(document[key]) is type(status[key]) or key in ("noise_sd", "claim")
    assert document["trials"] == {"handed_out": 300, "told": 300, "pending": 0, "abandoned": 0}
    assert main(["analyse", str(path), "--columns", "task"]) == 2
    assert "--columns has 'task'; give role=name" in capsys.readouterr().err


def test_a_log_with_little_to_say_is_remarked_on(tmp_path: Path) -> None:
    one = {"task": ["x"], "representation": ["g"], "predictor": ["h"], "reward": [1]}
    assert "there is only one arm" in osrl.analyse(one).remarks[0]
    assert any("a risk above 1/2" in remark for remark in osrl.analyse(one, delta=0.6).remarks)
    two = {"task": ["x", "y"], "representation": ["g", "f"], "predictor": ["h", "h"], "reward": [1, 0]}
    assert "some arms have no row" in osrl.analyse(two).remarks[0]
