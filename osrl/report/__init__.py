"""What people and programs read: tables for the terminal and JSON documents.

- `osrl.report.bound`: the lower bounds of an instance
- `osrl.report.simulate`: the summary of a simulation
- `osrl.report.allocation`: an allocation as heat maps, or as a list where there are many arms
- `osrl.report.separate_tasks`: the bound without sharing, to compare with
- `osrl.report.instance`: an instance in a few words
- `osrl.report.numbers`: how numbers are written
"""
