"""Stopping rules: when a run is over, and what the answer is (see `osrl.policies.contract`).

| module | rules | stops when |
|---|---|---|
| `bets` | `bets` | bets on randomised draws rule out all but one answer |
| `counts` | `counts` | evidence from counts does, whatever the sampling |
| `one_phase` | `glr`, `race`, `intervals`, `posterior` | likelihood ratios, intervals or posteriors do, in one phase |
| `two_phase` | `phases` | the paper's: the representation first, then the predictor of each task |
| `per_task` | `tasks` | each task by itself, with the threshold of track-and-stop |
| `transfer` | `transfer` | one task with all arms; the others with those of its representation |

Shared parts: `thresholds` (published thresholds and their proofs), `arm_stats` (pulls and means, likelihood ratios,
posteriors), `per_task_test` (the best arm of one task), `phase2` (the predictors of a representation that was chosen),
`sharp_counts` (evidence from counts for the paper's algorithm).

**Traces** read the evidence against each representation and each arm. A run ends when the evidence against all but
the answer exceeds its limit. Reading changes nothing.

| state | against a representation | against an arm |
|---|---|---|
| `Hypotheses` (`bets`, `counts`) | log E_g | log E of the predictor, among those of its representation |
| `OnePhaseStopping` | its statistic against the representation | the likelihood ratio of the best predictor to it |
| `TwoPhaseStopping` | C(g), in phase 1 | in phase 2 the likelihood ratio of the leader to it |
| `PerTaskStopping`, `TransferStopping` | | the likelihood ratio of the leader to it |
"""
