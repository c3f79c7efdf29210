"""What people and programs read: tables for the terminal and JSON documents.

- `osrl.report.bound`: the lower bounds of an instance
- `osrl.report.simulate`: the summary of a simulation
- `osrl.report.study`: the status of a study; `osrl.report.analysis`: what a log proves
- `osrl.report.hypotheses`: where tests stand, and answers
- `osrl.report.allocation`: an allocation as heat maps, or as a list where there are many arms
- `osrl.report.separate_tasks`: the bound without sharing, to compare with
- `osrl.report.instance`: an instance in a few words
- `osrl.report.table`: a table made once, for the terminal and for a page
- `osrl.report.charts`, `osrl.report.html`: charts, and one page that holds everything (extra `charts`)
- `osrl.report.numbers`: how numbers are written
"""
