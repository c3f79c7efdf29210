"""`osrl simulate`: replications of policies on an instance."""

from __future__ import annotations

from typing import Annotated

import typer

from osrl.cli.arguments import Tolerance, ToleranceG, ToleranceH, key_value
from osrl.cli.output import echo, print_json, print_report, progress_bar, working
from osrl.errors import OsrlError


def simulate(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="An instance file (.toml or .json), or 'paper' for the paper's."),
    ],
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
    epsilon: Tolerance = None,
    epsilon_g: ToleranceG = None,
    epsilon_h: ToleranceH = None,
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
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
                _names(policy),
                _risks("delta", delta),
                DEFAULT_RUNS if runs is None else runs,
                seed,
                delta_g=_risks("delta_g", delta_g),
                delta_h=_risks("delta_h", delta_h),
                epsilon=epsilon,
                epsilon_g=epsilon_g,
                epsilon_h=epsilon_h,
                sample=_names(sample),
                stop=_names(stop),
                threshold=_names(threshold),
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
    if as_json:
        print_json(report.document())
    else:
        print_report(report)


def _names(given: str | None) -> list[str] | None:
    """Names from a list with commas."""
    return None if given is None else given.split(",")


def _risks(name: str, given: str | None) -> list[float] | None:
    """Risks from a list with commas."""
    try:
        return None if given is None else [float(risk) for risk in given.split(",")]
    except ValueError:
        raise OsrlError(f"{name} is {given!r}; give risks such as 0.1 or 0.1,0.05") from None
