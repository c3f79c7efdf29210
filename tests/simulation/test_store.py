"""The output folder of `osrl.simulate`: interruption, going on, extending, and folders that are refused."""

import json
import os
import random
import shutil
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import osrl
from osrl.errors import OsrlError
from osrl.model.instance import Instance
from osrl.model.outcome import Outcome
from osrl.simulation.campaign import Campaign
from osrl.simulation.chunk import CancelToken, Chunk, run_chunk
from osrl.simulation.store import MANIFEST, ResultsStore
from tests.support.instances import refused
from tests.support.processes import run_python
from tests.support.simulations import EASY, campaign_of

RUNS = 60


def frame(out: Path | None = None, runs: int = RUNS, **changes: object) -> pl.DataFrame:
    found = osrl.simulate(EASY, "tas", [0.1, 0.01], runs=runs, out=out, **changes)  # type: ignore[arg-type]
    return found.frame


def files(folder: Path) -> dict[str, bytes]:
    """Return every file with its content, to see that nothing has been touched."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("runs-*.parquet"))


# What is in the folder


def test_the_folder_says_all_that_the_runs_depend_on(tmp_path: Path) -> None:
    osrl.simulate(EASY, ["osrl-sc", "tas"], 0.1, runs=5, seed=7, out=tmp_path / "new" / "campaign")
    manifest = json.loads((tmp_path / "new" / "campaign" / MANIFEST).read_text())
    assert set(manifest) == {"format", "versions", "instance", "epsilon", "seed", "budget", "jobs", "runs"}
    assert set(manifest["versions"]) == {"osrl", "numpy", "numba", "kernels"}
    assert Instance.from_dict(manifest["instance"]) == EASY
    assert (manifest["seed"], manifest["runs"], manifest["budget"]) == (7, 5, None)
    criterion = {"threshold": "theorem", "delta_g": 0.1, "delta_h": 0.1}
    assert manifest["jobs"][0]["policy"] == "osrl-sc"
    assert manifest["jobs"][0]["criteria"] == [criterion]
    assert manifest["jobs"][0]["options"]["reuse"] is False


def test_the_files_are_the_frame(tmp_path: Path) -> None:
    found = frame(tmp_path)
    read = pl.read_parquet(str(tmp_path / "*.parquet"))
    order = ["delta_g", "run"]
    assert_frame_equal(read.sort(order), found.sort(order))
    assert_frame_equal(found, frame())


def test_names_with_brackets_and_foreign_letters(tmp_path: Path) -> None:
    assert_frame_equal(frame(tmp_path / "été [1] *"), frame())


def test_without_a_folder_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = osrl.simulate(EASY, "tas", runs=3)
    assert len(list(tmp_path.iterdir())) == 1
    assert len(found.frame) == 3
    del found
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_kept_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    assert_frame_equal(osrl.simulate(EASY, "tas", [0.1, 0.01], runs=RUNS).frame, frame(None, RUNS))
    assert synced == []
    frame(tmp_path)
    assert synced


# Going on


def test_a_finished_campaign_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = frame(tmp_path)
    before = files(tmp_path)
    monkeypatch.setattr("osrl.simulation.executors.run_chunk", None)  # would fail
    assert_frame_equal(frame(tmp_path), first)
    assert files(tmp_path) == before


def test_more_runs_extend_a_campaign_and_fewer_are_its_first_ones(tmp_path: Path) -> None:
    frame(tmp_path, 20)
    before = files(tmp_path)
    assert_frame_equal(frame(tmp_path, RUNS), frame(None, RUNS))
    after = files(tmp_path)
    assert all(after[name] == before[name] for name in before if name != MANIFEST)
    few = osrl.simulate(EASY, "tas", [0.1, 0.01], runs=13, out=tmp_path)
    alone = osrl.simulate(EASY, "tas", [0.1, 0.01], runs=13)
    assert_frame_equal(few.frame, alone.frame)
    assert_frame_equal(few.summary().drop("seconds"), alone.summary().drop("seconds"))
    assert json.loads(after[MANIFEST])["runs"] == RUNS
    assert files(tmp_path) == after


@pytest.mark.parametrize("keep", [0, 10, -1, -20])
def test_a_truncated_file_is_computed_again(tmp_path: Path, keep: int) -> None:
    frame(tmp_path)
    damaged = parts(tmp_path)[2]
    damaged.write_bytes(damaged.read_bytes()[:keep])
    assert_frame_equal(frame(tmp_path), frame())


def damaged(content: bytes, generator: random.Random) -> bytes:
    """Return a file with one bit that has changed."""
    place, bit = generator.randrange(len(content)), generator.randrange(8)
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def test_no_changed_bit_changes_a_result(tmp_path: Path) -> None:
    """Wherever it is: the file is computed again, or, if it seems to be of another campaign, refused."""
    runs = 12  # few files, each of which is read again 63 times
    expected = frame(tmp_path / "whole", runs)
    content = parts(tmp_path / "whole")[-1]
    generator = random.Random(0)
    for number in range(63):
        shutil.copytree(tmp_path / "whole", tmp_path / str(number))
        flipped = tmp_path / str(number) / content.name
        flipped.write_bytes(damaged(content.read_bytes(), generator))
        try:
            found = frame(tmp_path / str(number), runs)
        except OsrlError as error:
            assert "belongs to another campaign" in str(error)
        else:
            assert_frame_equal(found, expected)


def test_no_run_counts_twice(tmp_path: Path) -> None:
    """Copies under other names, and older files that hold runs which others hold too."""
    expected = osrl.simulate(EASY, "tas", [0.1, 0.01], runs=RUNS).summary().drop("seconds")
    frame(tmp_path)
    for number, path in enumerate(parts(tmp_path)[:18]):
        shutil.copy(path, tmp_path / f"runs-0-{9000 + number:08}-1.parquet")
        shutil.copy(path, tmp_path / f"{path.stem}-copy.parquet")
    job = campaign_of(EASY, "tas", [0.1, 0.01], runs=RUNS).jobs[0]
    for first, runs in ((0, 7), (3, 9), (RUNS - 1, 5)):
        chunk = run_chunk(job, first, runs)
        assert chunk is not None
        (tmp_path / chunk.header.file_name(chunk.table)).write_bytes(chunk.table)
    found = osrl.simulate(EASY, "tas", [0.1, 0.01], runs=RUNS, out=tmp_path)
    assert_frame_equal(found.summary().drop("seconds"), expected)
    read = pl.read_parquet(str(tmp_path / "*.parquet"))
    assert not read.select("delta_g", "run").is_duplicated().any(), "no file holds a run of another"


def test_lost_and_unfinished_files_are_no_harm(tmp_path: Path) -> None:
    frame(tmp_path)
    for path in parts(tmp_path)[1::2]:
        path.unlink()
    (tmp_path / ".runs-0-00000000-5.parquet.0123abcd").write_bytes(b"killed while writing")
    assert_frame_equal(frame(tmp_path), frame())
    assert not list(tmp_path.glob(".*"))


INTERRUPTED = """
import os, sys
import osrl
from tests.support.simulations import EASY

def interrupt(done, total):
    if done > total / 5:
        os.kill(os.getpid(), int(sys.argv[2]))

osrl.simulate(EASY, ["tas", "osrl-sc"], [0.1, 0.01], runs=150, workers=2, out=sys.argv[1], progress=interrupt)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_after_an_interruption_the_same_call_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    ended = run_python("-c", INTERRUPTED, str(tmp_path), str(int(number)), env=environment, check=False)
    assert ended.returncode == -number
    if number == signal.SIGINT:
        assert ended.stderr.splitlines()[-1] == "KeyboardInterrupt"
    before = files(tmp_path)
    told: list[int] = []
    found = osrl.simulate(
        EASY,
        ["tas", "osrl-sc"],
        [0.1, 0.01],
        runs=150,
        out=tmp_path,
        progress=lambda done, total: told.append(done),
    )
    assert 60 < told[0] < 300, "some runs were kept, some were left"
    after = files(tmp_path)
    assert all(after[name] == before[name] for name in before if name[0] != ".")
    assert_frame_equal(found.frame, osrl.simulate(EASY, ["tas", "osrl-sc"], [0.1, 0.01], runs=150).frame)


def stopped(campaign: Campaign, runs: int, begun: int) -> Chunk | None:
    """Return what comes of a chunk that is told to stop when so many of its runs have begun."""
    job = campaign.jobs[0]
    job.warm_up()
    stop, started = CancelToken(), threading.Semaphore(0)
    watch = stop.watch

    def noted(outcome: Outcome) -> None:
        watch(outcome)
        started.release()

    stop.watch = noted  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        chunk = pool.submit(run_chunk, job, 0, runs, stop)
        for _ in range(begun):
            assert started.acquire(timeout=60)
        stop.cancel()
        return chunk.result(timeout=60)


def test_an_interruption_keeps_every_finished_run(tmp_path: Path) -> None:
    campaign = campaign_of(EASY, "tas", runs=100_000)
    chunk = stopped(campaign, 100_000, begun=20)
    assert chunk is not None
    runs = chunk.header.runs
    assert 0 < runs < 100_000
    with ResultsStore(campaign, tmp_path) as store:
        store.keep(chunk)
        assert store.gaps(0) == [range(0), range(runs, 100_000)]
    found = osrl.simulate(EASY, "tas", runs=runs, out=tmp_path)
    assert_frame_equal(found.frame, osrl.simulate(EASY, "tas", runs=runs).frame)


def test_a_run_without_end_is_ended_too() -> None:
    assert stopped(campaign_of(Instance.bernoulli([[[0.5, 0.5]]]), "tas"), 1, begun=1) is None


# Folders that are refused, with nothing overwritten


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "with another seed"),
        ({"budget": 9}, "with another budget"),
        ({"policy": "osrl-sc"}, "with other policies, thresholds, risks or options"),
        ({"delta": 0.1}, "with other policies, thresholds, risks or options"),
        ({"options": {"growth": 0.5}}, "with other policies, thresholds, risks or options"),
        ({"instance": Instance.load("paper")}, "on another instance"),
    ],
)
def test_another_campaign_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    frame(tmp_path)
    before = files(tmp_path)
    given = {"instance": EASY, "policy": "tas", "delta": [0.1, 0.01], "runs": RUNS, **changes}
    with refused(message):
        osrl.simulate(**given, out=tmp_path)  # type: ignore[arg-type]
    assert files(tmp_path) == before
    frame(tmp_path)  # it is let go


def test_other_versions_are_refused(tmp_path: Path) -> None:
    frame(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    manifest["versions"]["numpy"] = "1.0"
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with refused("made with other versions of osrl, numpy, numba or a policy"):
        frame(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", "mine", "holds 'notes.txt' and no campaign"),
        (MANIFEST, "{", "is no manifest of a campaign"),
        (MANIFEST, "[]", "is no manifest of a campaign"),
        (MANIFEST, "{}", "is no manifest of a campaign"),
        (MANIFEST, '{"runs": 5, "name": "web app"}', "holds a campaign in another format"),
        ("runs-0-00000000-5.parquet", "mine", "no campaign"),
    ],
)
def test_a_folder_with_anything_else_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with refused(message):
        frame(tmp_path)
    assert files(tmp_path) == {name: content.encode()}


def test_a_part_of_another_campaign_is_refused(tmp_path: Path) -> None:
    frame(tmp_path / "mine")
    frame(tmp_path / "other", seed=1)
    stray = parts(tmp_path / "other")[0]
    stray.rename(tmp_path / "mine" / "runs-0-00009999-1.parquet")
    before = files(tmp_path / "mine")
    with refused("belongs to another campaign"):
        frame(tmp_path / "mine")
    assert files(tmp_path / "mine") == before


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with refused("cannot be used"):
            frame(out)


@pytest.mark.skipif(sys.platform == "win32", reason="folders are locked on POSIX systems only")
def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    campaign = campaign_of(EASY, "tas", [0.1, 0.01], runs=RUNS)
    with ResultsStore(campaign, tmp_path), refused("is being written by another process"):
        frame(tmp_path)
    frame(tmp_path)


def test_a_full_disk_is_an_error_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    frame(tmp_path, 5)
    monkeypatch.setattr("osrl.simulation.store.replace_file", full)
    with refused("No space left on device"):
        frame(tmp_path, 10)
