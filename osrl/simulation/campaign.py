"""A campaign: all runs that were requested, checked, and grouped into jobs.

Where the sampling of a policy does not depend on the risk, all its criteria (thresholds and risks) are
read off the same runs: one job. Where it does, or where a budget may cut runs short, each criterion
has a job of its own. Either way a criterion has the same runs as when it is asked for alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import osrl.policies  # noqa: F401  (registers the policies of the package)
from osrl.errors import OsrlError
from osrl.model.instance import Instance
from osrl.model.risks import Risk, read_risk_pairs
from osrl.model.rng import new_key
from osrl.policies.contract import Criterion, Policy
from osrl.policies.fingerprint import FingerprintError, fingerprint
from osrl.policies.registry import find, pair, split_stop
from osrl.simulation.chunk import Job, versions
from osrl.simulation.rewards import Rewards, read_rewards

MANIFEST_FORMAT = 3  # of the manifest and of the tables beside it
MAX_WHOLE = 2**63 - 1
DEFAULT_POLICY = "osrl"  # policy


@dataclass(frozen=True)
class Campaign:
    """A number of runs of each job; ``manifest`` has all that they depend on, as JSON."""

    jobs: tuple[Job, ...]
    runs: int
    manifest: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The digest of the manifest: campaigns with the same name have the same runs."""
        return digest(self.manifest)

    def check_stamps(self) -> None:
        """Refuse a policy without a fingerprint: runs of two versions of it could not be told apart."""
        for job in self.jobs:
            if job.rewards is not None and job.rewards.version is None:
                raise OsrlError(
                    "the function of the rewards depends on something whose changes would go unnoticed; "
                    "simulate without an output folder and without a cluster"
                )
            if None in job.versions.values():
                try:
                    fingerprint(find(job.policy))
                except FingerprintError as error:
                    raise OsrlError(
                        f"policy {job.policy!r} depends on {error}, whose changes would go unnoticed; "
                        "simulate it without an output folder and without a cluster"
                    ) from None


def read_campaign(
    instance: Instance,
    policy: str | Sequence[str] | None,
    delta: Risk,
    runs: int,
    seed: int,
    *,
    delta_g: Risk,
    delta_h: Risk,
    threshold: str | Sequence[str] | None,
    budget: int | None,
    options: Mapping[str, Any] | None,
    epsilon: tuple[float, float] = (0.0, 0.0),
    sample: str | Sequence[str] | None = None,
    stop: str | Sequence[str] | None = None,
    rewards: Any = None,
) -> Campaign:
    """Return the campaign for the arguments of `simulate`; refuse what cannot be used."""
    runs = read_whole("runs", runs, 1, "how many runs to make, at least 1")
    seed = read_whole("seed", seed, 0, "a whole number from 0 to 2^63 - 1")
    if budget is not None:
        budget = read_whole("budget", budget, 1, "the largest number of samples of a run, at least 1")
    wanted = _requested_policies(policy, threshold, sample, stop)
    policies = [each for each, _ in wanted]
    chosen = _options_of(policies, options or {})
    risks = read_risk_pairs(delta, delta_g, delta_h)
    groups: list[tuple[Policy, tuple[Criterion, ...]]] = []
    for each, names in wanted:
        criteria = each.criteria(risks, names)
        each.check_tolerance(criteria, epsilon)
        shared = budget is None and each.shares_runs(chosen[each.name])
        groups += [(each, criteria)] if shared else [(each, (criterion,)) for criterion in criteria]
    manifest = {
        "format": MANIFEST_FORMAT,
        "versions": {key: value for each in policies for key, value in versions(each).items()},
        "instance": instance.to_dict(),
        "seed": seed,
        "budget": budget,
        "epsilon": list(epsilon),
        "jobs": [
            {
                "policy": each.name,
                "options": chosen[each.name],
                "criteria": [criterion._asdict() for criterion in criteria],
            }
            for each, criteria in groups
        ],
    }
    source = None if rewards is None else read_rewards(rewards, instance)
    if source is not None:
        manifest["rewards"] = source.version
    modules = [each.outside or "osrl.policies" for each, _ in groups]
    known = [versions(each) for each, _ in groups]
    campaign = Campaign(_jobs(manifest, modules, known, source), runs, manifest)
    for job in campaign.jobs:
        _check_options_of_job(job)
    return campaign


def restore_campaign(stored: Mapping[str, Any]) -> Campaign:
    """Return the campaign of a manifest that was kept with its number of ``runs``."""
    manifest = {key: value for key, value in stored.items() if key != "runs"}
    count = len(manifest["jobs"])
    jobs = _jobs(manifest, ["osrl.policies"] * count, [manifest["versions"]] * count)
    return Campaign(jobs, int(stored["runs"]), manifest)


def _jobs(
    manifest: Mapping[str, Any],
    modules: Sequence[str],
    known: Sequence[Mapping[str, str | None]],
    rewards: Rewards | None = None,
) -> tuple[Job, ...]:
    """Return the jobs that a manifest describes."""
    instance = Instance.from_dict(manifest["instance"])
    return tuple(
        Job(
            digest(manifest),
            number,
            instance,
            job["policy"],
            modules[number],
            job["options"],
            tuple(Criterion(**criterion) for criterion in job["criteria"]),
            (manifest["epsilon"][0], manifest["epsilon"][1]),
            manifest["seed"],
            manifest["budget"],
            known[number],
            rewards,
        )
        for number, job in enumerate(manifest["jobs"])
    )


def digest(manifest: Mapping[str, Any]) -> str:
    """Return a short name for a manifest."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]


def _check_options_of_job(job: Job) -> None:
    """Make one state, so that options which the policy cannot use are refused before anything runs."""
    try:
        job.new_state(new_key(job.seed, 0))
    except OsrlError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        given = ", ".join(f"{name} = {value}" for name, value in job.options.items())
        raise OsrlError(f"policy {job.policy!r} cannot use {given}: {error}; give other options") from None


def read_whole(name: str, value: object, least: int, meaning: str) -> int:
    """Return a whole number, not smaller than ``least``; ``meaning`` says what to give instead."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= MAX_WHOLE:
        raise OsrlError(f"{name} is {value!r}; give {meaning}")
    return int(value)


def _distinct_names(name: str, given: str | Sequence[str]) -> list[str]:
    """Return one name or several, each once."""
    names = [given] if isinstance(given, str) else list(given)
    if not names:
        raise OsrlError(f"no {name} is given; name at least one")
    for i, each in enumerate(names):
        if each in names[:i]:
            raise OsrlError(f"{name} {each!r} is given twice; name it once")
    return names


def _requested_policies(
    policy: str | Sequence[str] | None,
    threshold: str | Sequence[str] | None,
    sample: str | Sequence[str] | None,
    stop: str | Sequence[str] | None,
) -> list[tuple[Policy, list[str] | None]]:
    """Return the policies that are asked for, by name and as pairs of rules, each with its thresholds."""
    if (sample is None) != (stop is None):
        raise OsrlError("a pair needs both rules; give sample and stop, such as tas and glr-kk")
    pairs: dict[str, tuple[Policy, list[str] | None]] = {}
    if sample is not None and stop is not None:
        for one in _distinct_names("sampling rule", sample):
            for name in _distinct_names("stopping rule", stop):
                other, level = split_stop(name)
                both = pair(one, other)
                levels = pairs.setdefault(both.name, (both, []))[1]
                assert levels is not None
                levels.append(level)
        if policy is None:
            if threshold is not None:
                raise OsrlError("a pair names its threshold with its stopping rule; give stop as glr-kk")
            return list(pairs.values())
    policies = [find(name) for name in _distinct_names("policy", DEFAULT_POLICY if policy is None else policy)]
    names = [] if threshold is None else _distinct_names("threshold", threshold)
    return [*((each, _thresholds_of(each, names, policies)) for each in policies), *pairs.values()]


def _thresholds_of(policy: Policy, names: Sequence[str], policies: Sequence[Policy]) -> list[str] | None:
    """Return the thresholds among ``names`` that this policy takes; None, for its default, if it takes none."""
    known = {name for each in policies for name in each.thresholds}
    for name in names:
        if name not in known:
            raise OsrlError(f"unknown threshold {name!r}; use one of {', '.join(sorted(known))}")
    return [name for name in names if name in policy.thresholds] or None


def _options_of(policies: Sequence[Policy], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options of each policy: those given that it takes, and its defaults for the others."""
    chosen: dict[str, dict[str, Any]] = {}
    for policy in policies:
        takes = policy.option_names
        chosen[policy.name] = policy.options({name: options[name] for name in takes if name in options})
    known = sorted({name for taken in chosen.values() for name in taken})
    for name in options:
        if name not in known:
            what = f"use one of {', '.join(known)}" if known else "leave it out"
            raise OsrlError(f"unknown option {name!r} of {', '.join(chosen)}; {what}")
    return chosen
