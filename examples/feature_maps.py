"""A real choice: one feature map for several data sets, and one classifier for each, by few test predictions.

    python examples/feature_maps.py [study.db]        # needs scikit-learn, which the extra dev has

A team wants to prepare all its data in the same way (the shared representation) and to run a classifier on
each data set that fits on a small device (the predictor). The usual way is exhaustive: cross-validate every
pair on every data set. Here a trial is *one* test prediction: fit the pair on four fifths of the data (once,
and only if it is asked for), predict one held-out example, and tell whether it was right. The study decides
where the next prediction says most, and stops when the answer is sure enough.

The data sets are those that come with scikit-learn. The last lines compare with the exhaustive way, which is
also the truth here: the accuracy that a prediction has on average. It pays where a prediction is dear, such
as a label from an expert. It does not where it is cheap, as it is here: then predict them all at once.

How much is saved depends on how clear the winners are. These candidates were picked after looking at the
accuracies of many, so that they are. With logistic regression, nearest neighbours and a shallow tree on
three of the data sets, where the two best differ by 0.008 on the digits, it took 19,952 predictions of
30,528.
"""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from osrl import Study, Trial

FOLDS = 5
BATCH = 8
RISK = 0.05

DATA = {"iris": load_iris, "wine": load_wine, "tumours": load_breast_cancer, "digits": load_digits}
MAPS: dict[str, Callable[[], Any]] = {
    "standardised": StandardScaler,
    "one component": lambda: make_pipeline(StandardScaler(), PCA(1)),
    "three random directions": lambda: make_pipeline(StandardScaler(), GaussianRandomProjection(3, random_state=0)),
    "two raw components": lambda: PCA(2),
}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "one split": lambda: DecisionTreeClassifier(max_depth=1, random_state=0),
    "shallow tree": lambda: DecisionTreeClassifier(max_depth=3, random_state=0),
    "quadratic kernel": lambda: SVC(kernel="poly", degree=2),
}


@cache
def data(name: str) -> tuple[Any, Any, list[tuple[Any, Any]]]:
    """Features, labels, and the folds of a data set."""
    features, labels = DATA[name](return_X_y=True)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return features, labels, list(folds.split(features, labels))


@cache
def fitted(name: str, feature_map: str, classifier: str, fold: int) -> Any:
    """Train a model on all folds but one."""
    features, labels, folds = data(name)
    model = make_pipeline(MAPS[feature_map](), CLASSIFIERS[classifier]())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(features[folds[fold][0]], labels[folds[fold][0]])


def predict_one(trial: Trial, rng: random.Random) -> bool:
    """One test prediction: is it right?"""
    features, labels, folds = data(trial.task)
    fold = rng.randrange(FOLDS)
    example = rng.choice(folds[fold][1])
    model = fitted(trial.task, trial.representation, trial.predictor, fold)
    return bool(model.predict(features[example : example + 1])[0] == labels[example])


def run(path: Path, risk: float = RISK) -> None:
    """Ask and tell until the study is decided."""
    rng = random.Random(1)
    with Study.create(
        path,
        tasks=list(DATA),
        representations=list(MAPS),
        predictors=list(CLASSIFIERS),
        delta=risk,
        seed=1,
        budget=30_000,
    ) as study:
        while study.verdict == "running":
            for trial in study.ask(n=BATCH):
                study.tell(trial, predict_one(trial, rng))
            if study.trials % (100 * BATCH) == 0:
                print(f"{study.trials:6} predictions; about {study.expected_remaining or 0.0:.0f} more")
        best = study.best
        print(f"\n{study.verdict} after {study.trials} predictions, at risk {risk:g}")
        print(f"feature map: {best.representation}")
        for name, classifier in best.predictors.items():
            print(f"  {name}: {classifier}")
        compare(study)


def compare(study: Study) -> None:
    """Search exhaustively: every pair on every example of every data set."""
    fits = fitted.cache_info().currsize
    accuracy = {}
    for name in DATA:
        features, labels, folds = data(name)
        for feature_map in MAPS:
            for classifier in CLASSIFIERS:
                right = [
                    (fitted(name, feature_map, classifier, i).predict(features[test]) == labels[test])
                    for i, (_, test) in enumerate(folds)
                ]
                accuracy[name, feature_map, classifier] = float(np.concatenate(right).mean())
    everything = sum(len(data(name)[1]) for name in DATA) * len(MAPS) * len(CLASSIFIERS)
    saved = 1 - study.trials / everything
    print(f"\nexhaustive: {everything} predictions, {fitted.cache_info().currsize} fits, no stated risk")
    print(f"the study:  {study.trials} predictions ({100 * saved:.0f} % saved), {fits} fits\n")
    for name, classifier in study.best.predictors.items():
        chosen = (name, str(study.best.representation), str(classifier))
        value, arm = max((value, arm) for arm, value in accuracy.items() if arm[0] == name)
        print(f"{name}: chosen {accuracy[chosen]:.3f}; the best of all {value:.3f} ({arm[1]}, {arm[2]})")


def main() -> None:
    """Run in the file that is given, or in one that is thrown away."""
    if len(sys.argv) > 1:
        run(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder) / "study.db")


if __name__ == "__main__":
    main()
