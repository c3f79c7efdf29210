"""The rules of the package that can be paired: every sampling rule with every stopping rule that it fits.

`osrl.policies.contract.pair` and the names ``sampling+stopping`` make the pairs. Rules that go through phases or tasks
fit only each other, and are used by their policies (`osrl.policies.builtin`).
"""

from __future__ import annotations

from osrl.policies.contract import register_rule
from osrl.policies.sampling import baselines
from osrl.policies.sampling import residual_needs as needs
from osrl.policies.sampling import uniform as even
from osrl.policies.stopping import bets, counts
from osrl.policies.stopping import one_phase as joint

register_rule(needs.RULE, "osrl")
register_rule(even.RULE, "uniform")
for _rule in baselines.RULES:
    register_rule(_rule)
for _stop in (*joint.RULES, bets.RULE, counts.RULE):
    register_rule(_stop)
