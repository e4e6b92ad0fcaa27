"""What a trusted party is set to, and the noise that its budget needs; see `baselines.trusted`."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from sottovoce.privacy import gaussian_epsilon, mu_within
from sottovoce.privacy.account import DELTA
from sottovoce.settings import check, setting

REPLACED, ADDED = sqrt(2), 1.0
"""How far a history moves each sum when it is replaced, and when somebody is added or removed."""
COUNT_SHARE, GRAM_SHARE, OUTER_SHARE = 0.02, 0.02, 0.2
"""Of mu^2: the count, of all of it; the others, of what a step has."""
FACTORS_PER_ROOT, MOST_FACTORS = 1.25, 32
"""How many factors: see `_factors`."""


@dataclass(frozen=True)
class TrustedSettings:
    """One training by a trusted party; `by_rule` gives those that are reported."""

    epsilon: float = setting(
        1.0, "central budget of the whole training when a history is replaced", above=0
    )
    delta: float = setting(DELTA, "chance beyond epsilon", above=0)
    factors: int = setting(8, "numbers for each item (F)", least=1)
    steps: int = setting(12, "alternating steps, each with noise of its own", least=1)
    alpha: float = setting(1.0, "a person's own items weigh 1 + alpha for their vector", least=0)
    regularization: float = setting(
        0.01, "ridge on user vectors, where the mean squared singular value of V is 1", above=0
    )
    rare_power: float = setting(
        0.3, "an item weighs its count to the minus this power in a history", least=0
    )
    item_ridge: float = setting(
        12.0, "ridge on items, where the mean eigenvalue of K is 1", above=0
    )
    memory: float = setting(0.9, "weight of a sum one step later", least=0, most=1)
    observed: float = setting(
        0.0, "a touched item weighs 1 + observed for V; 0: the sums A are not released", least=0
    )

    def __post_init__(self) -> None:
        check(self)
        self.noise  # noqa: B018 - refuses what no noise can keep

    @classmethod
    def by_rule(cls, epsilon: float, *, people: int, items: int) -> TrustedSettings:
        """The settings that are reported: a function of public numbers alone.

        Chosen on random splits of seeds 1000 and 1001, which are not reported, mostly at epsilon 1
        on the Netflix subset, one by one around 12 factors and an item ridge of 4. HR@10 changes
        from its 0.809 by about 0.002 at most with 8 or 20 steps, memory 0.95, a ridge on vectors of
        0.001, items weighing by the power 0.2 or 0.4, alpha 0 on devices. It loses 0.003 (epsilon
        2.12) to 0.008 with an item ridge of 1,
        0.004 with a ridge on vectors of 0.1, 0.007 with the power 0.5, 0.01 with none, 0.002 to
        0.004 without the cone, and 0.004 where A is released too (`observed` 1). An item ridge of
        12 in place of 4 gains 0.003 at epsilon 0.32. Splits from seed to seed differ by 0.001.
        """
        return cls(epsilon=epsilon, factors=_factors(mu_within(epsilon, DELTA), people, items))

    @property
    def noise(self) -> Noise:
        mu = mu_within(self.epsilon, self.delta)
        return Noise.within(mu, self.steps, outer=self.observed > 0)

    @property
    def add_remove_epsilon(self) -> float:
        """The same releases in the sense of the paper: somebody is added or removed."""
        return gaussian_epsilon(self.noise.mu(ADDED), self.delta)


def _factors(mu: float, people: int, items: int) -> int:
    """From how far everybody's products stand above noise, whose size is near sqrt(items) / mu."""
    wanted = round(FACTORS_PER_ROOT * sqrt(people * mu / sqrt(items)))
    return max(1, min(wanted, MOST_FACTORS, items))


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the releases: one count, then `steps` times the three sums."""

    steps: int
    count: float
    products: float
    gram: float
    outer: float | None

    @classmethod
    def within(cls, mu: float, steps: int, *, outer: bool) -> Noise:
        """As little as keeps all releases together within mu."""
        step = mu * sqrt((1 - COUNT_SHARE) / steps)
        outer_share = OUTER_SHARE if outer else 0.0
        return cls(
            steps,
            count=REPLACED / (mu * sqrt(COUNT_SHARE)),
            products=REPLACED / (step * sqrt(1 - GRAM_SHARE - outer_share)),
            gram=REPLACED / (step * sqrt(GRAM_SHARE)),
            outer=REPLACED / (step * sqrt(outer_share)) if outer else None,
        )

    def mu(self, moved: float = REPLACED) -> float:
        """Of all releases together, where one person moves each sum so far."""
        step = [self.products, self.gram] + ([] if self.outer is None else [self.outer])
        squares = sum((moved / deviation) ** 2 for deviation in step)
        return sqrt((moved / self.count) ** 2 + self.steps * squares)
