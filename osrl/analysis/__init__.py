"""Logs that were collected elsewhere: what they prove.

- `sources`: files as warehouses export them;
- `columns`, `numbers`, `trials`: what their columns mean, as a table of trials, checked;
- `judge`: the same hypotheses as those of a study, led through the rows of a table;
- `analyse`: all of it in one call.
"""
