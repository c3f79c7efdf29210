"""An instance in a few words."""

from __future__ import annotations

from osrl.instance import Instance


def describe(instance: Instance) -> str:
    """The size of an instance, and what its rewards are.

    >>> describe(Instance.load("paper"))
    '2 tasks, 3 representations, 2 predictors; rewards 0 or 1'
    """
    family = instance.family
    rewards = {
        "bernoulli": "rewards 0 or 1",
        "gaussian": f"normal rewards with standard deviation {family.noise_sd}",
        "bounded": "rewards in [0, 1]",
    }[family.name]
    sizes = zip(instance.shape, ("task", "representation", "predictor"), strict=True)
    return f"{', '.join(many(n, word) for n, word in sizes)}; {rewards}"


def many(n: int, word: str) -> str:
    """A number of things, in running text.

    >>> many(1, "task"), many(1120, "run")
    ('1 task', '1,120 runs')
    """
    return f"{n} {word}" if n == 1 else f"{n:,} {word}s"
