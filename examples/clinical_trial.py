"""A clinical trial, simulated: patients arrive in two groups, results come late, and some never come.

    python examples/clinical_trial.py [trial.db]

Three drugs can be given at two doses. The best drug is the same in both groups; the best dose is not.
Patients arrive by themselves, so the task of a trial is given; the study says what to give them. A result
takes some days. One patient in twenty never comes back, and those on the worst drug do so more often: they
may not simply be left out, so they are abandoned *without* `ignorable`, and the guarantee stays.

Run it with a file, stop it at any time with Ctrl-C, and start it again: it goes on where it stopped.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from osrl import Study

CURED = {  # the truth, which the study does not know
    "under 40": {"ibex": (0.80, 0.55), "lynx": (0.40, 0.35), "otter": (0.20, 0.15)},
    "40 and over": {"ibex": (0.45, 0.75), "lynx": (0.25, 0.45), "otter": (0.30, 0.20)},
}
DOSES = ("low", "high")
SHARE_OF_YOUNG = 0.6
DAYS_UNTIL_RESULT = (3, 20)
PATIENTS_A_DAY = 4
MOST_DAYS = 2_000


def open_or_create(path: Path) -> Study:
    """Open the study of this file, new or as it was left."""
    if path.exists():
        return Study.open(path)
    return Study.create(
        path,
        tasks=list(CURED),
        representations=["ibex", "lynx", "otter"],
        predictors=DOSES,
        delta_g=0.05,
        delta_h=0.05,
        seed=2024,
    )


def run(path: Path) -> None:
    """One day after the other, until there is a verdict."""
    with open_or_create(path) as study:
        rng = random.Random(study.trials)
        due: dict[int, list[int]] = {}
        for number in study.pending:  # whoever was waited for when the program stopped
            due.setdefault(rng.randint(*DAYS_UNTIL_RESULT), []).append(number)
        truth = {row["trial"]: row for row in study.history.to_dicts()}
        for day in range(MOST_DAYS):
            for _ in range(PATIENTS_A_DAY):
                if study.verdict != "running":
                    break
                group = "under 40" if rng.random() < SHARE_OF_YOUNG else "40 and over"
                trial = study.ask(group)
                truth[trial.id] = vars(trial)
                due.setdefault(day + rng.randint(*DAYS_UNTIL_RESULT), []).append(trial.id)
            for number in due.pop(day, []):
                drug, dose = truth[number]["representation"], truth[number]["predictor"]
                lost = rng.random() < (0.10 if drug == "otter" else 0.03)
                if lost:
                    study.abandon(number)
                else:
                    chance = CURED[str(truth[number]["task"])][drug][DOSES.index(dose)]
                    study.tell(number, rng.random() < chance)
            if day % 20 == 0 or study.verdict != "running":
                status = study.status
                left = status.expected_remaining
                about = f", about {left:.0f} more patients" if left else ""
                print(f"day {day:4}: {status.told:4} results, {status.waiting:3} waited for{about}")
            if study.verdict != "running":
                break
        report(study)


def report(study: Study) -> None:
    """Print what was found, and whether the log proves it."""
    best = study.best
    print(f"\nverdict: {study.verdict}; best drug: {best.representation}")
    for group, dose in best.predictors.items():
        print(f"  {group}: {dose} dose")
    given = study.history.group_by("representation").len().sort("len", descending=True)
    shares = ", ".join(f"{drug} {count}" for drug, count in given.rows())
    print(f"{study.trials} patients treated: {shares}")
    replay = study.verify()
    print(f"replay of {replay.events} events agrees: {replay.ok}")


def main() -> None:
    """Run in the file that is given, or in one that is thrown away."""
    if len(sys.argv) > 1:
        run(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder) / "trial.db")


if __name__ == "__main__":
    main()
