"""The paper reproduced: its experiments run again with the published numbers beside ours, and the authors' own code.

    published, simulation, dynamics -> table1, table2, figures, claims, pairs, baselines -> report -> reproduce

- `osrl.paper.reproduce`: `reproduce`, which runs all of it and fills a folder
- `osrl.paper.report`: each part as tables and figures, and the page
- `osrl.paper.published`: the published numbers, and whether two numbers agree
- `osrl.paper.table1`, `osrl.paper.table2`, `osrl.paper.claims`: the tables and the sentences, compared
- `osrl.paper.dynamics`, `osrl.paper.figures`: phase 1 recorded and averaged; the paper's figures
- `osrl.paper.pairs`, `osrl.paper.baselines`: every pair of rules, and published numbers of other papers
- `osrl.paper.experiment`: number of runs, seed and threads
- `osrl.paper.authors_code`, `osrl.paper.mirror_ascent`: the rules of the authors' released code, and the paper's
  method for the optimal allocation

Everything but the last line draws charts and needs the extra `charts`; without it, importing says what to install.
"""

# The registry of policies imports the authors' rules from here: it has to be loaded before them, whoever comes first.
import osrl.policies  # noqa: F401
