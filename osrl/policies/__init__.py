"""Policies: which arm to sample next, when to stop, and what to answer. One file for each.

| name | file | what it is |
|---|---|---|
| `osrl` | `osrl.py` | one phase, betting evidence, every sample used for every test; the default |
| `osrl-sc` | `osrl_sc.py` | the paper's algorithm |
| `osrl-sc-released` | `released.py` | what the authors' released code does, to reproduce their tables |
| `tas` | `tas.py` | track-and-stop on each task with all arms: the paper's baseline |
| `tas-transfer` | `tas_transfer.py` | track-and-stop on one task; the others reuse its representation |
| `uniform` | `uniform.py` | every arm with the same probability, with the evidence of `osrl` |

What they have in common:

- `contract`: what a policy is; `round`: how its functions get into every driver
- `states`: the arrays of a state by name; `options`: the parameters of a policy
- `tracking`: the tracking rule; `track_and_stop`: track-and-stop in one task; `phase2`: in each task, for
  the predictors of a chosen representation; `sharp`: stopping by counts

Importing this package registers them all; `osrl.policies.contract.find` gives one by its name.
`docs/policies.md` says how to add one, and `osrl.testing` checks it.
"""

from osrl.policies import osrl, osrl_sc, released, tas, tas_transfer, uniform

__all__ = ["osrl", "osrl_sc", "released", "tas", "tas_transfer", "uniform"]
