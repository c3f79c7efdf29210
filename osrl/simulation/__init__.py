"""Replications of a policy on an instance: which runs, on which machines, and what came of them.

    simulate -> Campaign -> Schedule -> engine (threads, Dask) -> Store -> Runs

- `osrl.simulation.run`: the compiled loop of one run
- `osrl.simulation.chunk`: some runs of one policy, computed anywhere, as a table
- `osrl.simulation.campaign`: all runs that were asked for; `simulate` itself
- `osrl.simulation.schedule`: which runs are left, in chunks of about a second
- `osrl.simulation.threads`, `osrl.simulation.cluster`: the two engines
- `osrl.simulation.results_store`: the folder in which finished runs are kept
- `osrl.simulation.runs`: the results: a frame, and its summary
"""
