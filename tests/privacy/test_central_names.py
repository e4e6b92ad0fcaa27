"""The central figure of `named` against a computation that shares nothing with the accountant's.

The accountant gives away which reports of others are not uniform. Here only the counts of the two
names matter that the victim has in the two worlds, the clones of Feldman, McMillan and Talwar
(2022). This is exact if all others have a third name. dp-accounting composes the epochs.
`python -m tests.privacy.test_central_names` prints the table.
"""

from math import exp

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions
from scipy import stats

from sottovoce.core import Named, Shape
from sottovoce.privacy import Reporting, central_epsilon

TEST_DELTA = 1e-6
# Counts with a smaller probability are left out.
TAIL_PROBABILITY = 1e-14
# The width of dp-accounting's grid of losses.
LOSS_STEP = 2e-4
# The accountant may state this much more than the exact figure, since it gives more away.
MAX_RATIO = 1.03
# Items, epsilon, turns, reports of people in an epoch, dummies.
CASES = [
    (60, 4.0, 1, 300, 0),
    (60, 4.0, 3, 40, 400),
    (900, 7.0, 2, 1_000, 3_000),
    (9_781, 10.0, 1, 1_414, 0),
    (9_781, 10.0, 1, 1_414, 9_000),
    (9_781, 9.28, 1, 1_414, 2_951),
    (9_781, 8.25, 1, 1_414, 20_359),
    (9_781, 12.5, 4, 6_525, 9_000),
    (9_781, 10.0, 5, 75_000, 20_000),
    (50_000, 8.0, 6, 10_000, 100_000),
]
# These take the least time. The others run at night.
DAILY_CASES = CASES[3:7]


def compute_exact_epsilons(event: Reporting, names: int, people: int) -> tuple[float, float]:
    """Return a lower and an upper bound of the exact epsilon where others hold a third name."""
    gamma = names / (names + exp(event.epsilon) - 1)
    n_clones = count_clones(people - 1, 2 * gamma / names, event.dummies, 2 / names)
    own, other = gamma / names + 1 - gamma, gamma / names
    first: dict[tuple[int, int], float] = {}
    for total, chance in enumerate(n_clones):
        for a, split in enumerate(chance * stats.binom.pmf(np.arange(total + 1), total, 0.5)):
            for place, victim in (
                ((a + 1, total - a), own),
                ((a, total - a + 1), other),
                ((a, total - a), 1 - own - other),
            ):
                first[place] = first.get(place, 0.0) + split * victim
    log_first = {place: np.log(chance) for place, chance in first.items() if chance > 0}
    log_second = {(b, a): log for (a, b), log in log_first.items()}
    lower, upper = (
        from_two_probability_mass_functions(
            log_second,
            log_first,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=LOSS_STEP,
        )
        .self_compose(event.epochs)
        .get_epsilon_for_delta(TEST_DELTA)
        for pessimistic in (False, True)
    )
    return lower, upper


def count_clones(people: int, p: float, dummies: int, q: float) -> np.ndarray:
    """Return the probabilities of the number of others and dummies with one of the two names."""
    parts = [
        stats.binom.pmf(np.arange(stats.binom.isf(TAIL_PROBABILITY, n, chance) + 1), n, chance)
        for n, chance in ((people, p), (dummies, q))
    ]
    return np.convolve(*parts)


def measure(case: tuple[int, float, int, int, int]) -> tuple[float, float, float]:
    """Return the stated epsilon, and the two bounds of the exact one."""
    items, epsilon, turns, people, dummies = case
    mechanism = Named(Shape(items, 1, 0.0), epsilon)
    event = mechanism.event(1, turns, dummies)
    exact = compute_exact_epsilons(event, mechanism.names, people)
    return central_epsilon(event, people, TEST_DELTA), *exact


@pytest.mark.parametrize("case", DAILY_CASES, ids=str)
def test_central_epsilon_agrees_with_clones(case: tuple[int, float, int, int, int]) -> None:
    stated, lower, upper = measure(case)
    assert lower <= stated <= MAX_RATIO * upper


if __name__ == "__main__":
    for case in CASES:
        stated, lower, upper = measure(case)
        print(*case, f"stated {stated:.4f} exact {lower:.4f} to {upper:.4f}", flush=True)
