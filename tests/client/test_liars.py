"""Servers and proxies that lie: nothing is sent, nothing spent, nothing stored.

Every way to tamper with what is published is tried in `tests/protocol/test_published.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.client import Client, Terms
from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol import SignedManifest, encode_items
from tests.client.world import DAY, FakeProxy, World, charges

Lie = Callable[[FakeProxy, World], None]


def other_key(proxy: FakeProxy, world: World) -> None:
    proxy.publish(SignedManifest.make(world.manifest(2), Ed25519PrivateKey.generate()))


def older_epoch(proxy: FakeProxy, world: World) -> None:
    proxy.publish(world.signed(1))


def equivocation(proxy: FakeProxy, world: World) -> None:
    proxy.publish(world.signed(2, previous_reports=1))


def other_model(proxy: FakeProxy, world: World) -> None:
    proxy.publish(world.signed(3))
    world.files[proxy.signed.manifest.model] = encode_items(world.items(2))


def more_reports(proxy: FakeProxy, world: World) -> None:
    proxy.publish(world.signed(3, reports=5))


def raised_epsilon(proxy: FakeProxy, world: World) -> None:
    proxy.publish(world.signed(3, epsilon=2.500001))


def smaller_crowd(proxy: FakeProxy, world: World) -> None:
    proxy.publish(world.signed(3, least_clients=99))


def other_mechanism(proxy: FakeProxy, world: World) -> None:
    proxy.publish(world.signed(3, mechanism="hadamard", loud=0))


LIES: dict[Lie, str] = {
    other_key: "not signed with the pinned",
    older_epoch: "epochs never go back",
    equivocation: "two different manifests of epoch 2",
    other_model: "model file is not the one",
    more_reports: "an epoch would take 5 reports, not 4",
    raised_epsilon: "from epsilon 2.5 to 2.500001",
    smaller_crowd: "at least 99 people, not 100",
    other_mechanism: "made by hadamard, not by loudest",
}


@pytest.fixture
def told(client: Client, proxy: FakeProxy, world: World) -> Client:
    """A client that has seen epoch 2 and could report in epoch 3."""
    proxy.publish(world.signed(2))
    assert client.sync(proxy).outcome == "not open"
    world.now = 3.5 * DAY
    return client


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_is_refused_and_changes_nothing(
    told: Client, proxy: FakeProxy, world: World, folder: Path, lie: Lie
) -> None:
    before, recommended = told.status(), told.recommend(5)
    rows = told._store._db.rows("SELECT * FROM files, manifest, about, terms")
    lie(proxy, world)
    for _ in range(2):
        with pytest.raises(ProtocolError, match=LIES[lie]):
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
    for lie in (older_epoch, equivocation):
        lie(proxy, world)
        with pytest.raises(UntrustedError):
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
    world.now += DAY
    proxy.publish(world.signed(4))
    assert told.sync(proxy).outcome == "sent"


def test_accepting_new_terms_does_not_help_a_liar(
    told: Client, proxy: FakeProxy, world: World
) -> None:
    for lie in (other_key, older_epoch, equivocation):
        lie(proxy, world)
        with pytest.raises(UntrustedError):
            told.sync(proxy, accept_new_terms=True)


def test_terms_of_the_owner_bind_from_the_first_manifest_on(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    with world.create(folder, terms=Terms("loudest", 2.5, 3, 100)) as client:
        with pytest.raises(UntrustedError, match="4 reports, not 3"):
            client.sync(proxy)
        assert client.status().epoch is None
    assert proxy.received == []


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
