"""`osrl warm-up`: compile the kernels of policies, so that nobody waits for that later."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from osrl.errors import OsrlError

MEANS = [[[0.9, 0.2], [0.3, 0.1]], [[0.2, 0.9], [0.3, 0.1]]]


def warm_up(
    policies: Annotated[
        list[str] | None,
        typer.Argument(metavar="[POLICY[/FAMILY]]...", help="What to compile, such as tas or osrl/gaussian."),
    ] = None,
) -> None:
    """Compile what simulations and studies call, and keep it for later commands (default: osrl)."""
    import osrl
    from osrl.jit.mode import compile_now

    compile_now()
    for policy, family in (read_kind(each) for each in policies or ["osrl"]):
        normal = family == "gaussian"
        instance = osrl.Instance.gaussian(MEANS, noise_sd=1.0) if normal else osrl.Instance.bernoulli(MEANS)
        osrl.simulate(instance, policy, runs=1, budget=50)
        warm_up_study(policy, family)


def read_kind(text: str) -> tuple[str, str]:
    """Return the policy and the family that ``POLICY/FAMILY`` names; rewards are 0 or 1 where it names none."""
    policy, _, family = text.partition("/")
    if family not in ("", "bernoulli", "bounded", "gaussian"):
        raise OsrlError(f"the family is {family!r}; use bernoulli, bounded or gaussian, as in osrl/gaussian")
    return policy, family or "bernoulli"


def warm_up_study(policy: str, family: str) -> None:
    """Ask, tell, abandon and look at a study that is thrown away; nothing for a policy that has no studies."""
    from osrl.study.study import Study

    settings: dict[str, Any] = {"tasks": 2, "representations": 2, "predictors": 2, "seed": 0}
    if family == "gaussian":
        settings["noise_sd"] = 1.0
    with tempfile.TemporaryDirectory() as folder:
        try:
            study = Study.create(Path(folder) / "study.db", policy=policy, family=family, **settings)
        except OsrlError:
            return
        with study:
            judged = family != "gaussian" and policy in ("osrl", "uniform")  # whether a lost trial can be counted
            for i in range(12):
                study.tell(study.ask(), i % 2)
            study.abandon(study.ask(), ignorable=not judged)
            first, second, third, fourth = study.ask(n=4)
            study.tell(second, 1)
            study.abandon(third, ignorable=not judged)
            study.tell(first, 0)
            study.abandon(fourth, ignorable=True)
            study.status, study.forecast, study.verify()  # noqa: B018 - computed when they are looked at


def compile_for_studies(kinds: Iterable[tuple[str, str]]) -> None:
    """Compile for studies of these policies and families, and leave the rest of the process as it is."""
    from osrl.jit.mode import long_job, process, use_machine_code

    if not process.never:
        use_machine_code()
        with long_job(math.inf):
            for policy, family in sorted(set(kinds)):
                warm_up_study(policy, family)
