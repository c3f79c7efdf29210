"""Policies: named pairs of a sampling rule (`osrl.policies.sampling`) and a stopping rule (`osrl.policies.stopping`).

| name | sampling | stopping | what it is |
|---|---|---|---|
| `osrl` | `needs` | `bets` | one phase, every sample used for every test; the default |
| `osrl-sc` | `phases` | `phases` | the paper's algorithm |
| `osrl-sc-released` | `released` | `released` | the authors' released code, to reproduce their tables |
| `tas` | `tasks` | `tasks` | track-and-stop on each task with all arms: the paper's baseline |
| `tas-transfer` | `tasks` | `transfer` | track-and-stop on one task; the others reuse its representation |
| `uniform` | `even` | `bets` | every arm with the same probability |

`osrl.policies.steps` is one round, which every driver plays; `osrl.policies.state_arrays`: the arrays of a state by
name. Importing this package registers the pairs; `osrl.policies.registry.find` returns one by its name.
`docs/policies.md` shows how to add one, and `osrl.testing` checks it.
"""

from osrl.policies.contract import Policy, Problem, SamplingRule, StoppingRule
from osrl.policies.registry import register, register_rule

from osrl.policies import builtin  # isort: skip - registers what is above

__all__ = ["Policy", "Problem", "SamplingRule", "StoppingRule", "builtin", "register", "register_rule"]
