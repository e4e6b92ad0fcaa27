"""Recommending: offline, without the own items, and with a reason that adds up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.client.recommending import Personal, recommendations
from sottovoce.client.store import ClientStore
from sottovoce.core import Histories, rotate_factors, user_vectors
from sottovoce.core.recommending import Tag, recency
from sottovoce.errors import SettingsError, StoreError
from sottovoce.protocol import Catalogue, Edition, Item, encode_items
from tests.client.world import FACTORS, ITEMS, FakeProxy, World, item

if TYPE_CHECKING:
    from sottovoce.client import Client

WORLD = World()
EDITION = Edition(WORLD.signed(1), WORLD.items(1), WORLD.catalogue)


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
    reasons = [reason.what for each in found for reason in each.because]
    assert {what.id for what in reasons if isinstance(what, Item)} <= own
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


TOUCHED = st.dictionaries(st.integers(0, ITEMS - 1).map(item), st.integers(1, 9), max_size=ITEMS)
TAGGED = Edition(
    EDITION.signed,
    EDITION.V,
    Catalogue.of(
        Item(
            item(number),
            f"Title {number}",
            {"genre": ("odd" if number % 2 else "even",), "year": 1950 + number % 30},
        )
        for number in range(ITEMS)
    ),
)


@given(TOUCHED.filter(bool), st.integers(0, ITEMS - 1))
def test_what_items_and_tags_say_adds_up_to_the_score(touched: dict[str, int], row: int) -> None:
    personal = Personal.of(TAGGED, touched)
    own, tags = personal.parts(row)
    assert (len(own), len(tags)) == (len(touched), len(TAGGED.catalogue.tags.names))
    assert own.sum() + tags.sum() == pytest.approx(personal.scores()[row], rel=1e-9, abs=1e-12)


@given(TOUCHED.filter(lambda touched: len(touched) > 1), st.integers(0, ITEMS - 1))
def test_a_part_is_the_share_of_one_item(touched: dict[str, int], row: int) -> None:
    """By its definition: the same system, with one item on the right-hand side."""
    personal = Personal.of(TAGGED, touched)
    W = personal.model.rows(np.arange(ITEMS))
    alpha, weights = personal.model.alpha, recency(np.array([touched[i] for i in sorted(touched)]))
    ridges = personal.model.ridges(len(touched))
    A = W.T @ W + np.diag(np.repeat(ridges, [FACTORS, W.shape[1] - FACTORS]))
    for own, weight in zip(personal.rows, weights, strict=True):
        A += alpha * weight * np.outer(W[own], W[own])
    alone = np.linalg.inv(A) @ ((1 + alpha) * weights[0] * W[personal.rows[0]])
    known = W[row, :FACTORS] @ alone[:FACTORS]
    assert personal.parts(row)[0][0] == pytest.approx(known, rel=1e-9, abs=1e-12)


@given(TOUCHED)
def test_reasons_are_the_largest_parts_of_the_score(touched: dict[str, int]) -> None:
    personal = Personal.of(TAGGED, touched)
    names = TAGGED.catalogue.tags.names
    counts = TAGGED.catalogue.tags.table[personal.rows].sum(axis=0)
    theirs = {tag for tag, has in zip(names, counts, strict=True) if has}
    for each in recommendations(TAGGED, touched, 3):
        own, tags = personal.parts(TAGGED.catalogue.numbers[each.id])
        parts: dict[Any, float] = {
            **{TAGGED.catalogue.items[r].id: p for r, p in zip(personal.rows, own, strict=True)},
            **{tag: p for tag, p in zip(names, tags, strict=True) if tag in theirs},
        }
        positive = sorted((part for part in parts.values() if part > 0), reverse=True)
        said = [
            parts[reason.what.id if isinstance(reason.what, Item) else reason.what]
            for reason in each.because
        ]
        assert said == positive[:3]
        assert [reason.share for reason in each.because] == pytest.approx(
            [part / sum(positive) for part in said]
        )


def test_without_tags_and_at_one_moment_scores_are_those_of_the_reference() -> None:
    rows = [1, 5, 9]
    x = user_vectors(
        EDITION.V,
        Histories.from_lists([rows], ITEMS),
        alpha=EDITION.manifest.alpha,
        regularization=EDITION.manifest.regularization,
    )
    plain = Catalogue.of(Item(item(number), "A film") for number in range(ITEMS))
    personal = Personal.of(
        Edition(EDITION.signed, EDITION.V, plain), {item(row): 4 for row in rows}
    )
    np.testing.assert_allclose(personal.scores(), EDITION.V @ x[0], rtol=1e-5, atol=1e-7)


def test_what_came_last_counts_most() -> None:
    """The own items point two ways, and the list turns to where the last ones do."""
    V = np.zeros((ITEMS, FACTORS), np.float32)
    V[::2, 0] = V[1::2, 1] = 1
    edition = Edition(EDITION.signed, V, EDITION.catalogue)
    even_last = {item(row): row % 2 == 0 for row in range(20)}
    odd_last = {name: not last for name, last in even_last.items()}
    for touched, wanted in ((even_last, 0), (odd_last, 1)):
        moments = {name: int(last) for name, last in touched.items()}
        best = recommendations(edition, moments, 3)
        assert {edition.catalogue.numbers[each.id] % 2 for each in best} == {wanted}


def test_a_list_is_made_from_the_latest_thousand() -> None:
    """So that a long history takes no longer; what came before is still not recommended."""
    many = 1_300
    rng = np.random.default_rng(8)
    edition = Edition(
        EDITION.signed,
        rng.standard_normal((many, FACTORS)).astype(np.float32),
        Catalogue.of(Item(str(number), "A film") for number in range(many)),
    )
    touched = {str(number): number // 2 for number in range(1, many - 2)}
    latest = {str(number): number // 2 for number in range(many - 1_002, many - 2)}
    long, short = Personal.of(edition, touched), Personal.of(edition, latest)
    assert long.rows == short.rows
    assert np.array_equal(long.scores(), short.scores())
    assert {each.id for each in recommendations(edition, touched, many)} == {
        *("0", str(many - 2), str(many - 1))
    }


def test_before_the_first_reports_tags_alone_speak() -> None:
    """The server's first V is noise: nothing is explained by it."""
    signed = WORLD.signed(1, reports_behind=0)
    young = Edition(signed, WORLD.items(1), TAGGED.catalogue)
    found = recommendations(young, {item(number): 1 for number in range(1, 40, 4)}, 5)
    assert all(TAGGED.catalogue.numbers[each.id] % 2 for each in found)
    said = [reason.what for each in found for reason in each.because]
    assert said
    assert not any(isinstance(what, Item) for what in said)
    assert [each.score for each in recommendations(young, {}, 3)] == [1.0] * 3


def test_a_new_item_is_recommended_by_its_tags() -> None:
    """Nobody has reported it: its row is zero. It comes among those that share its tags."""
    V = np.full((ITEMS, FACTORS), 0.1, np.float32)
    V[6] = 0
    edition = Edition(EDITION.signed, V, TAGGED.catalogue)
    for odd in (0, 1):
        touched = {item(number): 1 for number in range(10 + odd, ITEMS, 4)}
        found = {each.id: each for each in recommendations(edition, touched, ITEMS)}
        liked = ITEMS // 2 - len(touched)  # of the tag that was touched; they come first
        assert ([*found].index(item(6)) < liked) is (odd == 0)
        reasons = [reason.what for reason in found[item(6)].because]
        assert not any(isinstance(what, Item) for what in reasons)
        assert (Tag("genre", "even") in reasons) is (odd == 0)


def test_without_a_history_popular_items_come_first_in_any_basis() -> None:
    """A model of people whose taste is popularity alone, turned at random."""
    popularity = np.linspace(1, 0.1, ITEMS)
    rng = np.random.default_rng(5)
    V = np.column_stack([popularity, 0.01 * rng.standard_normal((ITEMS, 2))]).astype(np.float32)
    for epoch in range(5):
        edition = Edition(EDITION.signed, rotate_factors(V, 1, epoch), EDITION.catalogue)
        found = [each.id for each in recommendations(edition, {}, 5)]
        assert found == [item(number) for number in range(5)]


def test_a_model_without_a_solution_recommends_and_explains_nothing(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    V = np.full((ITEMS, FACTORS), 2.0**20, np.float32)
    model = world.add(encode_items(V))
    proxy.publish(world.signed(1, model=model, regularization=1e-12))
    assert client.sync(proxy).outcome == "sent"
    assert [each.because for each in client.recommend(3)] == [()] * 3


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


def test_a_model_is_read_once_and_never_after_another_process_changed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    proxy, decode = FakeProxy(world), Catalogue.decode
    decoded: list[bytes] = []

    def counted(raw: bytes) -> Catalogue:
        decoded.append(raw)
        return decode(raw)

    monkeypatch.setattr(Catalogue, "decode", counted)
    with world.create(tmp_path) as client, world.open(tmp_path) as other:
        client.sync(proxy)
        first = client.recommend(3)
        decoded.clear()
        assert client.recommend(3) == first
        assert decoded == []
        proxy.next_epoch()
        other.sync(proxy)
        decoded.clear()
        assert client.recommend(3) != first
        assert len(decoded) == 1
        other.forget()
        with pytest.raises(StoreError, match="sync first"):
            client.recommend(3)
