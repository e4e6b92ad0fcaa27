"""Recommending: offline, without the own items, and with a reason that adds up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.client.recommending import contributions, recommendations, score_items
from sottovoce.client.store import ClientStore
from sottovoce.errors import SettingsError, StoreError
from sottovoce.model import Histories, rotate_factors, user_vectors
from sottovoce.protocol import Edition, encode_items
from tests.client.world import FACTORS, ITEMS, FakeProxy, World, item

if TYPE_CHECKING:
    from sottovoce.client import Client

WORLD = World()
EDITION = Edition(WORLD.signed(1), WORLD.items(1), WORLD.catalogue)
ROWS = st.lists(st.integers(0, ITEMS - 1), unique=True, max_size=ITEMS).map(sorted)


def test_the_best_items_that_are_not_ones_own(client: Client, proxy: FakeProxy) -> None:
    client.sync(proxy)
    calls = len(proxy.calls)
    found = client.recommend(ITEMS)
    assert len(proxy.calls) == calls
    assert len(found) == ITEMS - 3
    own = {item(3), item(7), item(20)}
    assert not own & {each.id for each in found}
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert found[0].title == "Title " + found[0].id[-4:].lstrip("0")
    assert {each.because.id for each in found if each.because} <= own
    assert client.recommend(4) == found[:4]


def test_a_model_must_be_there(client: Client) -> None:
    with pytest.raises(StoreError, match="sync first"):
        client.recommend()


def test_at_least_one_is_asked_for(client: Client, proxy: FakeProxy) -> None:
    client.sync(proxy)
    with pytest.raises(SettingsError, match="at least one"):
        client.recommend(0)


def test_who_touched_everything_is_recommended_nothing(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    with world.create(folder) as client:
        client.record([item(n) for n in range(ITEMS)])
        client.sync(proxy)
        assert client.recommend(5) == []


@given(ROWS.filter(bool))
def test_contributions_add_up_to_the_score(rows: list[int]) -> None:
    scores = score_items(EDITION, rows)
    parts = contributions(EDITION, rows, np.arange(ITEMS))
    assert parts.shape == (ITEMS, len(rows))
    np.testing.assert_allclose(parts.sum(axis=1), scores, rtol=1e-5, atol=1e-6)


@given(ROWS.filter(lambda rows: len(rows) > 1), st.integers(0, ITEMS - 1))
def test_a_contribution_is_the_share_of_one_item(rows: list[int], number: int) -> None:
    """By its definition: the same system, with one item on the right-hand side."""
    V, manifest = EDITION.V.astype(np.float64), EDITION.manifest
    own = V[rows]
    A = V.T @ V + manifest.alpha * own.T @ own + manifest.regularization * np.eye(V.shape[1])
    alone = V[number] @ np.linalg.inv(A) @ ((1 + manifest.alpha) * own[0])
    part = contributions(EDITION, rows, np.array([number]))[0, 0]
    assert part == pytest.approx(alone, rel=1e-9, abs=1e-12)


@given(ROWS)
def test_the_reason_is_the_own_item_with_the_largest_share(rows: list[int]) -> None:
    for each in recommendations(EDITION, rows, 3):
        number = EDITION.catalogue.numbers[each.id]
        if not rows:
            assert each.because is None
            continue
        parts = contributions(EDITION, rows, np.array([number]))[0]
        if each.because is None:
            assert parts.max() <= 0
        else:
            assert parts[rows.index(EDITION.catalogue.numbers[each.because.id])] == parts.max() > 0


def test_scores_are_those_of_the_reference() -> None:
    rows = [1, 5, 9]
    x = user_vectors(
        EDITION.V,
        Histories.from_lists([rows], ITEMS),
        alpha=EDITION.manifest.alpha,
        regularization=EDITION.manifest.regularization,
    )
    np.testing.assert_allclose(score_items(EDITION, rows), EDITION.V @ x[0], rtol=1e-5, atol=1e-7)


def test_without_a_history_popular_items_come_first_in_any_basis() -> None:
    """A model of people whose taste is popularity alone, turned at random."""
    popularity = np.linspace(1, 0.1, ITEMS)
    rng = np.random.default_rng(5)
    V = np.column_stack([popularity, 0.01 * rng.standard_normal((ITEMS, 2))]).astype(np.float32)
    for epoch in range(5):
        edition = Edition(EDITION.signed, rotate_factors(V, 1, epoch), EDITION.catalogue)
        found = [each.id for each in recommendations(edition, [], 5)]
        assert found == [item(number) for number in range(5)]


def test_a_model_without_a_solution_recommends_and_explains_nothing(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    V = np.full((ITEMS, FACTORS), 2.0**20, np.float32)
    model = world.add(encode_items(V))
    proxy.publish(world.signed(1, model=model, regularization=1e-12))
    assert client.sync(proxy).outcome == "sent"
    assert [each.because for each in client.recommend(3)] == [None] * 3


def test_a_sync_elsewhere_does_not_take_the_model_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes the next epoch in between the manifest that is read and its files."""
    world = World()
    proxy = FakeProxy(world)
    with world.create(tmp_path) as client, world.open(tmp_path) as other:
        client.sync(proxy)
        read = ClientStore.signed_manifest

        def then_sync(store: ClientStore) -> bytes | None:
            monkeypatch.undo()
            data = read(store)
            proxy.next_epoch()
            assert other.sync(proxy).outcome == "sent"
            return data

        monkeypatch.setattr(ClientStore, "signed_manifest", then_sync)
        assert len(client.recommend(3)) == 3
        assert client.status().epoch == 2
