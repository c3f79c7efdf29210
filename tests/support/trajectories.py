"""The same seeds give the same runs: arms, rewards, stopping times and answers, kept as a fixture.

python -m tests.support.trajectories [CASE ...]     make the fixture again: all of it, or these cases

A change of the code that is meant to leave the runs alone is compared with it (`test_trajectories`). Where a
rule is changed on purpose, make its cases again and say so in the commit. Digests hold for the mathematical
functions of one C library: elsewhere a last bit may send a run another way.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.jit import kernel
from osrl.model.arrays import Floats, Integers
from osrl.model.environment import Environment, draw_reward, new_environment
from osrl.model.instance import Instance
from osrl.model.outcome import RUNNING, STATUS, Outcome, is_open
from osrl.model.rng import START_LANE, Key, new_key, uniform
from osrl.policies.contract import Criterion, Problem, State
from osrl.policies.registry import find
from osrl.policies.steps import apply_reward, conclude, design, design_of, issue_trial, new_ticket, stream, wants_design
from osrl.simulation.run import episode
from osrl.study.study import Study
from tests.support.instances import PAPER

FOLDER = Path(__file__).parents[1] / "data"
FIXTURE = FOLDER / "trajectories.json"
RUNS = 100
MOST = 200_000  # rounds
RISK = 0.1

INSTANCES = {
    "paper": Instance.bernoulli(PAPER),
    "gaussian": Instance.gaussian([[[0.9, 0.2], [0.3, 0.1], [0.2, 0.0]], [[0.1, 1.0], [0.2, 0.4], [0.5, 0.3]]], 0.5),
    "(3, 2, 3)": Instance.bernoulli(
        [
            [[0.85, 0.4, 0.3], [0.5, 0.35, 0.2]],
            [[0.3, 0.75, 0.45], [0.4, 0.5, 0.1]],
            [[0.2, 0.5, 0.9], [0.6, 0.3, 0.55]],
        ]
    ),
}


class Case(NamedTuple):
    """A policy with all that it reads off one run."""

    policy: str
    thresholds: tuple[str, ...]
    options: dict[str, Any]


CASES = {
    "osrl": Case("osrl", ("own",), {}),
    "uniform": Case("uniform", ("own",), {}),
    "osrl-sc": Case("osrl-sc", ("theorem", "released", "sharp"), {}),
    "osrl-sc sharp reuse": Case("osrl-sc", ("sharp",), {"reuse": True}),
    "osrl-sc theorem reuse": Case("osrl-sc", ("theorem",), {"reuse": True}),
    "osrl-sc-released": Case("osrl-sc-released", ("own",), {}),
    "tas": Case("tas", ("own",), {}),
    "tas-transfer": Case("tas-transfer", ("own",), {}),
}


@kernel
def record(
    state: Any,
    outcome: Outcome,
    environment: Environment,
    ticket: Floats,
    pointer: Any,
    arms: Integers,
    rewards: Floats,
) -> int:
    """Drive ``state`` as the compiled loop does, and write down every arm and reward; the rounds played."""
    tasks, n = environment.means.shape
    propensities = np.zeros((tasks, n))
    rounds = 0
    while rounds < arms.size and is_open(outcome):
        if wants_design(state):
            design(state, pointer)
        arm = issue_trial(state, -1, environment.key, rounds, propensities, ticket)
        x, a = arm // n, arm % n
        value = draw_reward(environment, stream(state), x, a)
        arms[rounds], rewards[rounds] = arm, value
        apply_reward(state, x, a, value, ticket)
        rounds += 1
    for criterion in range(outcome.reached.shape[1]):
        if outcome.reached[STATUS, criterion] == RUNNING:
            conclude(state, criterion)
    return rounds


def new_run(case: Case, instance: Instance, number: int) -> tuple[State, Key]:
    """Return a policy before its first sample, and the key of its random numbers."""
    key = new_key(0, number)
    criteria = tuple(Criterion(name, RISK, RISK) for name in case.thresholds)
    problem = Problem(instance.shape, instance.family, criteria)
    return find(case.policy).new(problem, uniform(key, START_LANE, 0), **case.options), key


def ending_of(found: Outcome) -> bytes:
    """Return when each criterion was reached, with which answer, and the samples of each arm, as bytes."""
    parts = found.status, found.tau, found.tau_g, found.representation, found.predictor, found.pulls
    return b"".join(np.ascontiguousarray(part, np.int64).tobytes() for part in parts)


def short(content: bytes) -> str:
    """Return a short digest."""
    return hashlib.sha256(content).hexdigest()[:16]


def way_of(case: Case, instance: Instance, number: int) -> str:
    """Play one run step by step, and return a digest of all that has happened."""
    state, key = new_run(case, instance, number)
    arms, rewards = np.zeros(MOST, np.int64), np.zeros(MOST)
    environment = new_environment(instance, key)
    rounds = record(state, state.outcome, environment, new_ticket(state), design_of(state), arms, rewards)
    way = arms[:rounds].tobytes() + np.round(rewards[:rounds], 6).tobytes()
    return short(way + ending_of(state.outcome))


def ends_of(case: str, instance: str, runs: int = RUNS) -> dict[str, list[Any]]:
    """Return the stopping times and ends of the first runs of a case, as simulations play them."""
    found: dict[str, list[Any]] = {"tau": [], "end": []}
    for number in range(runs):
        state, key = new_run(CASES[case], INSTANCES[instance], number)
        episode(state, INSTANCES[instance], key, MOST)
        found["tau"].append(state.outcome.tau.tolist())
        found["end"].append(short(ending_of(state.outcome)))
    return found


def runs_of(case: str, instance: str, runs: int = RUNS) -> dict[str, list[Any]]:
    """Return the first runs of a case on an instance, with all that has happened in them."""
    ways = [way_of(CASES[case], INSTANCES[instance], number) for number in range(runs)]
    return {**ends_of(case, instance, runs), "digest": ways}


# Studies --------------------------------------------------------------------------------------------------

MEANS = {"A": {"low": 0.9, "high": 0.2}, "B": {"low": 0.3, "high": 0.1}}
STUDIES: dict[str, dict[str, Any]] = {
    "osrl": {"policy": "osrl"},
    "osrl-gaussian": {"policy": "osrl", "family": "gaussian", "noise_sd": 0.4},
    "uniform": {"policy": "uniform", "family": "bounded"},
    "osrl-sc": {"policy": "osrl-sc", "budget": 160},
    "osrl-sc-sharp": {"policy": "osrl-sc", "threshold": "sharp"},
    "tas": {"policy": "tas"},
    "tas-transfer": {"policy": "tas-transfer"},
}


def log_file(name: str) -> Path:
    """Return the file that holds the log of a study."""
    return FOLDER / f"study-{name}.jsonl"


def play_study(study: Study, family: str, seed: int = 3) -> None:
    """Ask in batches; tell late and in any order; lose some."""
    rng = random.Random(seed)
    waiting: list[Any] = []
    bears_loss = study.settings.policy in ("osrl", "uniform") and family != "gaussian"
    while study.verdict == "running":
        left = (study.settings.budget or 10**9) - study.trials
        if left and (len(waiting) < 3 or rng.random() < 0.3):
            waiting += study.ask(n=min(rng.randrange(1, 4), left))
        rng.shuffle(waiting)
        for trial in waiting[: rng.randrange(4)]:
            if study.verdict != "running":
                return
            waiting.remove(trial)
            mean = MEANS[trial.representation][trial.predictor]
            if rng.random() < 0.06:
                study.abandon(trial, ignorable=not bears_loss or rng.random() < 0.5)
            elif family == "gaussian":
                study.tell(trial, round(rng.gauss(mean, 0.4), 3))
            elif family == "bounded":
                study.tell(trial, round(rng.random() ** ((1 - mean) / mean), 3))
            else:
                study.tell(trial, rng.random() < mean)


def write_study(name: str) -> None:
    """Run a study and keep its log."""
    settings = {"delta": 0.1, "seed": 7, **STUDIES[name]}
    names = {"tasks": ["young", "old"], "representations": list(MEANS), "predictors": list(MEANS["A"])}
    with tempfile.TemporaryDirectory() as folder:
        with Study.create(f"{folder}/study.db", **names, **settings) as study:  # type: ignore[arg-type]
            play_study(study, settings.get("family", "bernoulli"))
            study.write_log(log_file(name))


def _one_line_each(text: str) -> str:
    """Break JSON into lines that a difference shows one by one."""
    for name in ("tau", "end", "digest"):
        text = text.replace(f'"{name}"', f'\n"{name}"')
    return text + "\n"


def main(cases: list[str]) -> None:
    """Make the fixture, or some cases of it."""
    kept = json.loads(FIXTURE.read_text()) if FIXTURE.exists() else {}
    for case in cases or [*CASES, *(f"study {name}" for name in STUDIES)]:
        if case.startswith("study "):
            write_study(case.removeprefix("study "))
            continue
        kept[case] = {instance: runs_of(case, instance) for instance in INSTANCES}
        print(case, {i: float(np.mean(kept[case][i]["tau"])) for i in INSTANCES}, file=sys.stderr)
    FIXTURE.write_text(_one_line_each(json.dumps(kept)))


if __name__ == "__main__":
    main(sys.argv[1:])
