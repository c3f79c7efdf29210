"""Compile what studies of a policy call, before test workers need it: python -m tests.warm POLICY FAMILY."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from osrl.study.practice import practise
from osrl.study.study import Study
from osrl.way import compile_now


def warm(policy: str, family: str) -> None:
    """Ask, tell, lose and look, as several would at once."""
    compile_now()
    settings: dict[str, Any] = {"tasks": 2, "representations": 2, "predictors": 2, "seed": 0}
    if family == "gaussian":
        settings["noise_sd"] = 1.0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "study.db"
        with Study.create(place, policy=policy, family=family, **settings) as study:
            for i in range(12):
                study.tell(study.ask(), i % 2)
            study.abandon(study.ask(), ignorable=family == "gaussian" or policy in ("tas", "osrl-sc"))
            assert study.status.told == 12 and study.verify().ok
            study.forecast  # noqa: B018 - computed when it is looked at
            with study._session.reading() as progress:
                practise(progress)


if __name__ == "__main__":
    warm(*sys.argv[1:])
