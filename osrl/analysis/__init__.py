"""Logs that were collected elsewhere: what they prove.

- `osrl.analysis.input`: files as warehouses export them
- `osrl.analysis.columns`, `osrl.analysis.trials`: what their columns mean, as a table of trials, checked
- `osrl.analysis.verdict`: the hypotheses of a study, tested row by row; `analyse` does all of it in one call
"""
