"""Servers and proxies that lie: nothing is sent, nothing spent, nothing stored.

Every way to tamper with what is published is tried in `tests/protocol/test_published.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.client import Client, Terms
from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol import SignedManifest, encode_items
from tests.client.world import DAY, FakeProxy, World, charges


def other_model(world: World) -> SignedManifest:
    signed = world.signed(3)
    world.files[signed.manifest.model] = encode_items(world.items(2))
    return signed


LIES: dict[str, Callable[[World], SignedManifest]] = {
    "not signed with the pinned": lambda world: World().signed(2),
    "epochs never go back": lambda world: world.signed(1),
    "two different manifests of epoch 2": lambda world: world.signed(2, previous_reports=1),
    "model file is not the one": other_model,
    "an epoch would take 5 reports, not 4": lambda world: world.signed(3, reports=5),
    "from epsilon 2.5 to 2.500001": lambda world: world.signed(3, epsilon=2.500001),
    "at least 99 people, not 100": lambda world: world.signed(3, least_clients=99),
    "made by hadamard, not by loudest": lambda world: world.signed(3, mechanism="hadamard", loud=0),
}
UNTRUE = [*LIES][:3]
"""By the manifest alone."""


@pytest.fixture
def told(client: Client, proxy: FakeProxy, world: World) -> Client:
    """A client that has seen epoch 2 and could report in epoch 3."""
    proxy.publish(world.signed(2))
    assert client.sync(proxy).outcome == "not open"
    world.now = 3.5 * DAY
    return client


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_and_changes_nothing(
    told: Client, proxy: FakeProxy, world: World, folder: Path, lie: str
) -> None:
    before, recommended = told.status(), told.recommend(5)
    rows = told._store._db.rows("SELECT * FROM files, manifest, about, terms")
    proxy.publish(LIES[lie](world))
    for _ in range(2):
        with pytest.raises(ProtocolError, match=lie):
            told.sync(proxy)
    assert proxy.received == []
    assert charges(folder) == []
    assert told.status() == before
    assert told.recommend(5) == recommended
    assert told._store._db.rows("SELECT * FROM files, manifest, about, terms") == rows
    world.files.clear()
    proxy.publish(world.signed(3))
    world.files[world.catalogue.hash] = world.catalogue.raw
    assert told.sync(proxy).outcome == "sent"


def test_an_older_epoch_is_refused_also_after_forgetting(
    told: Client, proxy: FakeProxy, world: World
) -> None:
    told.forget()
    for lie in UNTRUE:
        proxy.publish(LIES[lie](world))
        with pytest.raises(UntrustedError, match=lie):
            told.sync(proxy)
    proxy.publish(world.signed(2))
    assert told.sync(proxy).outcome == "not open"


def test_new_terms_hold_once_they_are_accepted(
    told: Client, proxy: FakeProxy, world: World
) -> None:
    proxy.publish(world.signed(3, epsilon=5.0, reports=2, least_clients=50))
    with pytest.raises(UntrustedError, match="changed its terms"):
        told.sync(proxy)
    assert told.sync(proxy, accept_new_terms=True).spent == 10.0
    assert told.status().terms == Terms("loudest", 5.0, 2, 50)
    world.now += DAY
    proxy.publish(world.signed(4, epsilon=5.0, reports=3, least_clients=50))
    with pytest.raises(UntrustedError, match="3 reports, not 2"):
        told.sync(proxy)


def test_better_terms_are_taken_and_do_not_become_the_bound(
    told: Client, proxy: FakeProxy, world: World
) -> None:
    proxy.publish(world.signed(3, epsilon=1.0, reports=1, least_clients=1000))
    assert told.sync(proxy, accept_new_terms=True).spent == 1.0
    assert told.status().terms == Terms("loudest", 2.5, 4, 100)
    proxy.next_epoch()
    assert told.sync(proxy).outcome == "sent"


def test_accepting_new_terms_does_not_help_a_liar(
    told: Client, proxy: FakeProxy, world: World
) -> None:
    for lie in UNTRUE:
        proxy.publish(LIES[lie](world))
        with pytest.raises(UntrustedError, match=lie):
            told.sync(proxy, accept_new_terms=True)


def test_terms_of_the_owner_bind_from_the_first_manifest_on(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    with world.create(folder, terms=Terms("loudest", 2.5, 3, 100)) as client:
        with pytest.raises(UntrustedError, match="4 reports, not 3"):
            client.sync(proxy)
        assert client.status().epoch is None
    assert proxy.received == []
    with world.create(folder.with_name("content"), terms=Terms("loudest", 2.5, 4, 100)) as client:
        assert client.sync(proxy).outcome == "sent"


def test_all_that_changed_is_said_at_once() -> None:
    worse = Terms("loudest", 1.0, 1, 10).broken_by(Terms("coordinate", 2.0, 2, 9))
    assert len(worse) == 4


@pytest.mark.parametrize("key", [bytes(32), bytes([1]) + bytes(31)])
def test_nothing_is_sealed_to_a_key_that_everybody_can_open(
    told: Client, proxy: FakeProxy, world: World, folder: Path, key: bytes
) -> None:
    """A point of small order: the secret would be zero, whatever the sender draws."""
    proxy.publish(world.signed(3, public_key=key))
    for _ in range(2):
        with pytest.raises(ProtocolError, match="key"):
            told.sync(proxy)
    assert proxy.received == []
    assert charges(folder) == []
    assert told.status().batches == {}
    assert told.recommend(3)
