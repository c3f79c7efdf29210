"""The steps of a round: new weights when they are due, a trial issued, its reward applied.

Every driver plays these: the compiled loop, traces, the contract test, and the study one at a time. Each is
made from the rules of the state that it is given (`specialise_on_rules`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from osrl.jit import kernel_in_place
from osrl.jit.kernels import P, R, direct, pointer_to, specialise
from osrl.model.arrays import Floats
from osrl.model.environment import Environment, draw_reward
from osrl.model.outcome import RUNNING, STATUS, Outcome
from osrl.model.rng import CHOICE_LANE, Key, pick_arm, uniform
from osrl.policies.contract import State
from osrl.policies.registry import policy_of, rules_of
from osrl.policies.validation import checked_rules

NO_ARM, NO_PROBABILITIES = -2, -3  # in place of an arm: what a rule has got wrong


def new_ticket(state: State) -> Floats:
    """Return space for the ticket of one trial."""
    return np.zeros(rules_of(type(state.sampling), type(state.stopping))[1].ticket_size(state.stopping))


class RuleFunctions(NamedTuple):
    """The functions of a round: a draw, and those of both rules, none left out."""

    draw: Any
    wants_design: Any
    design: Any
    select: Any
    sampling_observe: Any  # the sampling rule sees a reward
    ticket: Any
    observe: Any  # the stopping rule takes it in
    forfeit: Any
    stream: Any
    conclude: Any
    weights: Any
    evidence: Any


@kernel_in_place
def draw_arm(propensities: Floats, key: Key, number: int) -> int:
    """Return the arm x * n + a that draw ``number`` of a run picks; `NO_PROBABILITIES` (X, n) if these are none."""
    tasks, n = propensities.shape
    total = 0.0
    for x in range(tasks):
        for a in range(n):
            if not propensities[x, a] >= 0.0:
                return NO_PROBABILITIES
            total += propensities[x, a]
    return pick_arm(propensities, uniform(key, CHOICE_LANE, number)) if abs(total - 1.0) < 1e-6 else NO_PROBABILITIES


@kernel_in_place
def _never_due(sampling: Any, stopping: Any) -> bool:
    return False


@kernel_in_place
def _no_design(sampling: Any, stopping: Any) -> None:
    pass


@kernel_in_place
def _no_observe(sampling: Any, stopping: Any, x: int, a: int, reward: float) -> None:
    pass


@kernel_in_place
def _no_ticket(stopping: Any, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
    pass


@kernel_in_place
def _no_loss(stopping: Any, x: int, a: int, ticket: Floats) -> None:
    pass


@kernel_in_place
def _first_stream(stopping: Any) -> int:
    return 0


@kernel_in_place
def _no_weights(sampling: Any, out: Floats) -> None:
    pass


@kernel_in_place
def _no_evidence(stopping: Any, of_g: Floats, of_h: Floats) -> None:
    pass


def _rules(sampling: type, stopping: type) -> RuleFunctions:
    """Return the functions that act on states of these types."""
    one, other = checked_rules(*rules_of(sampling, stopping))
    return RuleFunctions(
        draw=draw_arm,
        wants_design=one["wants_design"] or _never_due,
        design=one["design"] or _no_design,
        select=one["select"],
        sampling_observe=one["observe"] or _no_observe,
        ticket=other["ticket"] or _no_ticket,
        observe=other["observe"],
        forfeit=other["forfeit"] or _no_loss,
        stream=other["stream"] or _first_stream,
        conclude=other["conclude"],
        weights=one["weights"] or _no_weights,
        evidence=other["evidence"] or _no_evidence,
    )


_MADE_BY: dict[Any, Callable[[RuleFunctions], Any]] = {}


def specialise_on_rules(make: Callable[[RuleFunctions], Callable[P, R]]) -> Callable[P, R]:
    """Return a function of a `State` that ``make`` makes from the rules of its two parts.

    The interpreter makes it when it is first called for states of these types; the compiler when it
    compiles a driver that calls it, and then knows the types of the parts. (Kernels passed as arguments
    would be compiled anew in every process.) A driver with a pointer to the design is compiled without it.
    """
    made: dict[tuple[type, type], Callable[..., R]] = {}

    def call(state: Any, *rest: Any) -> R:
        kinds = type(state[0]), type(state[1])
        if kinds not in made:
            made[kinds] = make(_rules(*kinds))
        return made[kinds](state, *rest)

    def compiled(state: Any, *rest: Any) -> Callable[..., R]:
        from osrl.jit.backend import is_pointer

        rules = _rules(*(part.instance_class for part in state.types))
        return make(rules._replace(design=_no_design) if any(map(is_pointer, rest)) else rules)

    specialise(call, compiled)
    call.__doc__ = make.__doc__
    _MADE_BY[call] = make
    return call  # type: ignore[return-value]


@specialise_on_rules
def wants_design(rules: RuleFunctions) -> Callable[[State], bool]:
    """Tell whether it is time to solve for new weights: ``wants_design(state)``."""
    due = rules.wants_design

    def wants_design(state: State) -> bool:
        return due(state.sampling, state.stopping)  # type: ignore[no-any-return]

    return wants_design


@specialise_on_rules
def design(rules: RuleFunctions) -> Callable[..., None]:
    """Solve for new weights: ``design(state)``, or ``design(state, design_of(state))`` in a compiled driver."""
    solve = rules.design

    def design(state: State, pointer: Any = None) -> None:
        if pointer is None:
            solve(state.sampling, state.stopping)
        else:
            pointer(state.sampling, state.stopping)

    return design


def design_of(state: State) -> Callable[[Any, Any], None] | None:
    """Return a pointer to the ``design`` of a state's rule: a driver that has it is compiled without the solver.

    None where there is no machine code, and for rules from outside the package: in Numba the type of a pointer
    depends on the names of classes only, which stay the same when a file is loaded again.
    """
    policy, (sampling, stopping) = policy_of(state), state
    if policy.outside is not None or not policy.compiled:
        return None
    return pointer_to(policy.sampling.design or _no_design, sampling, stopping)


@specialise_on_rules
def choose_arm(rules: RuleFunctions) -> Callable[[State, int, Key, int, Floats], int]:
    """Return the arm of the next trial, x * n + a: ``choose_arm(state, task, key, number, propensities)``.

    Where it is left to chance, draw ``number`` of the run picks it from the ``propensities`` (X, n), which
    are written; otherwise those stay as they are. `NO_ARM` and `NO_PROBABILITIES` where the rule is wrong.
    """
    select, draw = rules.select, rules.draw

    def choose_arm(state: State, task: int, key: Key, number: int, propensities: Floats) -> int:
        arm = select(state.sampling, state.stopping, task, propensities)
        if arm == -1:
            return draw(propensities, key, number)  # type: ignore[no-any-return]
        return arm if 0 <= arm < propensities.size else NO_ARM

    return choose_arm


@specialise_on_rules
def issue_trial(rules: RuleFunctions) -> Callable[[State, int, Key, int, Floats, Floats], int]:
    """Choose an arm and write its ticket: ``issue_trial(state, task, key, number, propensities, ticket)``."""
    write = rules.ticket

    def issue_trial(state: State, task: int, key: Key, number: int, propensities: Floats, ticket: Floats) -> int:
        arm = choose_arm(state, task, key, number, propensities)
        if arm < 0:
            return arm
        n = propensities.shape[1]
        write(state.stopping, arm // n, arm % n, propensities[arm // n], ticket)
        return arm

    return issue_trial


@specialise_on_rules
def write_ticket(rules: RuleFunctions) -> Callable[[State, int, int, Floats, Floats], None]:
    """Write what a reward will be judged with: ``write_ticket(state, x, a, propensities, ticket)``.

    The trial was drawn with the ``propensities`` (n,) of its task.
    """
    write = rules.ticket

    def write_ticket(state: State, x: int, a: int, propensities: Floats, ticket: Floats) -> None:
        write(state.stopping, x, a, propensities, ticket)

    return write_ticket


@specialise_on_rules
def apply_reward(rules: RuleFunctions) -> Callable[[State, int, int, float, Floats], None]:
    """Take in the reward of a trial: ``apply_reward(state, x, a, reward, ticket)``."""
    sampling_observe, observe = rules.sampling_observe, rules.observe

    def apply_reward(state: State, x: int, a: int, reward: float, ticket: Floats) -> None:
        sampling_observe(state.sampling, state.stopping, x, a, reward)
        observe(state.stopping, x, a, reward, ticket)

    return apply_reward


@specialise_on_rules
def apply_loss(rules: RuleFunctions) -> Callable[[State, int, int, Floats], None]:
    """Take in that a trial will never report: ``apply_loss(state, x, a, ticket)``."""
    lose = rules.forfeit

    def apply_loss(state: State, x: int, a: int, ticket: Floats) -> None:
        lose(state.stopping, x, a, ticket)

    return apply_loss


@specialise_on_rules
def stream(rules: RuleFunctions) -> Callable[[State], int]:
    """Return the stream of rewards that the next trial draws from: ``stream(state)``."""
    choose = rules.stream

    def stream(state: State) -> int:
        return choose(state.stopping)  # type: ignore[no-any-return]

    return stream


@specialise_on_rules
def conclude(rules: RuleFunctions) -> Callable[[State, int], None]:
    """Write the best guess of a run that is cut short: ``conclude(state, criterion)``."""
    guess = rules.conclude

    def conclude(state: State, criterion: int) -> None:
        guess(state.stopping, criterion)

    return conclude


@specialise_on_rules
def read_weights(rules: RuleFunctions) -> Callable[[State, Floats], None]:
    """Write the weights (X, n) that are followed, if arms are not drawn: ``read_weights(state, out)``."""
    read = rules.weights

    def read_weights(state: State, out: Floats) -> None:
        read(state.sampling, out)

    return read_weights


@specialise_on_rules
def read_evidence(rules: RuleFunctions) -> Callable[[State, Floats, Floats], None]:
    """Write the evidence against representations (G,) and arms (X, n): ``read_evidence(state, of_g, of_h)``."""
    read = rules.evidence

    def read_evidence(state: State, of_g: Floats, of_h: Floats) -> None:
        read(state.stopping, of_g, of_h)

    return read_evidence


def interpreted(state: State) -> Callable[[State, Environment, Floats, Floats, int], None]:
    """Return one simulated round with the functions of the rules as plain Python, to compare with."""
    rules = RuleFunctions(*(getattr(f, "py_func", f) for f in _rules(type(state.sampling), type(state.stopping))))

    def play(state: State, environment: Environment, propensities: Floats, ticket: Floats, rounds: int) -> None:
        n = propensities.shape[1]
        if rules.wants_design(state.sampling, state.stopping):
            rules.design(state.sampling, state.stopping)
        arm = rules.select(state.sampling, state.stopping, -1, propensities)
        if arm == -1:
            arm = pick_arm(propensities, uniform(environment.key, CHOICE_LANE, rounds))
        assert arm >= 0, "the rule returned no arm"
        x, a = arm // n, arm % n
        rules.ticket(state.stopping, x, a, propensities[x], ticket)
        value = draw_reward(environment, rules.stream(state.stopping), x, a)
        rules.sampling_observe(state.sampling, state.stopping, x, a, value)
        rules.observe(state.stopping, x, a, value, ticket)

    return play


@specialise_on_rules
def conclude_all(rules: RuleFunctions) -> Callable[[State, Outcome], None]:
    """Write best guesses for the criteria that are still open: ``conclude_all(state, outcome)``."""

    def conclude_all(state: State, outcome: Outcome) -> None:
        for criterion in range(outcome.reached.shape[1]):
            if outcome.reached[STATUS, criterion] == RUNNING:
                conclude(state, criterion)

    return conclude_all


class StepFunctions:
    """The functions of a round for one state, whose rules are called the short way (`direct`)."""

    def __init__(self, state: State) -> None:
        kinds = type(state.sampling), type(state.stopping)
        sampling, stopping = rules_of(*kinds)
        rules = RuleFunctions(*map(direct, _rules(*kinds)))
        if sampling.observe is None:  # nothing is called in its place
            rules = rules._replace(sampling_observe=lambda sampling, stopping, x, a, reward: None)
        if stopping.ticket is None:
            rules = rules._replace(ticket=lambda stopping, x, a, propensities, ticket: None)
        self.wants_design: Callable[[State], bool] = _MADE_BY[wants_design](rules)
        self.design: Callable[[State], None] = _MADE_BY[design](rules)
        self.choose_arm: Callable[[State, int, Key, int, Floats], int] = _MADE_BY[choose_arm](rules)
        self.write_ticket: Callable[[State, int, int, Floats, Floats], None] = _MADE_BY[write_ticket](rules)
        self.apply_reward: Callable[[State, int, int, float, Floats], None] = _MADE_BY[apply_reward](rules)
        self.ticket_size = stopping.ticket_size(state.stopping)
        self.clear_pending = stopping.clear_pending and direct(stopping.clear_pending)
        self.pend = stopping.pend and direct(stopping.pend)
