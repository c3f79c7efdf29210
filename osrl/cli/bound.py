"""`osrl bound`: how many samples any policy needs on an instance."""

from __future__ import annotations

from typing import Annotated

import typer

from osrl.cli.options import Epsilon, EpsilonG, EpsilonH, InstanceFile, Json
from osrl.cli.output import print_report, working

INTERVAL_WIDTH = 1e-6  # relative, of the certified intervals


def bound(
    file: InstanceFile,
    delta: Annotated[float | None, typer.Option(help="Both risks at once.")] = None,
    delta_g: Annotated[
        float | None, typer.Option(help="Accepted risk of a wrong representation.  [default: 0.1]")
    ] = None,
    delta_h: Annotated[
        float | None, typer.Option(help="Accepted risk of a wrong predictor in a task.  [default: 0.1]")
    ] = None,
    epsilon: Epsilon = None,
    epsilon_g: EpsilonG = None,
    epsilon_h: EpsilonH = None,
    sigma: Annotated[float | None, typer.Option(help="The paper's regulariser, for K_G_sigma.  [default: 1e5]")] = None,
    as_json: Json = False,
) -> None:
    """Print how many samples any policy needs, and how best to spread them."""
    with working("computing the bounds ..."):
        # Here, not above: these compile and load kernels, which help and usage errors do not need.
        from osrl.bounds.lower import DEFAULT_SIGMA, lower_bound
        from osrl.bounds.separate_tasks import separate_tasks
        from osrl.model.instance import Instance
        from osrl.model.risks import read_risks
        from osrl.report.bound import BoundReport

        risk_g, risk_h = read_risks(delta, delta_g, delta_h)
        instance = Instance.load(file)
        bounds = lower_bound(
            instance,
            delta_g=risk_g,
            delta_h=risk_h,
            epsilon=epsilon,
            epsilon_g=epsilon_g,
            epsilon_h=epsilon_h,
            sigma=DEFAULT_SIGMA if sigma is None else sigma,
            tolerance=INTERVAL_WIDTH,
        )
        separate = separate_tasks(instance, bounds.delta_g, bounds.delta_h, tolerance=INTERVAL_WIDTH)
        report = BoundReport(instance, bounds, separate, INTERVAL_WIDTH)
    print_report(report, as_json)
