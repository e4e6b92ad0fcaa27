"""Private counts: what a report gives away, and what the reports come to."""

from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations
from math import exp, pi, sqrt, tanh

import numpy as np
import pytest

from sottovoce.core import Histories, coin, sum_signs
from sottovoce.core.walsh import compute_hadamard_signs
from sottovoce.data import synthetic_people
from sottovoce.errors import SettingsError
from sottovoce_lab.baselines import NamedItems, Popularity, PrivatePopularity, factorize_named_items
from sottovoce_lab.baselines.counting import RowReports

WORD = 1 << 64


def everything(n_items: int) -> Histories:
    """Everybody that there can be."""
    items = range(n_items)
    subsets = chain.from_iterable(combinations(items, size) for size in range(n_items + 1))
    return Histories.from_lists([list(each) for each in subsets], n_items)


def distribution(how: RowReports, histories: Histories) -> list[dict[int, Fraction]]:
    """The exact chance of every report of every person, over all words."""
    chances: list[dict[int, Fraction]] = [{} for _ in range(histories.n_users)]
    shares = how.shares(histories)
    for row in range(how.rows):
        for low in (0, 1):
            for word, weight in ((how.flip_below - 1, how.flip_below), (WORD - 1, None)):
                chance = Fraction(WORD - how.flip_below if weight is None else weight, WORD)
                first = (row * (WORD // how.rows)) | low
                words = np.empty((2, histories.n_users, 1), np.uint64)
                words[0], words[1] = np.uint64(first), np.uint64(word)
                for user, (report,) in enumerate(how.reports(shares, words).tolist()):
                    so_far = chances[user].get(report, Fraction(0))
                    chances[user][report] = so_far + chance / (2 * how.rows)
    return chances


@pytest.mark.parametrize("epsilon", [0.1, 2.5, 5.0])
def test_a_report_is_epsilon_private_whoever_sends_it(epsilon: float) -> None:
    how = RowReports(5, epsilon, directions_seed=3)
    people = distribution(how, everything(5))
    for chances in people:
        assert sum(chances.values()) == 1
        assert len(chances) == 2 * how.rows
    worst = max(a[report] / b[report] for a in people for b in people for report in a)
    limit = coin.exp_epsilon(epsilon)
    assert worst == Fraction(WORD - how.flip_below, how.flip_below)
    assert Decimal(worst.numerator) / Decimal(worst.denominator) <= limit
    assert worst > Fraction(limit) * Fraction(999_999, 1_000_000)


def test_the_coin_turns_exactly_at_its_threshold() -> None:
    how = RowReports(5, 2.5, directions_seed=3)
    shares = how.shares(Histories.from_lists([[1]], 5))
    words = np.zeros((2, 1, 2), np.uint64)
    words[1, 0] = [how.flip_below - 1, how.flip_below]
    flipped, kept = how.reports(shares, words)[0]
    assert (int(kept) & 1) == int(shares[0, 0] > 0)
    assert flipped ^ kept == 1


def test_shares_are_the_rows_of_a_hadamard_matrix() -> None:
    histories = Histories.from_lists([[0, 7, 299], [], list(range(300))], 300)
    how = RowReports(300, 1.0, directions_seed=1)
    H = compute_hadamard_signs(np.arange(512)[:, None], np.arange(300)[None, :])
    dense = histories.to_csr().toarray() * how.item_signs
    assert np.array_equal(how.shares(histories), dense @ H.T)


def test_the_mean_estimate_is_that_of_everybodys_signs() -> None:
    """Unbiased for the mean of the signs' own transform; false alarm below 1e-6.

    Every item's estimate lies within 7 deviations of the exact mean, which is 2.6e-12 each for a
    normal; a report counts as +-1 in a row that only chance chose, so its deviation is known.
    """
    people = synthetic_people(n_users=400, n_items=40, seed=1).histories
    how = RowReports(40, 1.0, directions_seed=9)
    signs = np.sign(how.shares(people))
    H = compute_hadamard_signs(np.arange(40)[:, None], np.arange(how.rows)[None, :])
    exact = (H @ signs.mean(axis=0)) * how.item_signs / how.rows * tanh(0.5) / how.gain
    reports = 2_000
    found = PrivatePopularity.fit(people, epsilon=1.0, reports=reports, seed=9).shares
    deviation = 1 / (how.gain * sqrt(people.n_users * reports))
    assert np.abs(found - exact).max() < 7 * deviation
    assert np.abs(exact).max() > 20 * deviation


def test_one_item_each_is_found_exactly_in_the_limit() -> None:
    """A history of one item is a row of H itself: with no noise left, its share is 1."""
    people = Histories.from_lists([[0]] * 30 + [[5]] * 10, 8)
    how = RowReports(8, 40.0, directions_seed=0)
    words = np.zeros((2, 40, 8), np.uint64)
    words[0] = np.arange(8, dtype=np.uint64) << np.uint64(61)
    words[1] = np.uint64(WORD - 1)
    sums = sum_signs(how.reports(how.shares(people), words), how.rows)
    expected = np.array([0.75, 0, 0, 0, 0, 0.25, 0, 0]) * sqrt(pi / 2)
    assert how.estimate(sums, 320) == pytest.approx(expected, abs=1e-12)


def test_many_reports_find_the_mean_history_of_unit_length() -> None:
    """Nearly: a sign is linear only on the average over rows, so what is left is no noise."""
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
def test_what_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    people = Histories.from_lists([[0]], 2)
    with pytest.raises(SettingsError):
        PrivatePopularity.fit(people, **({"epsilon": 1.0, "reports": 1, "seed": 0} | wrong))  # type: ignore[arg-type]


N, M, EPSILON = 20_000, 8, 1.5
DEVIATIONS = 6.0
"""False alarms: below 2e-9 for each of the numbers that are compared."""


def chances(history: list[int]) -> np.ndarray:
    """How often each item is named by people with this history."""
    people = Histories.from_lists([history] * N, M)
    named = np.concatenate(list(NamedItems(M, EPSILON, 1).blocks(people, seed=5)))
    return np.bincount(named.ravel(), minlength=M) / N


@pytest.mark.parametrize("history", [[3], [0, 7], [], list(range(M))])
def test_how_often_each_item_is_named(history: list[int]) -> None:
    truth = exp(EPSILON) / (exp(EPSILON) + M - 1)
    drawn = np.full(M, 1 / M)
    if history:
        drawn = np.isin(np.arange(M), history) / len(history)
    expected = drawn * truth + (1 - drawn) * (1 - truth) / (M - 1)
    noise = np.sqrt(expected * (1 - expected) / N)
    assert (np.abs(chances(history) - expected) < DEVIATIONS * noise).all()
    assert expected.max() / expected.min() <= exp(EPSILON) * (1 + 1e-12)


def test_much_epsilon_counts_and_factorises_what_there_is() -> None:
    people = synthetic_people(n_users=2500, n_items=40, seed=1).histories
    how = NamedItems(people.n_items, 20.0, 200)
    counted = how.count_popularity(people, seed=0).counts
    shares = people.to_csr().multiply(1 / np.diff(people.indptr)[:, None]).sum(axis=0)
    assert np.corrcoef(counted, np.ravel(shares))[0, 1] > 0.999
    named = how.histories(people, seed=0)
    assert named.n_users == people.n_users
    assert abs(named.to_csr() - people.to_csr()).sum() < 0.01 * people.to_csr().nnz
    model = factorize_named_items(
        people, epsilon=20.0, reports=200, seed=0,
        factors=2, alpha=4.0, regularization=1.0, iterations=2,
    )  # fmt: skip
    assert model.V.shape == (40, 2)


def test_a_seed_gives_the_same_reports_and_bad_settings_are_refused() -> None:
    people = synthetic_people(n_users=30, n_items=20, seed=1).histories
    first, again, other = (
        np.concatenate(list(NamedItems(20, 2.0, 3).blocks(people, seed))) for seed in (4, 4, 5)
    )
    assert (first == again).all()
    assert (first != other).any()
    with pytest.raises(SettingsError):
        NamedItems(20, 2.0, 0)
    with pytest.raises(SettingsError):
        NamedItems(20, 0.0, 1)
