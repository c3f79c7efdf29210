"""The stages of a study: what it begins with, and goes on with when arms are withdrawn or added.

A stage has its tasks and arms, and a state that knows nothing of the stages before: evidence begins with it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.errors import OsrlError
from osrl.hypotheses.state import Hypotheses
from osrl.hypotheses.trials import PendingSums, new_pending_sums
from osrl.model.families import Family
from osrl.model.outcome import VERDICTS
from osrl.model.rng import START_LANE, Key, new_key, uniform
from osrl.policies.contract import Criterion, Problem
from osrl.policies.registry import find
from osrl.policies.state_arrays import arrays_of
from osrl.policies.steps import Steps, conclude
from osrl.study.log.events import Created, Verdict
from osrl.study.migrations.arrays import old_names, old_options
from osrl.study.state.arm_totals import TOLD, ArmTotals
from osrl.study.state.constants import CHECK_LIMITS, LATE, TOLERANCE_LIMITS, WATCH, constants_of, set_constants
from osrl.study.state.guess import Possible, guess_arms
from osrl.study.state.harm import Harm
from osrl.study.state.in_order import NO_LIMIT, PASSED, TAKEN, AtOnce, InOrderEvidence
from osrl.study.state.missingness import MissingnessMonitor
from osrl.study.state.trial import short_id


class Stages:
    """The stages so far, and the state of the last one. ``created`` are its settings."""

    def __init__(self, created: Created) -> None:
        self.family = Family(created.family, created.noise_sd)
        self.policy = find(created.policy)
        self.key = _key(created)
        self.stages: list[tuple[int, Created]] = []  # the first trial of each, and its settings
        self.totals = ArmTotals(created)
        self.missingness: MissingnessMonitor | None = None
        self.harm: Harm | None = None
        self._set_up(created)

    def _set_up(self, created: Created, first: int = 1) -> None:
        """A state before the first trial, of number ``first``, with these arms."""
        self.created = created
        self.stages.append((first, created))
        self.shape = len(created.tasks), len(created.representations), len(created.predictors)
        self.state: Any = set_constants(new_state(created), created)
        self.steps = Steps(self.state)
        self._named = self.state, dict(arrays_of(self.state))
        stopping = self.state.stopping
        self.hypotheses: Hypotheses | None = stopping if isinstance(stopping, Hypotheses) else None
        # Counts in the order of hand-out and in that of reports are two e-processes: one has to be chosen.
        bets = self.hypotheses is not None and self.family.noise == 0
        summed = LATE.keys() <= created.evidence.keys()
        self.in_order: InOrderEvidence | None = None
        self.late: PendingSums | None = None  # None: every pending trial is counted in every tell
        if bets and self.hypotheses is not None:
            self.in_order = InOrderEvidence(self.hypotheses, AtOnce(PASSED, TAKEN) if summed else NO_LIMIT)
            self.late = new_pending_sums(self.hypotheses) if summed else None
        before = self.missingness if created.revision else None
        self.missingness = None
        if self.hypotheses is not None and self.in_order is not None:
            self.missingness = MissingnessMonitor(self.hypotheses, created.evidence.get(WATCH, 0.0), before)
        if created.harm_limit is not None:
            if self.harm is not None and created.revision:
                self.harm.begin_stage(created)
            else:
                self.harm = Harm(created, created.harm_limit)
        self._undrawn = np.zeros(self.shape[1] * self.shape[2])
        self._indices = tuple(
            {name: i for i, name in enumerate(names)}
            for names in (created.tasks, created.representations, created.predictors)
        )

    def settings_of(self, trial: int) -> Created:
        """The settings of the stage that has handed out a trial."""
        return next(created for first, created in reversed(self.stages) if first <= trial)

    def set_budget(self, budget: int) -> None:
        """The study may hand out so many trials."""
        first, created = self.stages.pop()
        self.created = replace(created, budget=budget, id=short_id(created))
        self.stages.append((first, self.created))

    def scaled(self, reward: Any) -> Any:
        """A reward, or several, in the scale of the evidence: 0 to 1 for bounded ones."""
        low, high = self.created.low, self.created.high
        return reward if low == 0.0 and high == 1.0 else (reward - low) / (high - low)

    @property
    def bears_loss(self) -> bool:
        """Whether the guarantee survives trials that are lost for a reason which may tell something."""
        return self.policy.stopping.forfeit is not None and self.family.noise == 0

    def clear_pending(self) -> None:
        """Forget which trials have not reported, where they count."""
        if self.steps.clear_pending is not None:
            self.steps.clear_pending(self.state.stopping)
        if self.late is not None:
            self.late.stale[:] = True

    def answer(self) -> Verdict:
        """The verdict as the state has it."""
        return self._answer(self.state)

    def best_guess(self) -> Verdict:
        """The answer as it looks now, by the trials that have reported."""
        state = copy.deepcopy(self.state)
        if self.steps.clear_pending is not None:
            self.steps.clear_pending(state.stopping)
        conclude(state, 0)
        return self.by_all_stages(self._answer(state))

    def by_all_stages(self, guess: Verdict) -> Verdict:
        """The guess of this stage; where stages went before, that of all results, see `osrl.study.state.guess`."""
        carried = self.created.revision and len(self.stages) > 1 and None not in guess.representations
        if not carried or not self.totals.counts[TOLD, self.totals.place].any():
            return guess
        X, G, H = self.shape
        possible = Possible(np.ones(G, np.bool_), np.ones((X, G, H), np.bool_))
        if self.hypotheses is not None:
            tests = self.hypotheses
            possible = Possible(tests.possible_g, tests.possible_h.reshape(X, G, H))
        shared = self.policy.stopping.name != "tasks"
        g, h = guess_arms(self.totals, self.family.noise, possible, shared)
        created = self.created
        return replace(
            guess,
            representations=[created.representations[i] for i in g],
            predictors=[created.predictors[i] for i in h],
        )

    def index_of(self, axis: int, name: str) -> int:
        """The index of a name: axis 0 for tasks, 1 for representations, 2 for predictors."""
        indices = self._indices[axis]
        if name not in indices:
            word = ("task", "representation", "predictor")[axis]
            known = ", ".join(map(repr, indices))
            raise OsrlError(f"the study has no {word} {name!r}; use one of {known}")
        return indices[name]

    def named_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the state of the policy, which are looked for once: they are updated in place."""
        if self._named[0] is not self.state:  # a copy of the progress may be given a state of its own
            self._named = self.state, dict(arrays_of(self.state))
        return self._named[1]

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Every array that the state consists of, with its name."""
        yield from arrays_of(self.state)
        yield "tally", self.totals.counts
        if self.in_order is not None:
            yield from self.in_order.arrays()
        if self.missingness is not None:
            yield from self.missingness.arrays()
        if self.late is not None:
            yield "late.sums", self.late.sums
            yield "late.compared", self.late.compared
            if self.late.checked.size:
                yield "late.checked", self.late.checked
        if self.harm is not None:
            yield from self.harm.arrays()

    def set_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Write arrays into the state, by name."""
        own, old = dict(arrays_of(self.state)), old_names(self.state)
        for name, content in arrays.items():
            if name in own:
                own[name][...] = np.array(content, dtype=own[name].dtype)
            else:
                old[name].set(content)

    def _answer(self, state: Any) -> Verdict:
        outcome = state.outcome
        created = self.created
        return Verdict(
            VERDICTS[int(outcome.status[0])],
            [_name(created.representations, g) for g in outcome.representation[0]],
            [_name(created.predictors, h) for h in outcome.predictor[0]],
        )


def new_state(created: Created) -> Any:
    """The state of the policy before the first sample, with the constants of this program."""
    shape = len(created.tasks), len(created.representations), len(created.predictors)
    criterion = Criterion(created.threshold, created.delta_g, created.delta_h)
    family = Family(created.family, created.noise_sd)
    problem = Problem(shape, family, (criterion,), created.tolerances)
    logged = {**old_options(created.policy), **created.options}
    options = {name: _tuples(value) for name, value in logged.items()}
    return find(created.policy).new(problem, uniform(_key(created), START_LANE, 0), **options)


def _key(created: Created) -> Key:
    """The key of draws by a seed. Without one it is public, and only says where a policy starts."""
    return new_key(int(short_id(created), 16) if created.seed is None else created.seed, 0)


def staged(
    created: Created,
    representations: Sequence[str],
    predictors: Sequence[str],
    tasks: Sequence[str] | None = None,
) -> Created:
    """The settings with these arms, and ``tasks`` if they are others than before.

    Constants stay, but for limits that depend on the number of arms.
    """
    now = replace(
        created,
        tasks=list(created.tasks if tasks is None else tasks),
        representations=list(representations),
        predictors=list(predictors),
        id=short_id(created),
    )
    limits = [name for name in (TOLERANCE_LIMITS, CHECK_LIMITS) if name in created.evidence]
    if not limits:
        return now
    fresh = constants_of(new_state(now))
    return replace(now, evidence={**created.evidence, **{name: fresh[name] for name in limits}})


def _tuples(value: Any) -> Any:
    """Lists of JSON as the tuples that they were."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _name(names: Any, index: int) -> str | None:
    return names[int(index)] if index >= 0 else None
