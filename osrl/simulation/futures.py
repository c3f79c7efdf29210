"""A future of an experiment, played in blocks: so far ahead as it takes, at a price that hardly grows.

The n-th trial from now belongs to a block of at most n / `FINE` trials. So whatever is decided is placed to
within that share of the way to it, and ten times as many trials take `FINE` ln(10) blocks more. In a block
weights and bets stay as they are (`osrl.hypotheses.blocks`), so it has at most 1 / `COARSE` of all samples.
Results come in the order of hand-out, as in `osrl.simulation.protocol`; those that are late are judged as if
they had been handed out now.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from osrl.hypotheses.blocks import BLOCK_HIGH, BLOCK_LOST, BLOCK_LOW, observe_block
from osrl.hypotheses.state import HYP_SAMPLES
from osrl.jit import kernel_in_place
from osrl.jit.kernels import has_machine_code
from osrl.model.arrays import Floats, Integers
from osrl.model.families import Family
from osrl.model.outcome import is_open
from osrl.policies.contract import State
from osrl.policies.registry import loop_for, policy_of
from osrl.policies.steps import RuleFunctions, design, design_of, new_ticket, specialise_on_rules, wants_design
from osrl.simulation.protocol import TrialProtocol

FINE, COARSE = 20, 40
GROWTH = 0.1  # of the number of samples between two designs: a forecast has no need of more


class Future:
    """An experiment that goes on from a state, which is copied, with means (X, n) that its data allow.

    ``pending``: the arms x * n + a of trials that have not reported, in their order.
    """

    def __init__(
        self,
        state: State,
        means: Floats,
        family: Family,
        conditions: TrialProtocol,
        pending: Integers,
        rng: np.random.Generator,
    ) -> None:
        self._state = state = copy.deepcopy(state)
        if hasattr(state.sampling, "growth"):
            growth = max(GROWTH, state.sampling.growth)
            self._state = state._replace(sampling=state.sampling._replace(growth=growth))
        self._means, self._noise, self._conditions, self._pending = means, family.noise, conditions, pending
        self._values = two_values(means, family)
        self._rng = rng
        self._room = np.zeros((*means.shape, new_ticket(state).size))
        self._propensities, self._row = np.zeros((2, *means.shape))
        self._ended = self._size = 0

    @property
    def handed_out(self) -> int:
        """Return the number of trials handed out since its start, in the middle of the last block."""
        ended = self._ended - self._size // 2
        return max(ended + self._conditions.delay - self._pending.size, 0)

    @property
    def is_compiled(self) -> bool:
        """Tell whether there is machine code to play it with."""
        policy, arguments = policy_of(self._state), self._to_prepare()
        if policy.outside is None and arguments[4] is None:
            return False
        ended = np.zeros((3, *self._means.shape))
        steps: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
            (prepare_block, arguments),
            (play_block, self._to_play(ended)),
        )
        return not policy.compiled or all([has_machine_code(loop_for(step, policy), *values) for step, values in steps])

    def play(self, until: int) -> bool:
        """Continue until so many trials were handed out from its start; tell whether all is decided."""
        policy = policy_of(self._state)
        prepare, play = loop_for(prepare_block, policy), loop_for(play_block, policy)
        while is_open(self._state.outcome) and self.handed_out < until:
            prepare(*self._to_prepare())
            play(*self._to_play(self._draw()))
        return not is_open(self._state.outcome)

    def _to_prepare(self) -> tuple[Any, ...]:
        return (
            self._state,
            self._conditions.shares,
            self._propensities,
            self._row,
            design_of(self._state),
        )

    def _to_play(self, ended: Floats) -> tuple[Any, ...]:
        return self._state, self._propensities, ended, self._values, self._room

    def _draw(self) -> Floats:
        """Draw the next block: how many trials of each arm end with a high reward, a low one, or are lost."""
        rng, conditions = self._rng, self._conditions
        samples = float(self._state.stopping.numbers[HYP_SAMPLES])
        size = int(max(1, min(self._ended / FINE, samples / COARSE)))
        waiting = self._pending[self._ended : self._ended + size]
        if waiting.size:
            size, shape = waiting.size, self._means.shape
            counts = np.bincount(waiting, minlength=self._means.size).reshape(shape)
        else:
            shares = self._propensities.ravel() / self._propensities.sum()
            counts = rng.multinomial(size, shares).reshape(self._means.shape)
        self._ended += size
        self._size = size
        lost = rng.binomial(counts, conditions.loss)
        ignored = rng.binomial(counts - lost, min(conditions.ignored / max(1 - conditions.loss, 1e-9), 1.0))
        told = counts - lost - ignored
        ended = np.zeros((3, *self._means.shape))
        if self._noise > 0.0:
            ended[BLOCK_HIGH] = told
            spread = np.sqrt(self._noise / np.maximum(told, 1))
            self._values[BLOCK_HIGH] = rng.normal(self._means, spread)
        else:
            ended[BLOCK_HIGH] = rng.binomial(told, self._means)
            ended[BLOCK_LOW] = told - ended[BLOCK_HIGH]
        ended[BLOCK_LOST] = lost
        return ended


def two_values(means: Floats, family: Family) -> Floats:
    """Return rewards (2, X, n), the first with the mean as its probability, that have the mean and the variance.

    1 and 0 for coins; for other rewards in [0, 1] the variance is that of the simulated ones.
    """
    if family.name != "bounded":
        return np.stack([np.ones_like(means), np.zeros_like(means)])
    inside = np.clip(means, 1e-9, 1 - 1e-9)
    share = np.sqrt((1 - inside) / (2 - inside))  # of the standard deviation of a coin
    return np.stack([inside + share * (1 - inside), inside - share * inside])


@specialise_on_rules
def read_propensities(rules: RuleFunctions) -> Callable[[State, int, Floats], None]:
    """Write the probability that each arm (X, n) is next: ``read_propensities(state, task, out)``."""
    select = rules.select

    def read_propensities(state: State, task: int, out: Floats) -> None:
        arm = select(state.sampling, state.stopping, task, out)
        if arm >= 0:
            n = out.shape[1]
            for x in range(out.shape[0]):
                for a in range(n):
                    out[x, a] = 1.0 if x * n + a == arm else 0.0

    return read_propensities


@specialise_on_rules
def show_rewards(rules: RuleFunctions) -> Callable[[State, Floats, Floats], None]:
    """Let the sampling rule take in the rewards of a block: ``show_rewards(state, ended, values)``."""
    sampling_observe = rules.sampling_observe

    def show_rewards(state: State, ended: Floats, values: Floats) -> None:
        for end in range(values.shape[0]):
            for x in range(values.shape[1]):
                for a in range(values.shape[2]):
                    for _ in range(int(ended[end, x, a])):
                        sampling_observe(state.sampling, state.stopping, x, a, values[end, x, a])

    return show_rewards


@kernel_in_place
def prepare_block(state: Any, shares: Floats, propensities: Floats, row: Floats, pointer: Any) -> None:
    """Write the ``propensities`` (X, n) of a block; ``shares`` of tasks that arrive, or none."""
    if wants_design(state):
        design(state, pointer)
    if shares.size == 0:
        read_propensities(state, -1, propensities)
    for x in range(shares.size):
        read_propensities(state, x, row)
        for a in range(row.shape[1]):
            propensities[x, a] = shares[x] * row[x, a]


@kernel_in_place
def play_block(state: Any, propensities: Floats, ended: Floats, values: Floats, tickets: Floats) -> None:
    """Take in the trials of a block."""
    show_rewards(state, ended, values)
    observe_block(state.stopping, propensities, ended, values, tickets)
