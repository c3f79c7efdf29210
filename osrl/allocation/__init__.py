"""Optimal allocations: how to spread samples over tasks and arms, with a certificate.

- `allocate` solves the max-min programs of the paper by an interior-point method, and returns an interval that
  is proved to contain the optimal value (`osrl.allocation.solver`)
- `single_task` returns the exact track-and-stop weights of one task
- `osrl.allocation.program`: the program in the form that kernels take
- `osrl.allocation.interior_point`, `elimination`: the method, and the linear algebra of its Newton step
- `osrl.allocation.certificate`: bounds on the optimal value, proved from primal and dual points
- `osrl.allocation.residual`: what tests still need during a run
- `osrl.allocation.partition`: Proposition 2 of the paper

The paper's own method, mirror ascent, is in `osrl.paper.mirror_ascent`.
"""

from osrl.allocation.single_task import SingleTask, single_task
from osrl.allocation.solver import Allocation, DualCertificate, Needs, allocate, program_for

__all__ = ["Allocation", "DualCertificate", "Needs", "SingleTask", "allocate", "program_for", "single_task"]
