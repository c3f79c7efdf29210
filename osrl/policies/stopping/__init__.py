"""Stopping rules: when a run is over, and what the answer is. One file for each (see `osrl.policies.contract`).

| rule | what it does |
|---|---|
| `bets` | bets on randomised draws rule out what is not best |
| `counts` | the same with evidence from counts, which holds for any sampling |
| `joint` | likelihood ratios (`glr`), intervals or posteriors, in one phase; `levels`: thresholds, proofs |
| `phases` | the paper's: the representation first, then the predictor of each task |
| `released` | as the authors' released code does, without a guarantee |
| `tasks` | each task by itself, with the threshold of track-and-stop |
| `transfer` | one task with all arms; the others with those of its representation |

`contests` and `phase2` are what the last four share; `counting`: how the paper's algorithm stops by counts;
`tally`, `duels`, `posterior`: pulls and means, their likelihood ratios and posteriors, for the joint rules.
"""
