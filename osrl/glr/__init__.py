"""Generalised likelihood ratios, and the transport costs that they are made of.

- `osrl.glr.transport_cost`: the closest model of one task in which a given arm is the best
- `osrl.glr.statistic`: the sum of these costs over tasks, and `rho`
"""
