"""No accepted manifest reveals more than the terms promise, whatever rho it has.

Where dummies hide people, a manifest may make fewer directions loud than its terms state, and rho
is then smaller. The exact deltas here are enumerated at the rho of the manifest, without the code
of the accountant and of the bound.
"""

import random
from dataclasses import replace
from math import comb, expm1, floor, log, sqrt

import numpy as np
import pytest

from sottovoce.errors import ProtocolError
from sottovoce.privacy import Reporting, central_epsilon, make_privacy_report
from sottovoce.protocol import Manifest, Terms
from sottovoce.training import Budget, plan_training
from tests.protocol.examples import manifest, terms
from tests.sampling import choose

TEST_DELTA = 1e-6
TERMS_TRIED = choose(by_day=60, at_night=1_000)
# The accountant is slower than the bound of devices: only each fifth terms are for it.
ACCOUNTANT_EVERY = 5
# Losses of several rounds are added on a grid of this width. They are rounded down, so that the
# enumerated delta is never above the exact one.
GRID_STEP = 1e-3


def enumerate_delta(event: Reporting, people: int, epsilon: float) -> float:
    """Return delta at epsilon for the worst pair of histories, at exactly this rho."""
    rho, odds = event.loud_fraction, expm1(event.epsilon)
    gamma = 1 / (1 + rho * odds)
    losses, chances = [], []
    for others in range(people):
        m = others + event.dummies // event.reports + 1
        # Larger counts have a chance of less than 1e-12.
        most = min(m, int(m * rho + 9 * sqrt(m * rho) + 20))
        a, b = np.mgrid[: most + 1, : most + 1]
        a, b = a[a + b <= m], b[a + b <= m]
        factorial = np.append(0.0, np.cumsum(np.log(np.arange(1, m + 1))))
        rest = m - a - b
        ways = factorial[m] - factorial[a] - factorial[b] - factorial[rest]
        uniform = np.exp(ways + (a + b) * log(rho) + rest * log(1 - 2 * rho))
        of_others = comb(people - 1, others) * gamma**others * (1 - gamma) ** (people - 1 - others)
        losses.append(np.log((m + odds * a) / (m + odds * b)))
        chances.append(of_others * uniform * gamma * (1 + odds * a / m))
    loss, chance = np.concatenate(losses), np.concatenate(chances)
    rounds = event.reports * event.epochs
    if rounds > 1:
        loss, chance = add_rounds(loss, chance, rounds, event.epsilon)
    return float(np.sum(chance * np.maximum(1 - np.exp(epsilon - loss), 0)))


def add_rounds(
    loss: np.ndarray, chance: np.ndarray, rounds: int, most: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the losses of this many independent rounds, and their probabilities."""
    reach = int(most / GRID_STEP) + 2
    places = np.floor(loss / GRID_STEP).astype(int) + reach
    one = np.bincount(places, chance, minlength=2 * reach)
    size = 1 << (rounds * len(one)).bit_length()
    total = np.maximum(np.fft.irfft(np.fft.rfft(one, size) ** rounds, size), 0)
    return GRID_STEP * (np.arange(size) - rounds * reach), total


def find_smallest_accepted(asked: Terms) -> float:
    """Return the smallest rho of a manifest under these terms that a device accepts."""
    sizes = [(floor(asked.loud_fraction * 2 * items), items) for items in range(30, 130)]
    for loud, items in sorted(
        (size for size in sizes if size[0]), key=lambda size: size[0] / size[1]
    ):
        parameters = {"directions_seed": 0, "block": 1, "loud": loud}
        asking = manifest(items=items, terms=replace(asked, parameters=parameters))
        try:
            return Manifest.decode(asking.encode()).build().loud_fraction
        except ProtocolError:
            continue
    raise AssertionError("no manifest under these terms is accepted")


def draw_terms(source: random.Random) -> Terms:
    """Return terms whose dummies, and few people, hide something."""
    items = source.randint(30, 120)
    loud = source.randint(2, items // 2)
    reports = source.choice([1, 1, 1, 2])
    dummies = min(source.uniform(4, 25) * 2 * items / loud, 200)
    return terms(
        epsilon=source.uniform(0.5, 10),
        loud_fraction=loud / (2 * items),
        parameters={"directions_seed": 0, "block": 1, "loud": loud},
        reports=reports,
        epochs=source.choice([1, 1, 2]),
        min_clients=source.choice([1, 1, 3, 6]),
        dummies=int(dummies) * reports,
        factors=1,
        max_items=200,
    )


@pytest.mark.parametrize("seed", range(TERMS_TRIED))
def test_promise_holds_at_every_accepted_rho(seed: int) -> None:
    source = random.Random(seed)
    asked = draw_terms(source)
    promised = asked.promise()
    crowd, event = asked.min_clients, asked.event
    figures = {(crowd, promised.central), (1, promised.dummies_only)}
    if seed % ACCOUNTANT_EVERY == 0:
        figures.add((crowd, central_epsilon(event, crowd, TEST_DELTA)))
    smallest = find_smallest_accepted(asked)
    for part in (0.0, source.random(), 1.0):
        rho = smallest + part * (asked.loud_fraction - smallest)
        used = replace(event, loud_fraction=rho)
        for people, epsilon in figures:
            assert enumerate_delta(used, people, epsilon) <= TEST_DELTA


def test_plan_stays_within_central_budget_at_every_accepted_rho() -> None:
    """Check a plan that once cost 3.41 at the smallest rho, with a budget of 3."""
    settings = plan_training(50_000, 9_781, budget=Budget(local=10, central=3))
    event = settings.event(9_781)
    promised = make_privacy_report(event, settings.estimate_crowd(50_000)).training
    assert promised.dummies_only is not None
    used = replace(event, loud_fraction=0.9 * event.loud_fraction)
    assert enumerate_delta(used, 1, promised.dummies_only) <= TEST_DELTA
    assert promised.dummies_only <= 3
