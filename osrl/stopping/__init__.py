"""Stopping rules: when a run is over, and what the answer is. One file for each (see `osrl.contract`).

| rule | what it does |
|---|---|
| `bets` | bets on randomised draws rule out what is not best |
| `phases` | the paper's: the representation first, then the predictor of each task |
| `released` | as the authors' released code does, without a guarantee |
| `tasks` | each task by itself, with the threshold of track-and-stop |
| `transfer` | one task with all arms; the others with those of its representation |

`contests` and `phase2` are what the last four share; `counting`: stopping by counts.
"""
