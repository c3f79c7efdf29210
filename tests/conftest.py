"""Fixtures that many test modules share, and Hypothesis profiles: the same examples on every machine.

``pytest --hypothesis-profile explore`` looks further, with new random examples each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from osrl.jit.mode import compile_now
from tests.support.databases import BACKENDS, new_place, remove_place

settings.register_profile("local", deadline=None, derandomize=True)
settings.register_profile("ci", parent=settings.get_profile("local"), print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Tests are of machine code. Commands that they start begin like those of users, but never compile behind us.
compile_now()
os.environ["CI"] = "true"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return where a test may put the SQLite file of a study."""
    return str(tmp_path / "study.db")


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give an empty place for studies, on every backend in turn."""
    empty = new_place(request.param, tmp_path)
    yield empty
    remove_place(empty)


@pytest.fixture(scope="session")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `studies.db`, with a study in every state of the page; copy it before writing."""
    from tests.support.pages import make_states

    folder = tmp_path_factory.mktemp("states")
    make_states(str(folder / "studies.db"))
    return folder
