"""Reports for people and programs: text and tables for the terminal, JSON documents, charts, pages.

- one module for each document: `bound`, `simulate`, `plan`, `study`, `analysis`, `rules`
- `claims`, `sentences`: what is proved, and what else views say, in words
- `numbers`: numbers, risks, times and lists as text
- `instance`, `study_tables`, `table`: tables for the terminal
- `charts`, `run_charts`: charts (extra `charts`); `html`: pages from templates
- `notebook`: results in a notebook
"""
