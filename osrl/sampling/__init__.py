"""Sampling rules: which arm is next. One file for each (see `osrl.contract`).

| rule | what it does |
|---|---|
| `needs` | the joint allocation for what the tests still lack, with exploration |
| `even` | every arm with the same probability |
| `phases` | the paper's: D-tracking, first for the representation, then in each task |
| `released` | as the authors' released code does |
| `tasks` | track-and-stop's: D-tracking within one task after the other |

`tracking` is the tracking rule that the last three share.
"""
