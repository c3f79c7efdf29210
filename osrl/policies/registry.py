"""The registry of policies and rules: by name, and by the types of their states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from osrl.errors import OsrlError
from osrl.jit.kernels import P, R
from osrl.policies.contract import Policy, SamplingRule, State, StoppingRule
from osrl.policies.fingerprint import FingerprintError, fingerprint

_RULES: dict[type, SamplingRule | StoppingRule] = {}
_POLICIES: dict[str, Policy] = {}
_BY_STATES: dict[tuple[type, type], Policy] = {}
_SAMPLING: dict[str, SamplingRule] = {}
_STOPPING: dict[str, StoppingRule] = {}


def register(policy: Policy) -> Policy:
    """Make a policy known by its name, and its rules by the types of their states."""
    known = _POLICIES.get(policy.name)
    if known is not None and _names(known) != _names(policy):
        raise OsrlError(f"a policy {policy.name!r} exists already; give yours another name")
    _own(policy)
    _POLICIES[policy.name] = policy
    return policy


def _own(policy: Policy) -> None:
    """Make the rules of a policy known by the types of their states."""
    for rule in (policy.sampling, policy.stopping):
        owner = _RULES.setdefault(rule.state, rule)
        # what is compiled is found by the type of the state, and would be that of the owner
        if _kernels(owner) != _kernels(rule):
            raise OsrlError(
                f"the state {rule.state.__qualname__} belongs to a rule {owner.name!r} with other kernels; "
                "define or reload its class again, together with the kernels"
            )
    _BY_STATES[policy.sampling.state, policy.stopping.state] = policy


def _kernels(rule: SamplingRule | StoppingRule) -> tuple[Any, ...]:
    """Return the functions of a rule that act on its state."""
    if isinstance(rule, SamplingRule):
        return rule.wants_design, rule.design, rule.select, rule.observe, rule.weights
    kernels = (rule.observe, rule.conclude, rule.ticket_size, rule.ticket, rule.stream)
    return *kernels, rule.clear_pending, rule.pend, rule.forfeit, rule.evidence


def _names(policy: Policy) -> tuple[str, str]:
    return policy.sampling.state.__qualname__, policy.stopping.state.__qualname__


def register_rule(rule: SamplingRule | StoppingRule, name: str | None = None) -> None:
    """Make a rule known by ``name`` (default: its own), so that it can be paired with others."""
    rules = _SAMPLING if isinstance(rule, SamplingRule) else _STOPPING
    name = rule.name if name is None else name
    if not name or "+" in name or "," in name:
        raise OsrlError(f"a rule is called {name!r}; give a name without + and commas")
    rules[name] = rule  # type: ignore[assignment]


def sampling_rules() -> Mapping[str, SamplingRule]:
    """Return the sampling rules that can be paired, by name."""
    return _SAMPLING


def stopping_rules() -> Mapping[str, StoppingRule]:
    """Return the stopping rules that can be paired, by name."""
    return _STOPPING


def pair(sampling: str, stopping: str) -> Policy:
    """Return the policy ``sampling+stopping`` of two rules; refuse rules that do not fit together."""
    for kind, name, known in (("sampling", sampling, _SAMPLING), ("stopping", stopping, _STOPPING)):
        if name not in known:
            raise OsrlError(f"unknown {kind} rule {name!r}; use one of {', '.join(known)}")
    one, other = _SAMPLING[sampling], _STOPPING[stopping]
    if one.reads is not None and one.reads not in getattr(other.state, "_fields", ()):
        raise OsrlError(
            f"sampling rule {sampling!r} reads {one.reads!r} of its stopping rule, which {stopping!r} does "
            "not have; see osrl rules for the pairs"
        )
    if other.randomised and one.draws is False:
        raise OsrlError(
            f"stopping rule {stopping!r} needs arms that are drawn with known probabilities, and those of "
            f"sampling rule {sampling!r} are not known; use another stopping rule, such as counts"
        )
    policy = Policy(f"{sampling}+{stopping}", f"{one.summary}; {other.summary}", one, other)
    _own(policy)
    return policy


def split_stop(name: str) -> tuple[str, str]:
    """Return the stopping rule and the threshold of ``glr-kk`` or, for its default, ``glr``."""
    if name in _STOPPING:
        return name, _STOPPING[name].thresholds[0]
    for rule, stopping in _STOPPING.items():
        if name.startswith(f"{rule}-") and name[len(rule) + 1 :] in stopping.thresholds:
            return rule, name[len(rule) + 1 :]
    raise OsrlError(f"unknown stopping rule {name!r}; use one of {', '.join(stop_names())}")


def stop_names() -> list[str]:
    """Return the stopping rules with each of their thresholds, as ``split_stop`` reads them."""
    several = {name: rule.thresholds for name, rule in _STOPPING.items()}
    return [name if len(levels) == 1 else f"{name}-{level}" for name, levels in several.items() for level in levels]


def find(name: str) -> Policy:
    """Return the policy called ``name``, or the pair of rules ``sampling+stopping``."""
    if "+" in name and name not in _POLICIES:
        return pair(*name.split("+", 1))
    if name not in _POLICIES:
        raise OsrlError(f"unknown policy {name!r}; use one of {', '.join(sorted(_POLICIES))}")
    return _POLICIES[name]


def registered() -> tuple[Policy, ...]:
    """Return every policy, in the order of registration."""
    return tuple(_POLICIES.values())


def policy_of(state: State) -> Policy:
    """Return the policy that a state belongs to: of several with the same rules, the last one."""
    return _BY_STATES[type(state.sampling), type(state.stopping)]


def rules_of(sampling: type, stopping: type) -> tuple[SamplingRule, StoppingRule]:
    """Return the rules that states of these types belong to."""
    one, other = _RULES[sampling], _RULES[stopping]
    assert isinstance(one, SamplingRule) and isinstance(other, StoppingRule)
    return one, other


_FINGERPRINTS: dict[type, str | None] = {}  # of the kernels that are compiled for states of a type


def fingerprint_of(policy: Policy) -> str | None:
    """Return the digest of all code that a policy runs outside the package; None where it cannot be taken.

    Globals are constants for the compiler: when one has changed, the machine code is not what the fingerprint says.
    """
    for rule in (policy.sampling, policy.stopping):
        now = _digest((rule.state, _kernels(rule)))  # not its name: rules may share a state and its kernels
        if _FINGERPRINTS.setdefault(rule.state, now) != now:
            raise OsrlError(
                f"something that policy {policy.name!r} uses has changed since it was compiled; define or "
                "reload its states, its kernels and what they use again, or start a new process"
            )
    return _digest(policy)


def _digest(value: object) -> str | None:
    """Return the digest of a policy, or of parts of it; None where it cannot be taken."""
    try:
        return fingerprint(value)
    except FingerprintError:
        return None


def loop_for(loop: Callable[P, R], policy: Policy) -> Callable[P, R]:
    """Return the kernel ``loop``, which drives any state, for the states of ``policy``.

    Rules in plain Python are driven by the interpreter. Those of others that are compiled may not change afterwards.
    """
    if not policy.compiled:
        plain: Callable[P, R] = getattr(loop, "py_func", loop)
        return plain
    if policy.outside is not None and not {policy.sampling.state, policy.stopping.state} <= _FINGERPRINTS.keys():
        fingerprint_of(policy)
    return loop
