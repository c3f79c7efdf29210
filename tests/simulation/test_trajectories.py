"""Runs and study logs that were made before: the code gives them again."""

from __future__ import annotations

import json

import pytest

from osrl.study.log.export import read_log
from osrl.study.study import Study
from osrl.study.views.verify import verify
from tests.support.trajectories import CASES, FIXTURE, INSTANCES, STUDIES, ends_of, log_file, runs_of

KEPT = json.loads(FIXTURE.read_text())
FEW = {"paper": 2, "gaussian": 10, "(3, 2, 3)": 10}


@pytest.mark.parametrize("case", CASES)
def test_the_first_seeds_end_as_they_did(case: str) -> None:
    for instance, runs in FEW.items():
        for name, content in ends_of(case, instance, runs).items():
            assert content == KEPT[case][instance][name][:runs], f"{name} of {case} on {instance}"


@pytest.mark.validate
@pytest.mark.parametrize("case", CASES)
def test_every_seed_gives_the_run_that_was_kept(case: str) -> None:
    for instance in INSTANCES:
        assert runs_of(case, instance) == KEPT[case][instance], f"{case} on {instance}"


@pytest.mark.parametrize("name", STUDIES)
def test_a_log_that_was_written_before_replays(name: str, tmp_path: object) -> None:
    events = read_log(log_file(name))
    found = verify(events)
    assert found.ok, found.problems
    assert found.verdict != "running"
    with Study.read_log(f"{tmp_path}/study.db", log_file(name)) as study:
        assert study.verdict == found.verdict
        assert study.verify().ok
