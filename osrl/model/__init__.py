"""The problem: instances, reward families, risks, random draws and outcomes.

- `osrl.model.instance`: the mean reward of every arm, with names and a family
- `osrl.model.families`: which rewards are possible, and the divergence of two means
- `osrl.model.risks`: accepted risks and tolerances
- `osrl.model.environment`: the source of the rewards of a run
- `osrl.model.rng`: counter-based random draws
- `osrl.model.outcome`: what a run has decided
- `osrl.model.arrays`: the array types, as annotations
"""
