"""Every pair of rules on an easy problem, played by the interpreter: python -m tests.support.rule_pairs prints JSON.

With NUMBA_DISABLE_JIT=1 nothing is compiled, which for so many pairs would take minutes.
"""

from __future__ import annotations

import json
from typing import Any

import osrl.policies  # noqa: F401  (registers the rules of the package)
from osrl.errors import OsrlError
from osrl.model.rng import new_key
from osrl.policies.contract import Policy
from osrl.policies.registry import pair, sampling_rules, split_stop, stop_names
from osrl.testing import EASY, check_replay, check_stepping, new_state, run_compiled

CHECKED = ("c-tracking+glr", "eb-tci+bets", "kl-lucb+intervals")
WHOLE = ("uniform", "tas", "oracle", "ttts", "kl-lucb")  # sampling rules that meet every threshold
WITH_COUNTS = ("tas", "ttts")  # which are slow without the compiler
SHORT = ("glr-tas", "glr-gk", "intervals-gk", "posterior", "bets")  # for the others


def pairs() -> list[tuple[Policy, str, str]]:
    """Return every pair that fits: the policy, its threshold, and the name of the stopping rule with it."""
    found = []
    for sampling in sampling_rules():
        for stop in stop_names():
            rule, threshold = split_stop(stop)
            if stop not in SHORT and sampling not in (WITH_COUNTS if rule == "counts" else WHOLE):
                continue
            try:
                found.append((pair(sampling, rule), threshold, f"{sampling} {stop}"))
            except OsrlError:
                continue
    return found


def play(policy: Policy, threshold: str, budget: int = 20_000) -> dict[str, Any]:
    """Play one run, and one that is cut short."""
    criteria = policy.criteria([(0.1, 0.1)], [threshold])
    key = new_key(1, 0)
    state, cut = (new_state(policy, EASY, criteria, key) for _ in range(2))
    rounds = run_compiled(state, EASY, key, budget)
    run_compiled(cut, EASY, key, 12)
    outcome = state.outcome
    return {
        "rounds": rounds,
        "status": int(outcome.status[0]),
        "tau": int(outcome.tau[0]),
        "tau_g": int(outcome.tau_g[0]),
        "pulls": int(outcome.pulls.sum()),
        "representation": outcome.representation[0].tolist(),
        "predictor": outcome.predictor[0].tolist(),
        "cut": [int(cut.outcome.tau[0]), int(cut.outcome.pulls.sum())],
    }


def main() -> None:
    """Play every pair, and put some through the contract test."""
    found = {name: play(policy, threshold) for policy, threshold, name in pairs()}
    for name in CHECKED:
        policy = pair(*name.split("+"))
        check_stepping(policy)
        check_replay(policy)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
