"""Write the report on the calibration of forecasts: `python -m tests.validate_forecast FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.forecasts import CASES, STAGES, Checked, check_forecasts, share_below

SEED = 1303
RUNS = 25  # of each case: 200 studies

HEAD = """# Is the forecast of a study right?

Written by `make validate` (`tests/validate_forecast.py`). {studies} simulated studies of {instances}
instances, with and without losses, are stopped at about {stages} of their typical length (those that have
not ended by then); the rest is forecast as `osrl study status` does it, and then played. Calibrated means:
the true remainder is at most the median in 40 to 60 % of all cases, and at most the stated 90 % in 85 to
97 %. The beliefs behind the forecast were chosen on another seed of the same instances.

| | forecasts | at most the median | at most the 90 % |
|---|---|---|---|
"""

TAIL = """
By instance it is not calibrated, and cannot be: a belief about means is right on average over what people
compare, not for each. Easy studies end earlier than forecast, ties later.
"""


def row(name: str, checked: list[Checked]) -> str:
    median, q90 = share_below(checked)
    return f"| {name} | {len(checked)} | {100 * median:.0f} % | {100 * q90:.0f} % |\n"


def main(path: Path) -> int:
    checked = [each for case in CASES for run in range(RUNS) for each in check_forecasts(case, SEED, run)]
    text = HEAD.format(
        studies=RUNS * len(CASES),
        instances=len({case.name for case in CASES}),
        stages=", ".join(f"{100 * share:.0f} %" for share in STAGES),
    )
    text += row("**all**", checked)
    for stage, share in enumerate(STAGES):
        text += row(f"at {100 * share:.0f} %", [each for each in checked if each.stage == stage])
    for case in CASES:
        lost = f", {100 * case.loss:.0f} % lost" if case.loss else ""
        text += row(f"{case.name}{lost}", [each for each in checked if each.case is case])
    text += TAIL
    path.write_text(text, encoding="utf-8")
    print(text)
    median, q90 = share_below(checked)
    return 0 if 0.4 <= median <= 0.6 and 0.85 <= q90 <= 0.97 else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
