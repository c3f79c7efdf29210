"""Lower bounds on the samples that any policy needs.

- `osrl.bounds.lower`: `lower_bound`, every bound of the paper with its certificate
- `osrl.bounds.tolerance`: the bound for answers that are good enough
- `osrl.bounds.separate_tasks`: the bound without sharing, task by task
"""
