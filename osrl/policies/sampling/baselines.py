"""Published sampling rules for one task, lifted to representations and predictors (`osrl.policies.sampling.common`).

| name | rule | file |
|---|---|---|
| `tas`, `c-tracking`, `oracle` | follow the best proportions | `proportions` |
| `ttts`, `t3c`, `eb-tci`, `ttei` | a leader and a challenger | `top_two` |
| `kl-lucb`, `ugape` | the arms whose intervals overlap most | `confidence` |
| `racing`, `chernoff-racing` | all arms that are not eliminated | `confidence` |

All rules share one state, which holds the number of the rule: so one loop for each stopping rule is compiled for all of
them.
"""

from __future__ import annotations

from typing import Any

from osrl.glr.statistic import update_task
from osrl.jit import kernel, kernel_in_place
from osrl.model.arrays import Floats
from osrl.policies.contract import Problem, SamplingRule
from osrl.policies.sampling.common import (
    BASE_ROUNDS,
    C_TRACKING,
    CHERNOFF_RACING,
    D_TRACKING,
    EB_TCI,
    KL_LUCB,
    ORACLE,
    RACING,
    T3C,
    TTEI,
    TTTS,
    UGAPE,
    BaselineSampling,
    decided_representation,
    is_anything_open,
    least_pulled_open,
    mix_exploration,
    new_baseline,
)
from osrl.policies.sampling.confidence import (
    eliminate,
    is_racing,
    is_round_over,
    is_task_racing,
    next_of_pair,
    next_racing,
    optimistic_pair,
    refresh_intervals,
)
from osrl.policies.sampling.proportions import (
    add_credit,
    are_proportions_due,
    solve_proportions,
    track_proportions,
    write_proportions,
)
from osrl.policies.sampling.top_two import is_leader_sampled, top_two
from osrl.policies.stopping.arm_stats import ARM_MEANS, ARM_PULLS, add_reward_to


@kernel_in_place
def wants_design(sampling: BaselineSampling, stopping: Any) -> bool:
    """Tell whether new weights to follow are due."""
    return sampling.rule <= ORACLE and are_proportions_due(sampling, stopping)


@kernel
def design(sampling: BaselineSampling, stopping: Any) -> None:
    """Solve for new weights to follow."""
    solve_proportions(sampling, stopping)


@kernel_in_place
def observe(sampling: BaselineSampling, stopping: Any, x: int, a: int, reward: float) -> None:
    """Add a reward to the statistics, and update what the rule derives from them."""
    arms, rule = sampling.arms, sampling.rule
    add_reward_to(arms, x, a, reward)
    sampling.numbers[BASE_ROUNDS] += 1.0
    if rule == C_TRACKING:
        add_credit(sampling)
    elif TTTS <= rule <= EB_TCI and decided_representation(stopping) < 0:
        update_task(sampling.glr, x, arms[ARM_MEANS, x], arms[ARM_PULLS, x], sampling.noise)
    elif rule >= KL_LUCB:
        if rule != CHERNOFF_RACING:
            refresh_intervals(sampling, x, a)
        if rule >= RACING and sampling.drawn:  # no rounds
            eliminate(sampling, stopping.possible_g.size, x)
        elif rule >= RACING and is_round_over(sampling, stopping, x, a):
            for y in range(arms.shape[1]):
                eliminate(sampling, stopping.possible_g.size, y)


@kernel_in_place
def select(sampling: BaselineSampling, stopping: Any, task: int, propensities: Floats) -> int:
    """Return the next arm; where the stopping rule needs draws, write the probability of each."""
    rule = sampling.rule
    if sampling.drawn:
        write_propensities(sampling, stopping, propensities)
        return -1
    if rule <= ORACLE:
        return track_proportions(sampling, stopping)
    if rule >= RACING:
        arm = next_racing(sampling, stopping)
        return arm if arm >= 0 else least_pulled_open(sampling, stopping)
    forced = least_pulled_open(sampling, stopping)
    if forced >= 0:
        return forced
    if rule >= KL_LUCB:
        one, other = optimistic_pair(sampling, stopping)
        return next_of_pair(sampling, one, other)
    one, other = top_two(sampling, stopping)
    return one if is_leader_sampled(sampling) else other


@kernel_in_place
def write_propensities(sampling: BaselineSampling, stopping: Any, propensities: Floats) -> None:
    """Write the probabilities (X, n): weights, the arms of a pair or of a race, mixed with exploration.

    Where nothing is open, because an answer has to look right first, all is exploration.
    """
    tasks, n = propensities.shape
    rule = sampling.rule
    for x in range(tasks):
        racing = rule >= RACING and is_task_racing(sampling, stopping, x)
        for a in range(n):
            propensities[x, a] = 1.0 if racing and is_racing(sampling, stopping, x, a) else 0.0
    if not is_anything_open(stopping):
        pass
    elif rule <= ORACLE:
        write_proportions(sampling, propensities)
    elif rule < RACING:
        one, other = optimistic_pair(sampling, stopping) if rule >= KL_LUCB else top_two(sampling, stopping)
        share = 0.5 if rule >= KL_LUCB else sampling.beta
        if one >= 0:
            propensities[one // n, one % n] = share
            propensities[other // n, other % n] = 1.0 - share
    mix_exploration(sampling, stopping, propensities)


@kernel_in_place
def weights(sampling: BaselineSampling, out: Floats) -> None:
    """Write the proportions that are followed, of rules that do."""
    if sampling.rule <= ORACLE and not sampling.drawn:
        write_proportions(sampling, out)


def _rule(name: str, summary: str, code: int, draws: bool | None = None) -> SamplingRule:
    """Return one of the rules; they differ in a number of their state."""

    def new(problem: Problem, draw: float, *, growth: float = 0.05, beta: float = 0.5) -> BaselineSampling:
        return new_baseline(problem, draw, code, growth, beta)

    return SamplingRule(
        name=name,
        summary=summary,
        state=BaselineSampling,
        new=new,
        wants_design=wants_design,
        design=design,
        select=select,
        observe=observe,
        weights=weights,
        knows_risk=True,
        draws=draws,
        reads="possible_h",
    )


RULES = (
    _rule("tas", "D-tracking of the best proportions for what is open", D_TRACKING),
    _rule("c-tracking", "C-tracking of the same proportions", C_TRACKING),
    _rule("oracle", "the best proportions of the true means", ORACLE),
    _rule("ttts", "top two: Thompson samples for leader and challenger", TTTS, False),
    _rule("t3c", "top two: a Thompson sample, and the cheapest challenger", T3C, False),
    _rule("eb-tci", "top two: the empirical leader, and the cheapest challenger", EB_TCI),
    _rule("ttei", "top two: the largest expected improvements, on the best and on the leader", TTEI),
    _rule("kl-lucb", "leader and most optimistic rival in turn", KL_LUCB),
    _rule("ugape", "the less sampled of the least and the most uncertain arm", UGAPE),
    _rule("racing", "all arms that no interval has eliminated", RACING),
    _rule("chernoff-racing", "all arms that no likelihood ratio has eliminated", CHERNOFF_RACING),
)
