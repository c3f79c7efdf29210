"""Write the report on the calibration of forecasts: `python -m tests.validation.report_forecast FILE`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from osrl.jit.mode import compile_now
from tests.validation.forecasts import CASES, STAGES, Case, Checked, check_forecasts, share_below

SEED = 1303
RUNS = 10  # of each case
LEAST = 0.8  # of the forecasts of a case: those of one study are not independent

HEAD = """# Is the forecast of a study right?

Written by `make validate` (`tests/validation/report_forecast.py`). {studies} simulated studies of {instances}
instances, with and without losses, are stopped at about {stages} of their typical length (those that have
not ended by then); the rest is forecast as `osrl study status` does it, and then played. Each column counts
how often the true remainder was at most the number that was said: calibrated would be 10, 50 and 90 %.
Constants were chosen on another seed of some of these instances.

| | forecasts | at most the 10 % | at most the median | at most the 90 % |
|---|---|---|---|---|
"""

TAIL = """
For one instance the numbers are not calibrated, and cannot be: what is believed about means is right on
average over what people compare, not for each. Clear cases end earlier than the median says, ties later. The
90 % is the number to plan with: over all instances it was enough in {:.0f} % of the cases, and in at least
{:.0f} % of each ({}).
"""


def row(name: str, checked: list[Checked]) -> str:
    shares = " | ".join(f"{100 * share:.0f} %" for share in share_below(checked))
    return f"| {name} | {len(checked)} | {shares} |\n"


def named(case: Case) -> str:
    """Return the name of a case, with its losses."""
    return f"{case.name}, {100 * case.loss:.0f} % lost" if case.loss else case.name


def played(case: Case) -> list[Checked]:
    """Return all forecasts of a case."""
    compile_now()
    return [each for run in range(RUNS) for each in check_forecasts(case, SEED, run)]


def report(of_cases: Sequence[list[Checked]]) -> str:
    """Return the page."""
    checked = [each for own in of_cases for each in own]
    text = HEAD.format(
        studies=RUNS * len(CASES),
        instances=len({case.name for case in CASES}),
        stages=", ".join(f"{100 * share:.0f} %" for share in STAGES),
    )
    text += row("**all**", checked)
    for stage, share in enumerate(STAGES):
        text += row(f"at {100 * share:.0f} %", [each for each in checked if each.stage == stage])
    for case, own in zip(CASES, of_cases, strict=True):
        text += row(named(case), own)
    least = min(of_cases, key=lambda own: share_below(own)[2])
    shares = (100 * share_below(each)[2] for each in (checked, least))
    return text + TAIL.format(*shares, named(least[0].case))


def main(path: Path) -> int:
    """Forecast, play, and write the page; 1 where the 90 % are not kept."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        of_cases = list(pool.map(played, CASES))
    path.write_text(report(of_cases), encoding="utf-8")
    low, median, q90 = share_below([each for own in of_cases for each in own])
    kept = low <= 0.3 and 0.35 <= median <= 0.65 and 0.87 <= q90 <= 0.99
    return 0 if kept and all(share_below(own)[2] >= LEAST for own in of_cases) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
