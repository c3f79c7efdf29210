"""`osrl plan`: how many trials to expect, before an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from osrl.cli.options import Epsilon, EpsilonG, EpsilonH, Json, split_commas
from osrl.cli.output import print_report, progress_bar, working
from osrl.errors import OsrlError


def plan(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An instance file with guessed means, or 'paper'.")],
    policy: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Policies to compare, or all.  [default: osrl]")
    ] = None,
    delta: Annotated[float | None, typer.Option(metavar="RISK", help="Both risks at once.")] = None,
    delta_g: Annotated[
        float | None, typer.Option(metavar="RISK", help="Risk of a wrong representation.  [default: 0.1]")
    ] = None,
    delta_h: Annotated[
        float | None,
        typer.Option(metavar="RISK", help="Risk of a wrong predictor in a task.  [default: 0.1]"),
    ] = None,
    epsilon: Epsilon = None,
    epsilon_g: EpsilonG = None,
    epsilon_h: EpsilonH = None,
    risks: Annotated[str | None, typer.Option(metavar="RISK,...", help="Compare several risks (both at once).")] = None,
    tolerances: Annotated[
        str | None, typer.Option(metavar="EPS,...", help="Compare several tolerances (both at once).")
    ] = None,
    loss: Annotated[float, typer.Option(metavar="SHARE", help="Trials that never report.")] = 0.0,
    delay: Annotated[int, typer.Option(metavar="N", help="Trials handed out before the result of one is known.")] = 0,
    batch: Annotated[int, typer.Option(metavar="N", help="Trials handed out at a time.")] = 1,
    shares: Annotated[
        str | None,
        typer.Option(metavar="SHARE,...", help="Tasks arrive in these shares.  [default: the policy chooses]"),
    ] = None,
    gaps: Annotated[
        float, typer.Option(metavar="F", help="Differences to the best arm, as a multiple of those guessed.")
    ] = 1.0,
    per_day: Annotated[
        float | None, typer.Option(metavar="N", help="Trials in a day: the answer is also given in days.")
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(metavar="COST,...", help="What a trial costs: of each task, or of each arm."),
    ] = None,
    ignorable: Annotated[
        bool,
        typer.Option("--ignorable", help="A loss tells nothing about the reward: lost trials are left out."),
    ] = False,
    low: Annotated[float | None, typer.Option(help="The smallest bounded reward; means are given from there.")] = None,
    high: Annotated[float | None, typer.Option(help="The largest bounded reward.")] = None,
    runs: Annotated[int | None, typer.Option(help="Simulated experiments.  [default: 200]")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same plan.")] = 0,
    budget: Annotated[
        int | None, typer.Option(help="Stop an experiment after this many trials.  [default: 1000000]")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the chart there, as PNG and PDF.")] = None,
    as_json: Json = False,
) -> None:
    """Print how many trials to expect, if the means are as guessed."""
    with working("loading ..."):
        # Here, not above: these load kernels, which help and usage errors do not need.
        from osrl.report.plan import PlanReport, SweepReport
        from osrl.simulation.plan import DEFAULT_BUDGET, DEFAULT_PLAN_RUNS, DEFAULT_POLICY, sweep
        from osrl.simulation.plan import plan as make

    conditions: dict[str, Any] = {
        "loss": loss,
        "delay": delay,
        "batch": batch,
        "shares": _numbers("--shares", shares),
        "gaps": gaps,
        "per_day": per_day,
        "costs": _numbers("--costs", costs),
        "ignorable": ignorable,
        "low": low,
        "high": high,
        "runs": DEFAULT_PLAN_RUNS if runs is None else runs,
        "seed": seed,
        "budget": DEFAULT_BUDGET if budget is None else budget,
    }
    single: dict[str, Any] = {"delta": delta, "delta_g": delta_g, "delta_h": delta_h}
    single |= {"epsilon": epsilon, "epsilon_g": epsilon_g, "epsilon_h": epsilon_h}
    report: PlanReport | SweepReport
    with progress_bar("runs") as bar:
        if risks is None and tolerances is None:
            report = PlanReport(make(file, split_commas(policy), **single, **conditions, progress=bar.update))
        else:
            if any(value is not None for value in single.values()) or "," in (policy or ""):
                raise OsrlError(
                    "--risks and --tolerances compare plans of one policy; leave --delta and --epsilon out, "
                    "and give one policy"
                )
            swept: dict[str, Any] = {"policy": policy or DEFAULT_POLICY, **conditions}
            if risks is not None:
                swept["risks"] = _numbers("--risks", risks)
            if tolerances is not None:
                swept["tolerances"] = _numbers("--tolerances", tolerances)
            report = SweepReport(sweep(file, **swept, progress=bar.update))
    if out is not None:
        from osrl.report.charts import draw_plan, draw_sweep, save

        out.mkdir(parents=True, exist_ok=True)
        if isinstance(report, SweepReport):
            save(draw_sweep(report.plans), out)
        elif report.plan.policies:
            save(draw_plan(report.plan), out)
    print_report(report, as_json)


def _numbers(option: str, given: str | None) -> list[float]:
    """Read numbers with commas between them."""
    try:
        return [] if given is None else [float(part) for part in given.split(",")]
    except ValueError:
        raise OsrlError(f"{option} is {given!r}; give numbers with commas, such as 0.5,0.3,0.2") from None
