"""The paper's experiments, run again, with the published numbers beside ours.

    published, simulation, trace -> table1, table2, dynamics -> results -> reproduce

- `osrl.paper.reproduce`: `reproduce`, the whole of it, in a folder with a report
- `osrl.paper.results`, `osrl.paper.page`: what each part says, and the report
- `osrl.paper.published`: the published numbers
- `osrl.paper.verdicts`: whether two numbers agree
- `osrl.paper.table1`, `osrl.paper.table2`, `osrl.paper.claims`: numbers, judged
- `osrl.paper.trace`, `osrl.paper.dynamics`: phase 1 by itself, recorded and averaged
- `osrl.paper.figures`, `osrl.paper.concept_figures`: charts of its dynamics, and of two ideas
- `osrl.paper.experiment`: how often, with which seed, in how many threads

It draws charts, so it needs the extra `charts`; without it, importing says what to install.
"""
