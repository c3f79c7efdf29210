"""The policies of the package, and its rules that can be paired: every sampling rule with each stopping rule it fits.

Rules that go through phases or tasks fit only each other, and are used by their policies.
"""

from __future__ import annotations

from osrl.paper import authors_code
from osrl.policies.contract import Policy
from osrl.policies.registry import register, register_rule
from osrl.policies.sampling import baselines
from osrl.policies.sampling import per_task as track_tasks
from osrl.policies.sampling import residual_needs as needs
from osrl.policies.sampling import two_phase as track_phases
from osrl.policies.sampling import uniform as even
from osrl.policies.stopping import bets, counts, transfer
from osrl.policies.stopping import one_phase as joint
from osrl.policies.stopping import per_task as tasks
from osrl.policies.stopping import two_phase as phases

OSRL = register(
    Policy(
        name="osrl",
        summary="one phase with betting evidence: the fewest samples for the same guarantee",
        sampling=needs.RULE,
        stopping=bets.RULE,
    )
)
OSRL_SC = register(
    Policy(
        name="osrl-sc",
        summary="the paper's algorithm: phase 1 finds the representation, phase 2 the predictors",
        sampling=track_phases.RULE,
        stopping=phases.RULE,
    )
)
RELEASED = register(
    Policy(
        name="osrl-sc-released",
        summary="the released code's whole behaviour, for the reproduction of the paper's tables",
        sampling=authors_code.SAMPLING_RULE,
        stopping=authors_code.STOPPING_RULE,
    )
)
TAS = register(
    Policy(
        name="tas",
        summary="track-and-stop on each task with all arms: the paper's baseline",
        sampling=track_tasks.RULE,
        stopping=tasks.RULE,
    )
)
TAS_TRANSFER = register(
    Policy(
        name="tas-transfer",
        summary="track-and-stop on one task; the others reuse its representation",
        sampling=track_tasks.RULE,
        stopping=transfer.RULE,
    )
)
UNIFORM = register(
    Policy(
        name="uniform",
        summary="every arm with the same probability, with the evidence of osrl",
        sampling=even.RULE,
        stopping=bets.RULE,
    )
)

register_rule(needs.RULE, "osrl")
register_rule(even.RULE, "uniform")
for _rule in baselines.RULES:
    register_rule(_rule)
for _stop in (*joint.RULES, bets.RULE, counts.RULE):
    register_rule(_stop)
