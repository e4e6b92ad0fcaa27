"""DPLCF: coins, counts, the bias taken out, and the neighbours that are left."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from lab.tests.baselines.blocks import own_block_first, two_blocks
from sottovoce.core import Histories, coin
from sottovoce.data import synthetic_people
from sottovoce.data.streams import stream
from sottovoce.errors import SettingsError
from sottovoce_lab.baselines import DPLCF
from sottovoce_lab.baselines.kernels import TILE, count_common_bits
from sottovoce_lab.baselines.neighbours import (
    Debias,
    bernoulli_words,
    packed_columns,
    randomise,
    similarities,
)


@pytest.fixture(scope="module")
def people() -> Histories:
    return synthetic_people(n_users=700, n_items=90, seed=5).histories


def unpacked(columns: np.ndarray, n_users: int) -> np.ndarray:
    """M x N of 0 and 1."""
    octets = columns.astype("<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :n_users]


@pytest.mark.parametrize("n_users", [1, 63, 64, 65, 513, 700])
def test_columns_hold_the_histories(people: Histories, n_users: int) -> None:
    some = people.take(np.arange(n_users))
    columns = packed_columns(some)
    assert columns.shape == (90, -(-n_users // 64))
    assert np.array_equal(unpacked(columns, n_users).T, some.to_csr().toarray())
    assert int(np.bitwise_count(columns).sum()) == some.n_interactions


@pytest.mark.parametrize(
    "below", [0, 1 << 63, 3 << 61, (1 << 64) - 1, coin.compute_flip_threshold(2.5)]
)
def test_a_bit_is_what_comparing_its_word_would_give(below: int) -> None:
    """The random planes are the binary digits of one word for each lane, highest first."""
    words = stream(1, "test").bit_generator.random_raw((64, 3))
    lanes = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    values = [int("".join(map(str, lanes[:, lane])), 2) for lane in range(192)]
    found = bernoulli_words(stream(1, "test"), 3, below)
    bits = np.unpackbits(found.astype("<u8").view(np.uint8), bitorder="little")
    assert bits.tolist() == [int(value < below) for value in values]


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.5, 6.0])
def test_flips_have_the_coins_frequency(epsilon: float) -> None:
    """Of 2 million; within 5.5 deviations, a false alarm of 4e-8."""
    n_users, below = 20_000, coin.compute_flip_threshold(epsilon)
    columns = np.zeros((100, -(-n_users // 64)), np.uint64)
    randomise(columns, n_users, below, seed=8)
    q, n = below / coin.WORD_RANGE, 100 * n_users
    assert abs(unpacked(columns, n_users).sum(dtype=np.int64) - n * q) < 5.5 * sqrt(n * q * (1 - q))
    assert np.bitwise_count(columns).sum() == unpacked(columns, n_users).sum(dtype=np.int64)


def test_items_and_seeds_have_flips_of_their_own() -> None:
    def flips(seed: int) -> np.ndarray:
        columns = np.zeros((3, 4), np.uint64)
        randomise(columns, 256, coin.compute_flip_threshold(0.5), seed)
        return columns

    assert np.array_equal(flips(1), flips(1))
    assert len(np.unique(np.concatenate([flips(1), flips(2)]), axis=0)) == 6


@pytest.mark.parametrize("items", [1, TILE - 1, TILE, TILE + 1, 2 * TILE, 3 * TILE + 5])
def test_any_number_of_items_is_counted(items: int) -> None:
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


def test_weights_count_each_own_item_by_so_much(people: Histories) -> None:
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


def test_the_bias_is_taken_out(people: Histories) -> None:
    """Means over 400 randomisations, every count within 7 of its deviations: below 1e-7 in all.

    The deviation of a pair's count is at most that of independent flips of two bits,
    `sqrt(N) / 2 / (1 - 2q)^2`, whoever touched what.
    """
    few = people.take(np.arange(300))
    few = Histories.from_arrays(few.indptr, few.indices % 90, 90)
    dense = few.to_csr().toarray().astype(np.float64)
    true, n, below, runs = dense.T @ dense, few.n_users, coin.compute_flip_threshold(1.0), 400
    debias = Debias(n, below / coin.WORD_RANGE)
    pairs, singles = np.zeros((90, 90)), np.zeros(90)
    for seed in range(runs):
        columns = packed_columns(few)
        randomise(columns, n, below, seed)
        counts = np.empty((90, 90), np.int32)
        count_common_bits(columns, counts)
        single = np.diag(counts)
        singles += debias.estimate_singles(single) / runs
        pairs += debias.estimate_pairs(counts, single, single) / runs
    q = debias.flip
    single_deviation = sqrt(n * q * (1 - q) / runs) / (1 - 2 * q)
    assert np.abs(singles - np.diag(true)).max() < 7 * single_deviation
    apart = ~np.eye(90, dtype=bool)
    pair_deviation = sqrt(n / runs) / 2 / (1 - 2 * q) ** 2
    assert np.abs(pairs - true)[apart].max() < 7 * pair_deviation
    assert true[apart].max() > 14 * pair_deviation


def test_a_pair_that_nobody_touched_has_the_stated_deviation() -> None:
    """Over 190 pairs x 30 seeds the sample deviation lies within 10%: over 7 of its own."""
    n, below = 2_000, coin.compute_flip_threshold(0.5)
    debias, found = Debias(n, below / coin.WORD_RANGE), []
    for seed in range(30):
        columns = np.zeros((20, 32), np.uint64)
        randomise(columns, n, below, seed)
        counts = np.empty((20, 20), np.int32)
        count_common_bits(columns, counts)
        pairs = debias.estimate_pairs(counts, np.diag(counts), np.diag(counts))
        found.append(pairs[np.triu_indices(20, 1)])
    assert np.std(found) == pytest.approx(debias.pair_deviation, rel=0.1)


@pytest.mark.parametrize("epsilon", [None, 3.0])
def test_own_block_comes_first(epsilon: float | None) -> None:
    """With 8,000 people of each taste, 1,000 of whom miss any one item."""
    train = two_blocks(16_000)
    assert own_block_first(DPLCF.fit(train, epsilon=epsilon, neighbours=7), train)


def test_an_item_that_noise_made_negative_is_nobodys_best_neighbour() -> None:
    columns = np.zeros((2, 2), np.uint64)
    columns[1, 0] = 1
    similarity = similarities(columns, Debias(128, 0.4), neighbours=2)
    assert np.isfinite(similarity).all()
    assert 0 <= similarity.max() <= 1


@pytest.mark.parametrize("wrong", [{"neighbours": 0}, {"epsilon": 0.0}, {"threads": 0}])
def test_what_cannot_work_is_refused(people: Histories, wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        DPLCF.fit(people, **({"epsilon": 1.0, "neighbours": 5} | wrong))  # type: ignore[arg-type]
