"""Sampling rules: which arm is next. One file for each (see `osrl.policies.contract`).

| rule | what it does |
|---|---|
| `needs` | the joint allocation for what the tests still lack, with exploration |
| `even` | every arm with the same probability |
| `phases` | the paper's: D-tracking, first for the representation, then in each task |
| `released` | as the authors' released code does |
| `tasks` | track-and-stop's: D-tracking within one task after the other |
| `baselines` | the rules of others, lifted to representations and predictors: all of them in one state |

`tracking` is the tracking rule that `phases`, `released` and `tasks` share. `joint` is what the
baselines share; `proportions`, `top_two` and `confidence` are the rules.
"""
