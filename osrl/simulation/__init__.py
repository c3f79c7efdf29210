"""Replications of a policy on an instance: which runs, on which machines, and what came of them.

    simulate -> Campaign -> Schedule -> executor (threads, Dask) -> ResultsStore -> Runs

- `osrl.simulation.api`: `simulate` itself
- `osrl.simulation.campaign`: all runs that were asked for, checked
- `osrl.simulation.chunk`: some runs of one policy, computed anywhere, as a table
- `osrl.simulation.executors`: threads and clusters, and which runs are left
- `osrl.simulation.store`: the folder in which finished runs are kept
- `osrl.simulation.runs`, `osrl.simulation.trace`: the results: a frame, its summary, and traces of runs
- `osrl.simulation.rewards`: custom rewards
- `osrl.simulation.run`: the compiled loop of one run
- `osrl.simulation.plan`, `osrl.simulation.experiment`: before an experiment, how many trials to expect
- `osrl.simulation.protocol`, `osrl.simulation.forecast`: experiments with delays and losses, and how they go on
"""
