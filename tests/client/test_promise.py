"""The promise after other trainings: for everything spent so far and all that may follow."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.client import Outlook
from sottovoce.errors import LedgerError
from sottovoce.protocol import KeyStatement, SignedManifest
from tests.client.world import COST, DAY, FakeProxy, World, charges

if TYPE_CHECKING:
    from sottovoce.client import Client

EPOCHS = 2


class Lived:
    """A device that takes part in one training after the other, two epochs each."""

    def __init__(self, world: World, client: Client):
        self.world, self.client, self.epoch = world, client, 0
        self.proxy = FakeProxy(world)

    def training(self, number: int) -> None:
        """Another one is asked for, from the next epoch on."""
        self.asked = {"training": bytes([number]) * 16, "epochs": EPOCHS}
        self._publish()

    def accept(self) -> None:
        self.client.accept(self.client.asked(self.proxy))

    def report(self) -> str:
        self._publish()
        self.epoch += 1
        return self.client.sync(self.proxy).outcome

    def _publish(self) -> None:
        """The next epoch."""
        self.world.now = (self.epoch + 1.5) * DAY
        self.proxy.publish(self.world.signed(self.epoch + 1, **self.asked))


@pytest.fixture
def lived(world: World, client: Client) -> Lived:
    return Lived(world, client)


def test_it_holds_after_one_training_two_and_three(lived: Lived) -> None:
    client = lived.client
    client.set_limit(3 * COST)
    centrals = []
    for number, within in [(1, 2), (2, 1), (3, 0)]:
        lived.training(number)
        terms = client.asked(lived.proxy)
        found = client.outlook(terms)
        assert found.promise.local == number * EPOCHS * COST
        assert (found.turns_left, found.within_limit) == (EPOCHS, within)
        centrals.append(found.promise.central)
        client.set_limit(100 * COST)
        lived.accept()
        for left in (1, 0):
            assert lived.report() == "sent"
            now = client.outlook(terms)
            assert now.promise == found.promise
            assert (now.turns_left, now.within_limit) == (left, left)
        spent = client.status().spent
        assert spent == found.promise.local
        client.set_limit(3 * COST)
    assert centrals == sorted(set(centrals))


def test_another_limit_changes_what_it_allows_and_not_the_promise(lived: Lived) -> None:
    lived.client.set_limit(3 * COST)
    lived.training(1)
    lived.accept()
    assert [lived.report(), lived.report()] == ["sent", "sent"]
    lived.training(2)
    terms = lived.client.asked(lived.proxy)
    found = lived.client.outlook(terms)
    assert (found.promise.local, found.within_limit) == (4 * COST, 1)
    lived.client.set_limit(4 * COST)
    assert lived.client.outlook(terms) == Outlook(found.promise, 2, 2, 4 * COST)
    lived.client.set_limit(COST)
    assert lived.client.outlook(terms).within_limit == 0


def test_what_a_limit_allows_is_counted_exactly(world: World, folder: Path) -> None:
    """Ten times 0.1 are more than 1."""
    tenth = world.terms(epsilon=0.1, reports=1, epochs=20)
    with world.create(folder, limit=1.0) as client:
        assert client.outlook(tenth).within_limit == 9
        client.set_limit(1.0000000000000002)
        assert client.outlook(tenth).within_limit == 10


def test_a_charge_keeps_the_share_and_the_crowd_of_its_epoch(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    terms = world.terms()
    client.sync(proxy)
    world.now += DAY
    proxy.publish(world.signed(2, least_clients=500))
    client.sync(proxy)
    assert [charge.clients for charge in charges(folder)] == [terms.least_clients, 500]
    assert {charge.loud_fraction for charge in charges(folder)} == {terms.loud_fraction}


def test_it_survives_another_key_and_forgetting(lived: Lived) -> None:
    lived.training(1)
    lived.accept()
    assert lived.report() == "sent"
    terms = lived.client.asked(lived.proxy)
    found = lived.client.outlook(terms)
    old, new = lived.world.signing_key, Ed25519PrivateKey.generate()
    statement = KeyStatement.make(old, new.public_key().public_bytes_raw())
    lived.world.now += DAY
    manifest = lived.world.manifest(lived.epoch + 1, **lived.asked)
    lived.proxy.publish(SignedManifest.make(manifest, new, (statement,)))
    assert lived.client.asked(lived.proxy) == terms
    assert lived.client.sync(lived.proxy).outcome == "sent"
    lived.client.forget()
    now = lived.client.outlook(terms)
    assert now.promise == found.promise
    assert Fraction(now.promise.local) == EPOCHS * COST
    assert now.turns_left == 0


def test_a_damaged_ledger_promises_nothing(client: Client, proxy: FakeProxy, world: World) -> None:
    client.sync(proxy)
    client._store._db.rows("UPDATE ledger SET clients = 1000000 WHERE record = 2")
    with pytest.raises(LedgerError):
        client.outlook(world.terms())
