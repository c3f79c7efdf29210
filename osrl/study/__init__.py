"""Studies: real experiments that last, over many processes, through crashes and late results.

The rooms, each of which imports only those below it:

- `osrl.study.study`: `Study`, the public class; `osrl.study.backup`: all studies of a database in one file
- `osrl.study.operations`: ask, tell, abandon, correct, change. `session` refreshes, locks and commits, `batch` runs
  calls, `loop` is ``study.run``
- `osrl.study.views`: what can be read off: status, evidence, arms, history, trials, verification
- `osrl.study.settings`: what a study is created with
- `osrl.study.state`: what the log adds up to. `state` is the whole of it, `policy_state` and `constants` make the
  state of its policy, `in_order`, `missingness`, `harm` and `totals` are parts, `snapshot` and `bulk_replay` make
  opening fast
- `osrl.study.storage`: `base` is the contract, `sql` keeps it for SQLite and PostgreSQL
- `osrl.study.migrations`: old logs
- `osrl.study.log`: the events, which are the truth, and their hash chain

An **ask**, from top to bottom::

    Study.ask                                   study.py
      parse_ask, ask_call, run_call             operations/ask.py, operations/batch.py
        Redesign.presolve, solve                operations/ask.py        new weights, while the log is not locked
        Session.write                           operations/session.py
          SqlStorage.lock_log                   storage/sql.py           BEGIN IMMEDIATE, or the row of the study
          _take_in_news                         operations/session.py    what others have written
          issue_trials, check_ask               operations/ask.py
            StudyState.choose                   state/state.py           the arm: here it is drawn
            WriteTransaction.issue              operations/session.py
              next_stored                       log/chain.py             the event, and its hash
              StudyState.issue                  state/state.py           its ticket; it is pending now
          LockedLog.append, commit              storage/locked_log.py, storage/transaction.py

A **tell**::

    Study.tell                                  study.py
      parse_trial_ref, tell_call, run_call      operations/tell.py, operations/batch.py
        Session.write                           operations/session.py    refresh and lock, as above
          tell, find_end                        operations/tell.py       which trial; told before?
            StudyState.apply_reward             state/state.py           the reward becomes evidence; a verdict?
            WriteTransaction.record             operations/session.py    the event, with the verdict
            _enforce_harm_limit                 operations/tell.py       withdraw what does harm
          LockedLog.append, commit              storage/locked_log.py, storage/transaction.py
"""
