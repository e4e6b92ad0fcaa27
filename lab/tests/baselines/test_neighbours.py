"""DPLCF: coins, counts, the removal of the bias, and the neighbours."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from lab.tests.baselines.blocks import ranks_own_block_first, two_blocks
from sottovoce.core import Histories, coin
from sottovoce.data import synthetic_people
from sottovoce.data.streams import stream
from sottovoce.errors import SettingsError
from sottovoce_lab.baselines import DPLCF
from sottovoce_lab.baselines.kernels import TILE_COLUMNS, count_common_bits
from sottovoce_lab.baselines.neighbours import (
    Debias,
    compute_similarities,
    draw_bernoulli_words,
    pack_columns,
    randomize_columns,
)


@pytest.fixture(scope="module")
def people() -> Histories:
    return synthetic_people(n_users=700, n_items=90, seed=5).histories


def unpack(columns: np.ndarray, n_users: int) -> np.ndarray:
    """Return M x N zeros and ones."""
    octets = columns.astype("<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :n_users]


@pytest.mark.parametrize("n_users", [1, 63, 64, 65, 513, 700])
def test_columns_hold_the_histories(people: Histories, n_users: int) -> None:
    first_people = people.take(np.arange(n_users))
    columns = pack_columns(first_people)
    assert columns.shape == (90, -(-n_users // 64))
    assert np.array_equal(unpack(columns, n_users).T, first_people.to_csr().toarray())
    assert int(np.bitwise_count(columns).sum()) == first_people.n_interactions


@pytest.mark.parametrize(
    "threshold", [0, 1 << 63, 3 << 61, (1 << 64) - 1, coin.compute_flip_threshold(2.5)]
)
def test_a_bit_is_the_comparison_of_its_word_with_the_threshold(threshold: int) -> None:
    # The random words are the binary digits of one word for each bit, highest digit first.
    words = stream(1, "test").bit_generator.random_raw((64, 3))
    lanes = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    values = [int("".join(map(str, lanes[:, lane])), 2) for lane in range(192)]
    drawn = draw_bernoulli_words(stream(1, "test"), 3, threshold)
    bits = np.unpackbits(drawn.astype("<u8").view(np.uint8), bitorder="little")
    assert bits.tolist() == [int(value < threshold) for value in values]


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.5, 6.0])
def test_flips_have_the_coins_frequency(epsilon: float) -> None:
    # Two million bits; 5.5 deviations mean a false alarm of 4e-8.
    n_users, threshold = 20_000, coin.compute_flip_threshold(epsilon)
    columns = np.zeros((100, -(-n_users // 64)), np.uint64)
    randomize_columns(columns, n_users, threshold, seed=8)
    q, n = threshold / coin.WORD_RANGE, 100 * n_users
    n_flips = unpack(columns, n_users).sum(dtype=np.int64)
    assert abs(n_flips - n * q) < 5.5 * sqrt(n * q * (1 - q))
    assert np.bitwise_count(columns).sum() == n_flips


def test_items_and_seeds_have_different_flips() -> None:
    def flip_zeros(seed: int) -> np.ndarray:
        columns = np.zeros((3, 4), np.uint64)
        randomize_columns(columns, 256, coin.compute_flip_threshold(0.5), seed)
        return columns

    assert np.array_equal(flip_zeros(1), flip_zeros(1))
    assert len(np.unique(np.concatenate([flip_zeros(1), flip_zeros(2)]), axis=0)) == 6


@pytest.mark.parametrize(("tiles", "more"), [(0, 1), (1, -1), (1, 0), (1, 1), (2, 0), (3, 5)])
def test_any_number_of_items_is_counted(tiles: int, more: int) -> None:
    items = tiles * TILE_COLUMNS + more
    columns = np.random.default_rng(4).integers(0, 1 << 63, (items, 3), np.uint64)
    counts = np.full((items, items), -1, np.int32)
    count_common_bits(columns, counts)
    expected = np.bitwise_count(columns[:, None] & columns[None]).sum(axis=2)
    assert np.array_equal(counts, expected)


def test_without_noise_it_is_the_cosine(people: Histories) -> None:
    dense = people.to_csr().toarray().astype(np.float64)
    both = dense.T @ dense
    length = np.sqrt(np.maximum(np.diag(both), 1))
    cosine = both / np.outer(length, length)
    np.fill_diagonal(cosine, 0)
    model = DPLCF.fit(people, epsilon=None, neighbours=90)
    assert model.similarity == pytest.approx(cosine, abs=1e-6)
    users = np.array([4, 0])
    assert model.score(users) == pytest.approx(dense[users] @ cosine, rel=1e-5, abs=1e-5)


def test_weights_multiply_the_similarities_to_own_items(people: Histories) -> None:
    model = DPLCF.fit(people, epsilon=None, neighbours=20)
    ones = replace(model, weights=np.ones(people.n_interactions))
    users = np.arange(30)
    assert np.array_equal(ones.score(users), model.score(users))
    weights = np.random.default_rng(2).uniform(0.03, 1, people.n_interactions)
    weighted = replace(model, weights=weights).score(users)
    for user in users:
        own = slice(*people.indptr[user : user + 2])
        expected = model.similarity[:, people.indices[own]].astype(float) @ weights[own]
        assert weighted[user] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert not np.allclose(weighted, model.score(users), rtol=0.01)


def test_estimates_have_no_bias(people: Histories) -> None:
    # Means over 400 randomisations. Every count is within 7 of its deviations: all false alarms
    # together are below 1e-7. The deviation of a pair's count is at most that of independent flips
    # of two bits, `sqrt(N) / 2 / (1 - 2q)^2`, for any histories.
    few = people.take(np.arange(300))
    few = Histories.from_arrays(few.indptr, few.indices % 90, 90)
    dense = few.to_csr().toarray().astype(np.float64)
    true, n, threshold, runs = dense.T @ dense, few.n_users, coin.compute_flip_threshold(1.0), 400
    debias = Debias(n, threshold / coin.WORD_RANGE)
    pairs, singles = np.zeros((90, 90)), np.zeros(90)
    for seed in range(runs):
        columns = pack_columns(few)
        randomize_columns(columns, n, threshold, seed)
        counts = np.empty((90, 90), np.int32)
        count_common_bits(columns, counts)
        single = np.diag(counts)
        singles += debias.estimate_singles(single) / runs
        pairs += debias.estimate_pairs(counts, single, single) / runs
    q = debias.flip
    single_deviation = sqrt(n * q * (1 - q) / runs) / (1 - 2 * q)
    assert np.abs(singles - np.diag(true)).max() < 7 * single_deviation
    is_pair = ~np.eye(90, dtype=bool)
    pair_deviation = sqrt(n / runs) / 2 / (1 - 2 * q) ** 2
    assert np.abs(pairs - true)[is_pair].max() < 7 * pair_deviation
    assert true[is_pair].max() > 14 * pair_deviation


def test_a_pair_that_nobody_touched_has_the_stated_deviation() -> None:
    # Over 190 pairs and 30 seeds, 10% is more than 7 deviations of the sample deviation.
    n, threshold = 2_000, coin.compute_flip_threshold(0.5)
    debias, estimates = Debias(n, threshold / coin.WORD_RANGE), []
    for seed in range(30):
        columns = np.zeros((20, 32), np.uint64)
        randomize_columns(columns, n, threshold, seed)
        counts = np.empty((20, 20), np.int32)
        count_common_bits(columns, counts)
        pairs = debias.estimate_pairs(counts, np.diag(counts), np.diag(counts))
        estimates.append(pairs[np.triu_indices(20, 1)])
    assert np.std(estimates) == pytest.approx(debias.pair_deviation, rel=0.1)


@pytest.mark.parametrize("epsilon", [None, 3.0])
def test_own_block_comes_first(epsilon: float | None) -> None:
    # 8,000 people in each group; each item is missing in the histories of 1,000 of them.
    train = two_blocks(16_000)
    assert ranks_own_block_first(DPLCF.fit(train, epsilon=epsilon, neighbours=7), train)


def test_a_negative_count_gives_no_huge_similarity() -> None:
    columns = np.zeros((2, 2), np.uint64)
    columns[1, 0] = 1
    similarity = compute_similarities(columns, Debias(128, 0.4), neighbours=2)
    assert np.isfinite(similarity).all()
    assert 0 <= similarity.max() <= 1


@pytest.mark.parametrize("wrong", [{"neighbours": 0}, {"epsilon": 0.0}, {"threads": 0}])
def test_wrong_options_are_refused(people: Histories, wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        DPLCF.fit(people, **({"epsilon": 1.0, "neighbours": 5} | wrong))  # type: ignore[arg-type]
