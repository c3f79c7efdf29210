"""`osrl paper`: what is written, and the command."""

import json
import re
from pathlib import Path

import polars as pl
import pytest
from markupsafe import escape

from osrl.cli import main
from osrl.model.instance import Instance
from osrl.paper import reproduce as reproduction
from osrl.paper.baselines import TOP_TWO, TRACK_AND_STOP, baseline_grids, run_baselines
from osrl.paper.experiment import Experiment
from osrl.paper.pairs import figure_pairs, grid_pairs, run_pairs
from osrl.paper.published import AGREES, DIFFERS, NOT_JUDGED, PHASE_2, TABLE_1, TAS
from osrl.paper.reproduce import PAPER_PARTS, Reproduction, reproduce
from osrl.paper.table1 import RELEASED, run_table_1, table_1
from osrl.paper.table2 import ASCENT, run_table_2
from osrl.report.html import Section, render_page
from osrl.report.table import Cell, Grid
from osrl.testing import EASY
from osrl.text import printable
from tests.support.processes import run_python

pytestmark = pytest.mark.slow

RUNS, SEED = 6, 3
PAPER = Instance.load("paper")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """Reproduce all parts, with few runs, in a folder."""
    return reproduce(PAPER_PARTS, runs=RUNS, seed=SEED, out=tmp_path_factory.mktemp("paper") / "results")


# What is written


FIGURES = {
    "table-1",
    "table-2",
    "dynamics-rate",
    "dynamics-means",
    "dynamics-weights-2-norm",
    "dynamics-weights-sup-norm",
    "symmetric-tasks",
    "pool",
}
TABLES = {"table1", "growth", "table2", "worth", "changes"}


def test_all_files_are_there(everything: Reproduction) -> None:
    expected = {f"{name}.csv" for name in TABLES | {"dynamics"}} | {"report.html"}
    expected |= {f"figures/{name}.{kind}" for name in FIGURES for kind in ("png", "pdf")}
    assert set(everything.files) == expected
    for name in everything.files:
        content = (everything.folder / name).read_bytes()
        start = {".png": b"\x89PNG", ".pdf": b"%PDF", ".html": b"<!DOCTYPE"}.get(Path(name).suffix, b"")
        assert content.startswith(start) and len(content) > 200


def test_csv_files_say_the_same_as_the_document(everything: Reproduction) -> None:
    document = everything.document()
    for name in TABLES:
        table = pl.read_csv(everything.folder / f"{name}.csv", infer_schema_length=None)
        assert table.columns == list(document[name][0])
        assert table.height == len(document[name])
        for row, record in zip(table.iter_rows(named=True), document[name], strict=True):
            for key, value in record.items():
                assert row[key] == value


def test_every_number_of_table_1_has_its_published_one(everything: Reproduction) -> None:
    rows = everything.document()["table1"]
    assert len(rows) == 3 * (3 * 3 + 1)
    for row in rows:
        published_row = TABLE_1[row["delta"], row["quantity"]]
        assert [row[f"published_{name}"] for name in published_row._fields] == list(published_row)
        assert row["verdict"] in (AGREES, DIFFERS) and row["runs"] == RUNS
        assert bool(row["why"]) == (row["verdict"] == DIFFERS)


def test_the_report_needs_nothing_from_elsewhere(everything: Reproduction) -> None:
    page = (everything.folder / "report.html").read_text()
    markup = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert "://" not in markup
    assert not re.search(r"\bsrc=|<link|@import|url\(|href=['\"](?!#)", markup)
    assert re.findall(r"<script[^>]*>", page) == ["<script>", "<script>"]
    assert page.count("window.vegaEmbed=") == 1
    for name in FIGURES:
        assert f'<div id="{name}">' in markup
    for grid in (grid for part in everything.parts for grid in part.grids):
        assert f"<figcaption>{escape(grid.title)}</figcaption>" in page
        texts = (cell.text for group in grid.cells() for row in group for cell in row)
        assert all(f">{escape(printable(text))}</td>" in page for text in texts)
    assert "prefers-color-scheme: dark" in page


def test_tables_escape_what_they_hold() -> None:
    grid = Grid("<b>", ("a & b", "n"), [[[Cell("<i>", "good"), "1"]]], right=frozenset((1,)), notes=["x < y"])
    page = render_page("tables", [], [Section("one", [], [grid])], "")
    assert "&lt;b&gt;" in page and "a &amp; b" in page and "x &lt; y" in page
    assert '<td class="good">&lt;i&gt;</td><td class="number">1</td>' in page


# Besides the paper


def test_pairs_stand_in_one_table_and_one_figure() -> None:
    experiment = Experiment(EASY, runs=5, seed=SEED)
    found = run_pairs(experiment, ("tas", "uniform"), ("glr-tas", "glr-gk"))
    assert [(one.sampling, one.stopping, one.proved) for one in found] == [
        ("tas", "glr-tas", True),
        ("tas", "glr-gk", False),
        ("uniform", "glr-tas", True),
        ("uniform", "glr-gk", False),
    ]
    assert all(one.over_K > 0 and one.median > 0 for one in found)
    grid = grid_pairs(found)
    assert grid.columns[1:] == ("glr-tas", "glr-gk, not proved")
    assert "changes the mean by a factor" in grid.notes[0]
    spec = str(figure_pairs(found, 20.0).chart.to_dict())
    assert "mean number of samples" in spec and "sampling rule" in spec


def test_numbers_of_others_are_judged() -> None:
    source = TRACK_AND_STOP._replace(methods=TRACK_AND_STOP.methods[:2])
    rows = run_baselines(Experiment(PAPER, runs=40, seed=SEED), [source])
    assert [row.instance for row in rows] == ["mu1", "mu1", "mu2", "mu2"]
    published, unknown = rows[::2], rows[1::2]
    assert all(row.verdict.word == AGREES for row in published), [row.record() for row in rows]
    assert {(row.published, row.verdict.word) for row in unknown} == {(None, NOT_JUDGED)}
    [grid] = baseline_grids(rows)
    assert all(row.median > 0 for row in rows) and len(grid.groups) == 2


def test_a_table_of_top_two_is_judged() -> None:
    rows = run_baselines(Experiment(PAPER, runs=60, seed=SEED), [TOP_TWO])
    assert len(rows) == 9 and all(row.verdict.word == AGREES for row in rows), [row.record() for row in rows]
    slow, fast = ([row.mean for row in rows if row.method.name.startswith(name)] for name in ("EI", "TTEI"))
    assert min(slow) > 100 and max(fast) < 100
    [grid] = baseline_grids(rows)
    assert grid.title.startswith("Qin") and grid.groups[0][0][1] == "14.60"


# The command


def test_json_is_the_document_and_nothing_else(capsys: Capture, tmp_path: Path) -> None:
    arguments = ["paper", "table1", "--runs", "2", "--json", "--out"]
    assert main([*arguments, str(tmp_path / "one"), "--workers", "1"]) == 0
    out, err = capsys.readouterr()
    one = json.loads(out)
    assert err == "" and out.count("\n") == 1
    assert set(one) == {"runs", "seed", "table1", "growth", "figures", "folder", "files"}
    assert main([*arguments, str(tmp_path / "two"), "--workers", "2"]) == 0
    two = json.loads(capsys.readouterr().out)
    assert {**one, "folder": ""} == {**two, "folder": ""}
    assert main([*arguments, str(tmp_path / "one")]) == 0  # goes on with the runs that are there
    assert json.loads(capsys.readouterr().out) == one


def test_the_released_policy_can_be_left_out(tmp_path: Path) -> None:
    found = reproduce(PAPER_PARTS, runs=2, seed=SEED, out=tmp_path / "results", released=False).document()
    assert {row["policy"] for row in found["table1"]} == {"osrl-sc", "tas"}
    assert {row["source"] for row in found["changes"]} == {"osrl-sc"}
    assert "osrl-sc-released" not in {row["source"] for row in found["table2"]}


def test_tables_fit_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch, everything: Reproduction) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(reproduction, "reproduce", lambda part, **settings: everything)
    assert main(["paper"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out and max(map(len, out.splitlines())) <= 80
    for word in ("0.01 phase 1, published", "osrl-sc-released", "certified optimum", "report.html", "of the"):
        assert word in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table3"], "no part 'table3'; use one of table1, table2, figures, pairs, others, all"),
        (["--runs", "0"], "runs is 0; give a whole number, at least 1"),
        (["--seed", "-1"], "seed is -1"),
        (["--workers", "0"], "workers is 0"),
    ],
)
def test_bad_input_is_refused_in_one_line(capsys: Capture, tmp_path: Path, arguments: list[str], message: str) -> None:
    assert main(["paper", "--out", str(tmp_path / "new"), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_folders_with_something_else_are_left_alone(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["paper", "--out", str(tmp_path)]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert main(["paper", "--out", str(tmp_path / "notes.txt")]) == 2
    assert "is a file" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_results_of_other_settings_are_left_alone(capsys: Capture, everything: Reproduction) -> None:
    before = (everything.folder / "table1.csv").read_bytes()
    assert main(["paper", "table1", "--runs", "1", "--out", str(everything.folder)]) == 2
    assert f"holds the results of runs {RUNS}, seed {SEED}" in capsys.readouterr().err
    assert (everything.folder / "table1.csv").read_bytes() == before


def test_an_interruption_is_clean(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduction, "table_1_part", interrupted)
    assert main(["paper", "--out", str(tmp_path / "results")]) == 130
    out, err = capsys.readouterr()
    assert out == "" and "the same command resumes where it stopped" in err and err.endswith("interrupted\n")


def test_without_the_charts_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['altair'] = None; from osrl.cli import main; sys.exit(main(['paper']))"
    found = run_python("-c", code, cwd=tmp_path, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.count("\n") == 1 and "pip install 'osrl[charts]'" in found.stderr
    assert not list(tmp_path.iterdir())


# The claim itself


@pytest.mark.validate
def test_the_released_policy_reproduces_the_paper(tmp_path: Path) -> None:
    full = Experiment(PAPER)
    for row in table_1(run_table_1(full)):
        if row.quantity in (PHASE_2, TAS) or row.variant == RELEASED:
            assert row.verdict.word == AGREES, row
    for shares in run_table_2(full):
        if shares.label in (RELEASED.label, ASCENT):
            assert {verdict.word for verdict in shares.verdicts} == {AGREES}, shares
