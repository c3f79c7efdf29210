"""Studies: real experiments that last, over many processes, through crashes and late results.

    ask, tell -> events -> storage (SQLite, PostgreSQL)
                 events -> progress -> verdict, evidence, history

- `osrl.study.study`: `Study`, what people use
- `osrl.study.log.events`: what can happen; the log of events is the truth
- `osrl.study.operations.session`: a process at work on a study, turn by turn
- `osrl.study.storage.writer_queue`: writers of a SQLite file, served in the order of arrival
- `osrl.study.state.state`: the state of a study, as a progress over its events
- `osrl.study.log.corrections`: rewards that were told wrong
- `osrl.study.state.in_order`: evidence while some trials have not reported
- `osrl.study.state.constants`: the constants of the evidence, which the log keeps
- `osrl.study.storage.base`: what a place for events owes; `osrl.study.storage.sql`: SQLite and PostgreSQL
- `osrl.study.storage.transaction`: the statements of every ask and tell, straight to the driver
- `osrl.study.storage.schema`: tables and migrations; `osrl.study.storage.url`: paths and URLs
- `osrl.study.state.snapshot`: a cache that makes opening fast
- `osrl.study.settings`: what a study is created with
- `osrl.study.views.verify`: does everything follow from the log?
- `osrl.study.views.status`, `osrl.study.views.evidence`, `osrl.study.views.history`: what can be read off
- `osrl.study.log.export`: logs and trials as files
"""
