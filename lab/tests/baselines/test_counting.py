"""Private counts: the exact probability of every report, and estimates from many reports."""

from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations
from math import pi, sqrt, tanh

import numpy as np
import pytest

from sottovoce.core import Histories, coin, sum_signs
from sottovoce.core.walsh import compute_hadamard_signs
from sottovoce.data import synthetic_people
from sottovoce.errors import SettingsError
from sottovoce.simulation import Popularity
from sottovoce_lab.baselines import PrivatePopularity
from sottovoce_lab.baselines.counting import RowReports


def list_all_histories(n_items: int) -> Histories:
    """Return one person for each subset of the items."""
    items = range(n_items)
    subsets = chain.from_iterable(combinations(items, size) for size in range(n_items + 1))
    return Histories.from_lists([list(subset) for subset in subsets], n_items)


def compute_distributions(rule: RowReports, histories: Histories) -> list[dict[int, Fraction]]:
    """Return the exact probability of every report of every person, over all random words."""
    distributions: list[dict[int, Fraction]] = [{} for _ in range(histories.n_users)]
    products = rule.multiply_rows(histories)
    # One word that flips and one that does not, each with the number of words like it.
    flipping = (rule.flip_threshold - 1, rule.flip_threshold)
    not_flipping = (coin.WORD_RANGE - 1, coin.WORD_RANGE - rule.flip_threshold)
    for row in range(rule.n_rows):
        for low in (0, 1):
            for word, weight in (flipping, not_flipping):
                first = (row * (coin.WORD_RANGE // rule.n_rows)) | low
                words = np.empty((2, histories.n_users, 1), np.uint64)
                words[0], words[1] = np.uint64(first), np.uint64(word)
                probability = Fraction(weight, coin.WORD_RANGE) / (2 * rule.n_rows)
                for user, (report,) in enumerate(rule.make_reports(products, words).tolist()):
                    so_far = distributions[user].get(report, Fraction(0))
                    distributions[user][report] = so_far + probability
    return distributions


@pytest.mark.parametrize("epsilon", [0.1, 2.5, 5.0])
def test_a_report_is_epsilon_private_for_every_history(epsilon: float) -> None:
    rule = RowReports(5, epsilon, directions_seed=3)
    people = compute_distributions(rule, list_all_histories(5))
    for distribution in people:
        assert sum(distribution.values()) == 1
        assert len(distribution) == 2 * rule.n_rows
    worst = max(a[report] / b[report] for a in people for b in people for report in a)
    limit = coin.exp_epsilon(epsilon)
    assert worst == Fraction(coin.WORD_RANGE - rule.flip_threshold, rule.flip_threshold)
    assert Decimal(worst.numerator) / Decimal(worst.denominator) <= limit
    assert worst > Fraction(limit) * Fraction(999_999, 1_000_000)


def test_the_coin_flips_exactly_below_its_threshold() -> None:
    rule = RowReports(5, 2.5, directions_seed=3)
    products = rule.multiply_rows(Histories.from_lists([[1]], 5))
    words = np.zeros((2, 1, 2), np.uint64)
    words[1, 0] = [rule.flip_threshold - 1, rule.flip_threshold]
    flipped, unflipped = rule.make_reports(products, words)[0]
    assert (int(unflipped) & 1) == int(products[0, 0] > 0)
    assert flipped ^ unflipped == 1


def test_products_are_those_of_a_hadamard_matrix() -> None:
    histories = Histories.from_lists([[0, 7, 299], [], list(range(300))], 300)
    rule = RowReports(300, 1.0, directions_seed=1)
    H = compute_hadamard_signs(np.arange(512)[:, None], np.arange(300)[None, :])
    dense = histories.to_csr().toarray() * rule.item_signs
    assert np.array_equal(rule.multiply_rows(histories), dense @ H.T)


def test_the_estimate_has_no_bias() -> None:
    # The exact value is the transform of everybody's mean signs. Every item's estimate is within 7
    # deviations of it, which fails with 2.6e-12 for a normal. A report counts as +-1 in a row that
    # is drawn by chance alone, so its deviation is known.
    people = synthetic_people(n_users=400, n_items=40, seed=1).histories
    rule = RowReports(40, 1.0, directions_seed=9)
    signs = np.sign(rule.multiply_rows(people))
    H = compute_hadamard_signs(np.arange(40)[:, None], np.arange(rule.n_rows)[None, :])
    exact = (H @ signs.mean(axis=0)) * rule.item_signs / rule.n_rows * tanh(0.5) / rule.gain
    reports = 2_000
    shares = PrivatePopularity.fit(people, epsilon=1.0, reports=reports, seed=9).shares
    deviation = 1 / (rule.gain * sqrt(people.n_users * reports))
    assert np.abs(shares - exact).max() < 7 * deviation
    assert np.abs(exact).max() > 20 * deviation


def test_histories_of_one_item_are_counted_exactly_without_noise() -> None:
    # A history of one item is a row of H itself.
    people = Histories.from_lists([[0]] * 30 + [[5]] * 10, 8)
    rule = RowReports(8, 40.0, directions_seed=0)
    words = np.zeros((2, 40, 8), np.uint64)
    words[0] = np.arange(8, dtype=np.uint64) << np.uint64(61)
    words[1] = np.uint64(coin.WORD_RANGE - 1)
    sums = sum_signs(rule.make_reports(rule.multiply_rows(people), words), rule.n_rows)
    expected = np.array([0.75, 0, 0, 0, 0, 0.25, 0, 0]) * sqrt(pi / 2)
    assert rule.estimate(sums, 320) == pytest.approx(expected, abs=1e-12)


def test_many_reports_estimate_the_mean_history_of_unit_length() -> None:
    # Only nearly: a sign is linear on average over rows, so the difference is not noise.
    people = synthetic_people(n_users=1000, n_items=500, seed=4).histories
    model = PrivatePopularity.fit(people, epsilon=20.0, reports=2000, seed=0)
    length = np.sqrt(np.diff(people.indptr))
    weights = 1 / length[people.users_of_entries()]
    mean = np.bincount(people.indices, weights=weights, minlength=500) / people.n_users
    slope, offset = np.polyfit(mean, model.shares, 1)
    assert slope == pytest.approx(1, abs=0.05)
    assert offset == pytest.approx(0, abs=0.01 * mean.max())
    assert np.corrcoef(model.shares, mean)[0, 1] > 0.95
    assert np.corrcoef(model.shares, Popularity.fit(people).counts)[0, 1] > 0.95


@pytest.mark.parametrize("wrong", [{"reports": 0}, {"epsilon": 0.0}])
def test_wrong_options_are_refused(wrong: dict[str, float]) -> None:
    people = Histories.from_lists([[0]], 2)
    with pytest.raises(SettingsError):
        PrivatePopularity.fit(people, **({"epsilon": 1.0, "reports": 1, "seed": 0} | wrong))  # type: ignore[arg-type]
