"""Programs that not every machine has: a test that needs one is skipped without it, but never in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test, and say what it needs; where OSRL_NO_SKIP is set, it fails instead."""
    if os.environ.get("OSRL_NO_SKIP"):
        pytest.fail(what)
    pytest.skip(what)
