"""`osrl simulate`: replications of policies on an instance. `osrl rules`: the rules that can be paired."""

from __future__ import annotations

from typing import Annotated

import typer

from osrl.cli.options import Epsilon, EpsilonG, EpsilonH, InstanceFile, Json, key_value, split_commas
from osrl.cli.output import echo, print_report, progress_bar, working
from osrl.errors import OsrlError


def simulate(
    file: InstanceFile,
    policy: Annotated[str | None, typer.Option(metavar="NAME,...", help="Policies to run.  [default: osrl]")] = None,
    sample: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Sampling rules, to be paired with --stop; see osrl rules."),
    ] = None,
    stop: Annotated[str | None, typer.Option(metavar="NAME,...", help="Stopping rules, such as glr-kk,bets.")] = None,
    delta: Annotated[str | None, typer.Option(metavar="RISK,...", help="Both risks at once.  [default: 0.1]")] = None,
    runs: Annotated[int | None, typer.Option(help="Number of runs for each policy and risk.  [default: 1120]")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same runs.")] = 0,
    delta_g: Annotated[
        str | None, typer.Option(metavar="RISK,...", help="Risk of a wrong representation.  [default: 0.1]")
    ] = None,
    delta_h: Annotated[
        str | None,
        typer.Option(metavar="RISK,...", help="Risk of a wrong predictor in a task.  [default: 0.1]"),
    ] = None,
    epsilon: Epsilon = None,
    epsilon_g: EpsilonG = None,
    epsilon_h: EpsilonH = None,
    threshold: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Thresholds, for policies that offer several.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of a policy; may be repeated."),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Stop every run after this many samples.")] = None,
    workers: Annotated[int | None, typer.Option(help="Threads on this machine.  [default: one for each core]")] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on the cluster of this Dask scheduler instead.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Keep the runs in this folder; the same command resumes where it stopped."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run policies many times and count samples and wrong answers."""
    with working("loading ..."):
        # Here, not above: these load kernels, which help and usage errors do not need.
        from osrl.model.instance import Instance
        from osrl.report.simulate import SimulationReport
        from osrl.simulation.api import DEFAULT_RUNS
        from osrl.simulation.api import simulate as run

        instance = Instance.load(file)
    with progress_bar("runs") as bar:
        try:
            finished = run(
                instance,
                split_commas(policy),
                _risks("delta", delta),
                DEFAULT_RUNS if runs is None else runs,
                seed,
                delta_g=_risks("delta_g", delta_g),
                delta_h=_risks("delta_h", delta_h),
                epsilon=epsilon,
                epsilon_g=epsilon_g,
                epsilon_h=epsilon_h,
                sample=split_commas(sample),
                stop=split_commas(stop),
                threshold=split_commas(threshold),
                budget=budget,
                workers=workers,
                dask=dask,
                out=out,
                options=dict(map(key_value, option or [])),
                progress=bar.update,
            )
        except KeyboardInterrupt:
            if out is not None:
                kept = f"{bar.done} of {bar.total} runs are kept in {out}"
                echo(f"{kept}; the same command resumes where it stopped", err=True)
            raise
    report = SimulationReport(instance, finished.summary())
    print_report(report, as_json)


def _risks(name: str, given: str | None) -> list[float] | None:
    """Read risks from a list with commas."""
    try:
        return None if given is None else [float(risk) for risk in given.split(",")]
    except ValueError:
        raise OsrlError(f"{name} is {given!r}; give risks such as 0.1 or 0.1,0.05") from None


def rules(as_json: Json = False) -> None:
    """List the rules that osrl simulate --sample and --stop take, and what is proved."""
    with working("loading ..."):
        from osrl.report.rules import RulesReport
    print_report(RulesReport(), as_json)
