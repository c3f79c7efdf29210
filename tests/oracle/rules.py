"""Rules of others as their papers print them: one task, one arm after the other, nothing saved.

Those of coins stop with the rate ln((ln t + 1) / delta) of Garivier and Kaufmann's experiments (2016,
section 6), TTEI by the posterior. Each function plays one run and gives the number of samples and the arm
that is answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from statistics import NormalDist

from scipy.integrate import quad

Run = tuple[int, int]


def kl(p: float, q: float) -> float:
    """Return the divergence of coins."""
    parts = ((p, q), (1 - p, 1 - q))
    return sum(a * math.log(a / b) for a, b in parts if a > 0) if 0 < q < 1 else math.inf * (p != q)


def end_of_interval(p: float, most: float, end: float) -> float:
    """Return the mean between ``p`` and ``end`` with kl(p, mean) = ``most``, by bisection."""
    inside, outside = p, end
    for _ in range(40):
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if kl(p, middle) <= most else (inside, middle)
    return inside


class Coins:
    """The arms, and what was seen of them: first every one once."""

    def __init__(self, means: Sequence[float], delta: float, rng: Random) -> None:
        self.means, self.delta, self.rng = means, delta, rng
        self.number, self.total = [0] * len(means), [0] * len(means)
        for a in range(len(means)):
            self.toss(a)

    def toss(self, a: int) -> None:
        self.number[a] += 1
        self.total[a] += self.rng.random() < self.means[a]

    @property
    def t(self) -> int:
        return sum(self.number)

    @property
    def rate(self) -> float:
        return math.log((math.log(self.t) + 1) / self.delta)

    def mean(self, a: int) -> float:
        return self.total[a] / self.number[a]

    def best(self, arms: Sequence[int]) -> int:
        return max(arms, key=self.mean)

    def others(self, a: int) -> list[int]:
        return [b for b in range(len(self.means)) if b != a]

    def ratio(self, a: int, b: int) -> float:
        """Return the generalised likelihood ratio of "a is better than b"; 0 where it does not look so."""
        if self.mean(a) <= self.mean(b):
            return 0.0
        pooled = (self.total[a] + self.total[b]) / (self.number[a] + self.number[b])
        return sum(self.number[c] * kl(self.mean(c), pooled) for c in (a, b))

    def interval(self, a: int) -> tuple[float, float]:
        most = self.rate / self.number[a]
        return end_of_interval(self.mean(a), most, 0.0), end_of_interval(self.mean(a), most, 1.0)


def race(coins: Coins, beaten: Callable[[int, int], bool]) -> Run:
    """Sample all that are left; then drop the worst, if the best has ``beaten`` it."""
    left = list(range(len(coins.means)))
    while len(left) > 1:
        for a in left:
            coins.toss(a)
        best, worst = coins.best(left), min(left, key=coins.mean)
        if best != worst and beaten(best, worst):
            left.remove(worst)
    return coins.t, left[0]


def chernoff_racing(means: Sequence[float], delta: float, rng: Random) -> Run:
    coins = Coins(means, delta, rng)
    return race(coins, lambda a, b: coins.ratio(a, b) > coins.rate)


def kl_racing(means: Sequence[float], delta: float, rng: Random) -> Run:
    coins = Coins(means, delta, rng)
    return race(coins, lambda a, b: coins.interval(a)[0] > coins.interval(b)[1])


def kl_lucb(means: Sequence[float], delta: float, rng: Random) -> Run:
    """Sample the leader and the most optimistic rival in each round (Kaufmann and Kalyanakrishnan, 2013)."""
    coins = Coins(means, delta, rng)
    while True:
        best = coins.best(range(len(means)))
        rival = max(coins.others(best), key=lambda b: coins.interval(b)[1])
        if coins.interval(best)[0] > coins.interval(rival)[1]:
            return coins.t, best
        coins.toss(best)
        coins.toss(rival)


def top_two(means: Sequence[float], delta: float, rng: Random, challenger: Callable[..., int]) -> Run:
    """Sample the leader of a posterior sample or its challenger, by a fair coin; stop by GLR."""
    coins = Coins(means, delta, rng)
    while True:
        best = coins.best(range(len(means)))
        if min(coins.ratio(best, b) for b in coins.others(best)) > coins.rate:
            return coins.t, best
        leader = sampled(coins)
        coins.toss(leader if rng.random() < 0.5 else challenger(coins, leader))


def sampled(coins: Coins) -> int:
    """Return the best arm of a sample from the posterior."""
    draws = [coins.rng.betavariate(1 + s, 1 + n - s) for n, s in zip(coins.number, coins.total, strict=True)]
    return draws.index(max(draws))


def ttts(means: Sequence[float], delta: float, rng: Random) -> Run:
    """Play TTTS: the challenger is the best arm of another sample, drawn until it is another arm (Russo, 2016)."""

    def another(coins: Coins, leader: int) -> int:
        while (found := sampled(coins)) == leader:
            pass
        return found

    return top_two(means, delta, rng, another)


def t3c(means: Sequence[float], delta: float, rng: Random) -> Run:
    """Play T3C: the challenger is the arm that is cheapest to believe in; of several any (Shang et al., 2020)."""

    def cheapest(coins: Coins, leader: int) -> int:
        return min(coins.others(leader), key=lambda b: (coins.ratio(leader, b), rng.random()))

    return top_two(means, delta, rng, cheapest)


# Top-two expected improvement (Qin, Klabjan and Russo, 2017): Gaussian rewards, a flat prior

Beliefs = Sequence[NormalDist]


def expected_improvement(by: NormalDist) -> float:
    """Return E max(D, 0) = s f(m / s), f(z) = z Phi(z) + phi(z)."""
    z, standard = by.mean / by.stdev, NormalDist()
    return by.stdev * (z * standard.cdf(z) + standard.pdf(z))


def ttei_pair(beliefs: Beliefs) -> tuple[int, int]:
    """Return I = argmax E max(theta_i - max_j m_j, 0), J = argmax over j != I of E max(theta_j - theta_I, 0)."""
    arms = range(len(beliefs))
    top = max(belief.mean for belief in beliefs)
    leader = max(arms, key=lambda i: expected_improvement(beliefs[i] - top))
    others = [j for j in arms if j != leader]
    return leader, max(others, key=lambda j: expected_improvement(beliefs[j] - beliefs[leader]))


def probability_of_best(beliefs: Beliefs, i: int) -> float:
    """Return the integral of the density of theta_i and the probabilities that the others are smaller."""
    own = beliefs[i]

    def integrand(value: float) -> float:
        smaller = math.prod(belief.cdf(value) for j, belief in enumerate(beliefs) if j != i)
        return own.pdf(value) * smaller

    found: tuple[float, float] = quad(
        integrand, own.mean - 10 * own.stdev, own.mean + 10 * own.stdev, epsabs=1e-12, limit=400
    )
    return found[0]


def ttei(means: Sequence[float], delta: float, rng: Random, beta: float = 0.5) -> Run:
    """Play TTEI with rewards of variance 1, every arm once to begin with; EI where beta is 1."""
    number, total = [1] * len(means), [rng.gauss(mean, 1) for mean in means]
    while True:
        beliefs = [NormalDist(s / n, n**-0.5) for n, s in zip(number, total, strict=True)]
        best = max(range(len(means)), key=lambda i: beliefs[i].mean)
        if probability_of_best(beliefs, best) >= 1 - delta:
            return sum(number), best
        leader, challenger = ttei_pair(beliefs)
        arm = leader if rng.random() < beta else challenger
        number[arm] += 1
        total[arm] += rng.gauss(means[arm], 1)
