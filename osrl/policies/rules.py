"""The rules of the package that can be paired: every sampling rule with every stopping rule that it fits.

`osrl.contract.pair` and the names ``sampling+stopping`` make the pairs. Rules that go through phases or tasks
fit only each other, and are used by their policies (`osrl.policies.named`).
"""

from __future__ import annotations

from osrl.contract import register_rule
from osrl.sampling import baselines, even, needs
from osrl.stopping import bets, counts, joint

register_rule(needs.RULE, "osrl")
register_rule(even.RULE, "uniform")
for _rule in baselines.RULES:
    register_rule(_rule)
for _stop in (*joint.RULES, bets.RULE, counts.RULE):
    register_rule(_stop)
