"""Sampling rules: which arm is next (see `osrl.policies.contract`).

| module | rules | samples |
|---|---|---|
| `residual_needs` | `osrl` | by the joint allocation for what the tests still need, with exploration |
| `uniform` | `uniform` | every arm with the same probability |
| `two_phase` | `phases` | the paper's D-tracking, first for the representation, then in each task |
| `per_task` | `tasks` | by D-tracking within one task after the other, as track-and-stop does |
| `proportions` | `tas`, `c-tracking`, `oracle` | by tracking the best proportions for the open questions |
| `top_two` | `ttts`, `t3c`, `eb-tci`, `ttei` | a leader and a challenger |
| `confidence` | `kl-lucb`, `ugape`, `racing`, `chernoff-racing` | arms whose confidence intervals overlap |

`baselines` assembles the rules of the last three modules, which share the state of `common`: they were published for
one task, and are lifted to representations and predictors there. Other shared parts: `tracking` (D-tracking with
forced exploration), `given_tasks` (tasks that arrive from outside), `needs` (needs of a tolerance and a model check).
"""
