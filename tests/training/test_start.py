"""Public starts: what is learnt from a table, and what reports make of it."""

from typing import Any

import numpy as np
import pytest

from sottovoce.core import Histories, solve_user_vectors
from sottovoce.errors import DataError
from sottovoce.training import (
    Budget,
    Settings,
    compute_next_items,
    make_items_from_start,
    plan_training,
)
from sottovoce.training.items import compute_share_of_epoch
from sottovoce.training.start import VECTORS_PER_BLOCK, learn_start, transpose

N_ITEMS = 30


def make_table(people: int = 60) -> Histories:
    """Make a table of two groups of people with ten items each; the last ten have no row."""
    rng = np.random.default_rng(0)
    groups = (rng.choice(10, 5, replace=False) + 10 * (person % 2) for person in range(people))
    return Histories.from_lists([sorted(group.tolist()) for group in groups], N_ITEMS)


def test_a_start_tells_the_groups_apart_and_has_no_row_for_other_items() -> None:
    V = learn_start(make_table())
    assert not V[20:].any()
    one = Histories.from_lists([[0, 1]], N_ITEMS)
    scores = V @ solve_user_vectors(V, one, alpha=1.0, regularization=0.1)[0]
    assert scores[:10].min() > scores[10:20].max()


def test_blocks_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(make_table().indptr) < VECTORS_PER_BLOCK
    expected = learn_start(make_table(), factors=3)
    monkeypatch.setattr("sottovoce.training.start.VECTORS_PER_BLOCK", 7)
    assert np.array_equal(learn_start(make_table(), factors=3), expected)


def test_a_transposed_table_lists_the_people_of_each_item() -> None:
    table = make_table()
    people = transpose(table)
    assert np.array_equal(people.to_csr().toarray(), table.to_csr().toarray().T)
    assert np.array_equal(transpose(people).indices, table.indices)


def test_a_table_without_an_item_of_the_catalogue_is_refused() -> None:
    with pytest.raises(DataError, match="at least one interaction"):
        learn_start(Histories.from_lists([[], []], 3))


def test_additional_factors_begin_as_noise_and_only_for_items_of_the_start() -> None:
    start = learn_start(make_table(), factors=8)
    settings = Settings.preset("loudest", factors=12, rotate=False)
    V = make_items_from_start(settings, start)
    own_columns = make_items_from_start(settings.copy_with(factors=8), start)
    assert np.array_equal(V[:, :8], own_columns)
    assert 0 < np.abs(V[:20, 8:]).max() < 1e-3 * np.abs(own_columns).max()
    assert not V[20:].any()


@pytest.mark.parametrize(("start_factors", "budget"), [(8, 10), (16, 10), (16, 500), (32, 500)])
def test_a_plan_has_room_for_all_factors_of_its_start(start_factors: int, budget: float) -> None:
    options: dict[str, Any] = {"budget": Budget(budget), "mechanism": "loudest"}
    planned = plan_training(75_000, 9_800, history=200, **options).factors
    plan = plan_training(75_000, 9_800, history=200, start_factors=start_factors, **options)
    assert plan.factors == (max(planned, start_factors) if planned > 16 else start_factors)


def test_a_start_is_as_long_as_what_a_training_without_an_end_remembers() -> None:
    start = learn_start(make_table(), factors=8)
    # The number of epochs in the terms says nothing about the memory.
    lengths = [
        np.linalg.norm(make_items_from_start(Settings(factors=8, epochs=n, half_life=14), start))
        for n in (1, 100)
    ]
    assert lengths[0] == pytest.approx(lengths[1])
    # After more epochs than it remembers, the share of an epoch stays the same.
    built = Settings(factors=8).build(N_ITEMS)
    sums = np.zeros(built.n_sums, np.int64)
    sums[:5] = 1_000
    shares = [
        compute_share_of_epoch(
            built.estimate(sums, 5_000), 5_000, done, Settings(factors=8, epochs=1, half_life=14),
            built,
        )
        for done in (1, 10, 1_000, 2_000)
    ]  # fmt: skip
    assert shares[0] > shares[1] > shares[2] == shares[3]


def test_noise_does_not_move_a_start() -> None:
    settings = Settings.preset("loudest", factors=8, epochs=20, reports=1, rotate=False)
    V = make_items_from_start(settings, learn_start(make_table(), factors=8))
    rng, built = np.random.default_rng(1), settings.build(N_ITEMS)
    for n_reports in (10, 1_000, 1_000_000):
        # Half of the reports of each direction have each sign, up to chance.
        sums = rng.binomial(n_reports, 1 / built.n_sums, built.n_sums)
        sums = 2 * rng.binomial(sums, 0.5) - sums
        after = compute_next_items(V, sums, n_reports, 1, settings, built, has_start=True)
        assert np.linalg.norm(after - V) < 0.2 * np.linalg.norm(V)


def test_every_epoch_counts_alike_beside_a_start() -> None:
    settings = Settings(factors=8, epochs=20, reports=1, rotate=False, regularization=1e-12)
    built = settings.build(N_ITEMS)
    start = make_items_from_start(settings, learn_start(make_table(), factors=8))
    sums = np.zeros(built.n_sums, np.int64)
    sums[:5] = 1_000
    # What reports alone would make in all epochs.
    reached = -settings.rate * settings.epochs * built.estimate(sums, 5_000)
    V, shares = start, []
    for epoch in range(1, 6):
        V = compute_next_items(V, sums, 5_000, epoch, settings, built, has_start=True)
        moved, whole = (V - start).ravel().astype(float), (reached - start).ravel()
        shares.append(float(moved @ whole / (whole @ whole)))
        # Each epoch rounds every entry to eight bits.
        atol = epoch * 2**-8 * max(np.abs(V).max(), np.abs(start).max())
        np.testing.assert_allclose(moved, shares[-1] * whole, atol=atol)
    # The odds of the reports against the start grow by the same amount in each epoch.
    odds = [share / (1 - share) for share in shares]
    np.testing.assert_allclose(np.diff(odds), odds[0], rtol=0.01)


def test_names_leave_a_start_as_it_is() -> None:
    start = learn_start(make_table(), factors=8)
    V = make_items_from_start(Settings.preset("named", factors=9), start)
    assert V.shape == (N_ITEMS, 9)
    assert V[:, 0].sum() == pytest.approx(1, rel=2**-8)
    assert not V[20:].any()
    ratio = V[:20, 1:] / start[:20]
    np.testing.assert_allclose(ratio, np.median(ratio), rtol=2**-7)
