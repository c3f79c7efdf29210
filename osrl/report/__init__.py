"""What people and programs read: tables for the terminal and JSON documents.

- `osrl.report.bound`: the lower bounds of an instance
- `osrl.report.allocation`: an allocation as heat maps, or as a list where there are many arms
- `osrl.report.separate_tasks`: the bound without sharing, to compare with
- `osrl.report.numbers`: how numbers are written
"""
