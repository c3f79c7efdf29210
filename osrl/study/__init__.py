"""Studies: real experiments that last, over many processes, through crashes and late results.

    ask, tell -> events -> storage (SQLite, PostgreSQL)
                 events -> progress -> verdict, evidence, history

- `osrl.study.study`: `Study`, what people use
- `osrl.study.events`: what can happen; the log of events is the truth
- `osrl.study.session`: a process at work on a study, turn by turn
- `osrl.study.line`: writers of a SQLite file, served in the order of arrival
- `osrl.study.practice`: what is compiled before it is needed
- `osrl.study.progress`: the state of a study, as a progress over its events
- `osrl.study.corrections`: rewards that were told wrong
- `osrl.study.prefix`: evidence while some trials have not reported
- `osrl.study.constants`: the constants of the evidence, which the log keeps
- `osrl.study.storage`: what a place for events owes; `osrl.study.sql`: SQLite and PostgreSQL
- `osrl.study.driver`: the statements of every ask and tell, straight to the driver
- `osrl.study.schema`: tables and migrations; `osrl.study.place`: paths and URLs
- `osrl.study.snapshot`: a cache that makes opening fast
- `osrl.study.settings`: what a study is created with
- `osrl.study.replay`: does everything follow from the log?
- `osrl.study.status`, `osrl.study.standing`, `osrl.study.history`: what can be read off
- `osrl.study.export`: logs and trials as files
"""
