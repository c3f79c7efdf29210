"""Logs that were collected elsewhere: what they prove.

- `trials`: tables of trials, read and checked;
- `analyse`: the same hypotheses as those of a study, led through the rows of a table.
"""
