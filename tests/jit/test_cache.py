"""A process never depends on the cache of machine code: what is wrong with it costs time, and one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from osrl.jit.cache import PACKAGE
from osrl.jit.mode import process
from tests.support.processes import run_python

pytestmark = [pytest.mark.slow, pytest.mark.skipif(process.switched_off, reason="nothing is compiled")]

CALL = """
from osrl.jit import mode
from osrl.model.families import variance
assert variance(0.5, 0.0) == 0.25 and variance(0.25, 0.0) == 0.1875
made = variance._backend and len(variance._backend.dispatcher.signatures)
hits = variance._backend and sum(variance._backend.dispatcher.stats.cache_hits.values())
print(mode.process.mode, made, hits)
"""
ON_DISK = "from osrl.jit import mode; mode.use_machine_code()\n" + CALL
NONE, INTERPRETED, COMPILED, LOADED = "0 None None", "1 0 0", "2 1 0", "2 1 1"


def run(code: str, cache: Path | None, **variables: str | None) -> tuple[str, list[str]]:
    """What a new process prints, and the lines that it logs."""
    given = {"PYTHONPATH": str(PACKAGE.parent), "OSRL_COMPILE": "now", "CI": "true", **variables}
    given |= {"NUMBA_CACHE_DIR": None if cache is None else str(cache)}
    environment = {key: value for key, value in {**os.environ, **given}.items() if value is not None}
    done = run_python("-c", code, env=environment)
    return done.stdout.strip(), done.stderr.splitlines()


def only(lines: list[str], words: str) -> bool:
    """Whether one line was logged, with these words."""
    return len(lines) == 1 and lines[0].startswith("osrl: ") and words in lines[0]


def empty(content: bytes) -> bytes:
    return b""


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def garbage(content: bytes) -> bytes:
    return bytes(range(256)) * 4


def one_bit(content: bytes) -> bytes:
    return content[:-900] + bytes([content[-900] ^ 1]) + content[-899:]


def test_files_that_are_damaged_are_made_again(tmp_path: Path) -> None:
    """By a process that compiles; one that does not goes on interpreting, and does not compile either."""
    assert run(CALL, tmp_path) == (COMPILED, [])
    assert run(CALL, tmp_path) == (LOADED, [])
    damages: list[Callable[[bytes], bytes]] = [empty, cut, garbage, one_bit]
    for damage in damages:
        for code, printed in ((ON_DISK, INTERPRETED), (CALL, COMPILED)):
            (file,) = tmp_path.rglob("*variance*.nbc")
            file.write_bytes(damage(file.read_bytes()))
            way = "background" if code == ON_DISK else "now"
            found, lines = run(code, tmp_path, OSRL_COMPILE=way)
            assert found == printed and only(lines, "is made again"), damage.__name__
            assert list(tmp_path.rglob("*variance*.nbc")) == [] or code == CALL
            run(CALL, tmp_path)
        assert run(CALL, tmp_path) == (LOADED, []), damage.__name__


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are those of POSIX")
def test_a_disk_that_is_full_keeps_nothing(tmp_path: Path) -> None:
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    (tmp_path / "temporary").mkdir()
    found, lines = run(full + CALL, tmp_path / "cache", TMPDIR=str(tmp_path / "temporary"))
    assert found == COMPILED and only(lines, "machine code is not kept")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_process_without_a_compiler_interprets(tmp_path: Path) -> None:
    found, lines = run("import sys; sys.modules['llvmlite'] = None\n" + CALL, tmp_path)
    assert found == NONE and only(lines, "goes on interpreting")


def test_a_compiler_without_memory_is_done_without(tmp_path: Path) -> None:
    short = """
import numba.core.compiler as compiler
def compile_extra(*_, **__): raise MemoryError
compiler.compile_extra = compile_extra
"""
    found, lines = run(short + CALL, tmp_path)
    assert found == "0 0 0" and only(lines, "goes on interpreting")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to the limit")
def test_a_study_in_half_a_gigabyte_of_addresses(tmp_path: Path) -> None:
    little = "import resource; resource.setrlimit(resource.RLIMIT_AS, (500 << 20, 500 << 20))\n"
    code = f"""
from osrl.study.study import Study
from osrl.jit import mode
mode.use_machine_code()
with Study.create({str(tmp_path / "study.db")!r}, tasks=2, representations=2, predictors=2) as study:
    for i in range(20):
        study.tell(study.ask(), i % 2)
    print(study.status.told)
"""
    found, lines = run(little + code, tmp_path / "cache", OSRL_COMPILE=None, OPENBLAS_NUM_THREADS="1")
    assert found == "20" and (not lines or only(lines, "goes on interpreting"))


# Whose folder it is ---------------------------------------------------------------------------------------

WHERE = """
from osrl.jit.cache import cache_folder
from osrl.model.families import variance
assert variance(0.5, 0.0) == 0.25
folder = cache_folder()
print(folder, folder and oct(folder.stat().st_mode & 0o777))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are those of POSIX")
@pytest.mark.parametrize(
    "whose", ["ours", "of another user", "open to all", "linked", "below an open one", "far below one"]
)
def test_code_runs_from_a_folder_of_ones_own_only(tmp_path: Path, whose: str) -> None:
    """What is in the folder is unpickled and run, so nobody else may write to it."""
    temporary, cache = tmp_path / "temporary", tmp_path / "cache"
    temporary.mkdir()
    run(WHERE, cache)
    (folder,) = cache.iterdir()
    code = WHERE
    if whose == "of another user":
        code = "import os; us = os.geteuid(); os.geteuid = lambda: us + 1\n" + WHERE
    if whose == "open to all":
        folder.chmod(0o777)
    if whose == "linked":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    if whose == "below an open one":
        cache.chmod(0o777)
    if whose == "far below one":
        tmp_path.chmod(0o777)
    found, lines = run(code, cache, TMPDIR=str(temporary))
    if whose == "ours":
        assert found == f"{folder} 0o700" and not lines
    else:
        assert found == "None None" and only(lines, "is not kept: the folder for it cannot be used")
    assert not list(temporary.iterdir()), "nothing is left behind"


@pytest.mark.skipif(sys.platform == "win32", reason="modes are those of POSIX")
def test_the_users_cache_is_closed_to_others(tmp_path: Path) -> None:
    """Where the umask let the group write, earlier versions made a folder to which it can."""
    (tmp_path / "osrl").mkdir()
    (tmp_path / "osrl").chmod(0o775)
    found, lines = run(WHERE, None, XDG_CACHE_HOME=str(tmp_path))
    assert found.endswith(" 0o700") and not lines
    assert (tmp_path / "osrl").stat().st_mode & 0o777 == 0o755


def test_a_user_without_a_home(tmp_path: Path) -> None:
    homeless = """
from pathlib import Path
def home(): raise RuntimeError("Could not determine home directory.")
Path.home = home
"""
    found, lines = run(homeless + CALL, None, XDG_CACHE_HOME=None, HOME=None, TMPDIR=str(tmp_path))
    assert found == COMPILED and only(lines, "is not kept")
    assert not list(tmp_path.iterdir())


def test_nowhere_to_keep_anything(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    found, lines = run(CALL, tmp_path / "file")
    assert found == COMPILED and only(lines, "is not kept")


# What counts besides the source ---------------------------------------------------------------------------


def test_options_of_the_compiler_count(tmp_path: Path) -> None:
    """Machine code that was made with other options is other machine code."""
    assert run(CALL, tmp_path) == (COMPILED, [])
    assert run(CALL, tmp_path, NUMBA_OPT="1") == (COMPILED, [])
    assert run(CALL, tmp_path, NUMBA_BOUNDSCHECK="1") == (COMPILED, [])
    assert run(CALL, tmp_path, NUMBA_OPT="1") == run(CALL, tmp_path) == (LOADED, [])
