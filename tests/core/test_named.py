"""`named`: the law of a report, its estimate, and the items that a report may name."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories, Named, Shape, count_reports
from sottovoce.core.coin import MAX_EPSILON, MIN_EPSILON, WORD_RANGE, exp_epsilon
from sottovoce.core.named import choose_names, find_latest
from sottovoce.errors import SettingsError

NO_MODEL = np.zeros((0, 1), np.float32)


def build(n_items: int, epsilon: float = 2.0, names: int = 0) -> Named:
    return Named(Shape(n_items, 1, 1.0), epsilon, names)


def draw(mechanism: Named, histories: Histories, reports: int, seed: int = 0) -> np.ndarray:
    shape = (histories.n_users, reports + 1, 4)
    words = np.random.default_rng(seed).integers(0, 2**64, shape, dtype=np.uint64)
    return mechanism.reports(NO_MODEL, NO_MODEL, histories, words)


@given(
    n_items=st.integers(1, 100_000),
    epsilon=st.floats(MIN_EPSILON, MAX_EPSILON),
    spare=st.integers(0, 1000),
)
def test_no_ratio_of_probabilities_exceeds_e_to_the_epsilon(
    n_items: int, epsilon: float, spare: int
) -> None:
    """Compare one outcome under two histories: as the name of the first, not of the second."""
    mechanism = build(n_items, epsilon, 2 * ((n_items + 2) // 2 + spare))
    # Words cannot be divided evenly among K outcomes; an outcome with fewer has the larger ratio.
    uniform = Fraction(WORD_RANGE // mechanism.names, WORD_RANGE)

    def compute_ratio(gamma: Fraction) -> Fraction:
        return (gamma * uniform + 1 - gamma) / (gamma * uniform)

    limit = Fraction(exp_epsilon(epsilon))
    assert compute_ratio(Fraction(mechanism.blanket_below, WORD_RANGE)) <= limit
    # The whole budget is used: with one word less, the ratio would be too large.
    one_less = Fraction(mechanism.blanket_below - 1, WORD_RANGE)
    assert one_less == 0 or compute_ratio(one_less) > limit * (1 - Fraction(1, 10**50))


@given(st.integers(1, 10**6))
def test_default_number_of_names_is_even_and_has_room(n_items: int) -> None:
    names = choose_names(n_items)
    assert names % 2 == 0
    assert n_items + 1 <= names <= 1.1 * n_items + 2


@pytest.mark.parametrize("names", [7, 4])
def test_odd_or_too_few_names_are_refused(names: int) -> None:
    with pytest.raises(SettingsError):
        build(5, names=names)


def test_a_catalogue_grows_within_its_names_only() -> None:
    mechanism = build(5, names=12)
    assert mechanism.limit_items(100) == 11
    grown = mechanism.for_items(11)
    assert (grown.names, grown.loud_fraction) == (12, mechanism.loud_fraction)
    with pytest.raises(SettingsError):
        mechanism.for_items(12)


def test_a_manifest_must_state_the_number_of_names() -> None:
    with pytest.raises(SettingsError):
        Named.from_manifest(Shape(5, 1, 1.0), 2.0, {"names": 0})


def test_only_own_items_or_nothing_are_named_and_free_slots_by_chance_only() -> None:
    """Use the largest epsilon, at which a report is uniform with a probability of about 1e-16."""
    histories = Histories.from_lists([[1, 3], [], [4]], 5)
    reports = draw(build(5, MAX_EPSILON, names=100), histories, 1000)
    assert set(reports[0]) == {2, 4}
    assert set(reports[1]) == {0}
    assert set(reports[2]) == {5}
    # A fair draw between two items is outside of these bounds with a probability below 1e-9.
    assert 400 < (reports[0] == 2).sum() < 600


def test_the_estimate_is_unbiased_also_among_dummies() -> None:
    mechanism = build(4, 1.5, names=10)
    histories = Histories.from_lists([[0]] * 60_000 + [[2]] * 30_000 + [[]] * 10_000, 4)
    reports, n = draw(mechanism, histories, 1), histories.n_users
    dummies = np.random.default_rng(1).integers(10, size=50_000, dtype=np.uint32)
    counts = count_reports(np.append(reports, dummies), mechanism.n_directions)
    shares = mechanism.estimate(mechanism.to_sums(counts), n)[:, 0]
    # Five standard deviations of a count, divided by what a true name adds; four items.
    tolerance = 5.5 * np.sqrt((n + 50_000) * 0.25) / (n * mechanism.gain)
    np.testing.assert_allclose(shares, [0.6, 0.0, 0.3, 0.0], atol=tolerance)


def test_latest_items_are_those_with_the_largest_time() -> None:
    histories = Histories.from_lists([[0, 1, 2], [], [3]], 4)
    latest = find_latest(histories, np.array([5, -9, 5, -(2**60)]))
    assert [latest[user].tolist() for user in range(3)] == [[0, 2], [], [3]]
