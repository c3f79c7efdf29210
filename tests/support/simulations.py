"""Instances that are quick to simulate, and campaigns on them."""

from typing import Any

from osrl.model.instance import Instance
from osrl.policies.registry import registered
from osrl.simulation.campaign import Campaign, read_campaign

POLICIES = [policy.name for policy in registered() if policy.outside is None]
EASY = Instance.bernoulli(
    [[[0.9, 0.2], [0.3, 0.1]], [[0.2, 0.9], [0.3, 0.1]]],
    tasks=["young", "old"],
    representations=["a", "b"],
    predictors=["p", "q"],
)
CLOSE = Instance.bernoulli([[[0.55, 0.45], [0.45, 0.35]], [[0.45, 0.55], [0.35, 0.4]]])  # errors do occur


def campaign_of(instance: Instance = EASY, policy: Any = "tas", delta: Any = 0.1, **changes: Any) -> Campaign:
    given = {"delta_g": None, "delta_h": None, "threshold": None, "budget": None, "options": None, **changes}
    return read_campaign(instance, policy, delta, given.pop("runs", 10), given.pop("seed", 0), **given)
