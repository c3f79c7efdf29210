"""Compile what simulations and studies of policies call, before test workers need it.

    python -m tests.support.warm POLICY/FAMILY...

In one process, what several of them share is translated once.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import osrl
from osrl.jit.mode import compile_now
from osrl.model.rng import new_key
from osrl.policies.steps import design_of
from osrl.study.study import Study
from tests.support.simulations import campaign_of

STUDIES = ("osrl", "uniform", "osrl-sc", "tas")


def warm_simulation(policy: str, family: str) -> None:
    """Play a few rounds; the weights are solved for by this process, not by one beside it."""
    means = [[[0.9, 0.2], [0.3, 0.1]], [[0.2, 0.9], [0.3, 0.1]]]
    instance = osrl.Instance.bernoulli(means) if family == "bernoulli" else osrl.Instance.gaussian(means, noise_sd=1.0)
    for job in campaign_of(instance, policy).jobs:
        design_of(job.new_state(new_key(0, 0)))
    osrl.simulate(instance, policy, runs=1, budget=50)


def warm_study(policy: str, family: str) -> None:
    """Ask, tell, lose and look, as several would at once."""
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
            first, second, third, fourth = study.ask(n=4)
            study.tell(second, 1)
            study.abandon(third, ignorable=policy in ("tas", "osrl-sc"))
            study.tell(first, 0)  # and with it those that waited for it
            study.abandon(fourth, ignorable=True)


if __name__ == "__main__":
    compile_now()
    for policy, family in (each.split("/") for each in sys.argv[1:]):
        warm_simulation(policy, family)
        if policy in STUDIES:
            warm_study(policy, family)
    osrl.lower_bound("paper", delta=0.1)
