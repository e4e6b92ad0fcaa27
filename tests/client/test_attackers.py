"""Attackers who run the server or the proxy: nothing is sent, nothing spent, nothing stored.

Every way to tamper with what is published is tried in `tests/protocol/test_published.py`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.client import Client, TermsError
from sottovoce.errors import ProtocolError, SettingsError, UntrustedError
from sottovoce.protocol import KeyStatement, SignedManifest, encode_items
from tests.client.world import (
    COST,
    DAY,
    ITEMS,
    FakeProxy,
    World,
    ask_for_names,
    charges,
    pause_once_made,
)


def other_model(world: World) -> SignedManifest:
    signed = world.signed(3)
    world.files[signed.manifest.model] = encode_items(world.items(2))
    return signed


OWN = World().terms().parameters

LIES: dict[str, Callable[[World], SignedManifest]] = {
    "key": lambda world: World().signed(2),
    "older": lambda world: world.signed(1),
    "second": lambda world: world.signed(2, reports_behind=1),
    "model": other_model,
    "reports": lambda world: world.signed(3, reports=5),
    "epsilon": lambda world: world.signed(3, epsilon=2.500001),
    "less": lambda world: world.signed(3, epsilon=2.499999),
    "fewer reports": lambda world: world.signed(3, reports=3),
    "fewer": lambda world: world.signed(3, min_clients=99),
    "far more": lambda world: world.signed(3, min_clients=1_001),
    "loud": lambda world: world.signed(3, loud_fraction=0.5),
    "epochs": lambda world: world.signed(3, epochs=21),
    "training": lambda world: world.signed(3, training=bytes(16)),
    "mechanism": lambda world: world.signed(
        3, mechanism="coordinate", parameters={}, loud_fraction=0.5
    ),
    "block": lambda world: world.signed(3, parameters={**OWN, "block": 32}),
}

# Lies that the manifest shows without a comparison of terms.
UNTRUE_MANIFESTS = [*LIES][:3]


@pytest.fixture
def informed(client: Client, proxy: FakeProxy, world: World) -> Client:
    """Return a client that has seen epoch 2 and could report in epoch 3."""
    proxy.publish(world.signed(2))
    assert client.sync(proxy).outcome == "not open"
    world.now = 3.5 * DAY
    return client


def test_paid_batch_is_sent_while_worse_terms_wait_for_consent(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    """Send a batch that is paid for; the error does not say that nothing was sent."""
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    client.pause(on=False)
    proxy.publish(world.signed(2, epochs=21))
    with pytest.raises(TermsError) as caught:
        client.sync(proxy)
    assert len(proxy.received) == len(charges(folder)) == 1
    assert client.get_status().pending_terms is not None
    assert "nothing" not in str(caught.value).lower()


@pytest.mark.parametrize("lie", LIES)
def test_forged_files_are_refused_and_change_nothing(
    informed: Client, proxy: FakeProxy, world: World, folder: Path, lie: str
) -> None:
    """Store nothing except the hash of worse terms, which wait for consent."""
    before, recommended = informed.get_status(), informed.recommend(5)
    rows = _read_tables(informed)
    proxy.publish(LIES[lie](world))
    for _ in range(2):
        with pytest.raises(UntrustedError if [*LIES].index(lie) < 4 else TermsError):
            informed.sync(proxy)
    assert proxy.received == []
    assert charges(folder) == []
    assert replace(informed.get_status(), pending_terms=None) == before
    assert informed.recommend(5) == recommended
    assert _read_tables(informed) == rows
    world.files.clear()
    proxy.publish(world.signed(3))
    world.files[world.catalogue.hash] = world.catalogue.raw
    assert informed.sync(proxy).outcome == "sent"


def _read_tables(informed: Client) -> list[tuple[Any, ...]]:
    columns = "proxy_url, verification_key, paused, terms, head, epoch, manifest_hash"
    return informed._store._db.rows(
        f"SELECT files.*, signed, {columns} FROM files, manifest, settings"
    )


def test_older_epoch_is_refused_even_after_forgetting(
    informed: Client, proxy: FakeProxy, world: World
) -> None:
    informed.forget()
    for lie in UNTRUE_MANIFESTS:
        proxy.publish(LIES[lie](world))
        with pytest.raises(UntrustedError):
            informed.sync(proxy)
    proxy.publish(world.signed(2))
    assert informed.sync(proxy).outcome == "not open"


def test_nothing_is_reported_before_terms_were_accepted(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    with world.create(folder, accept=False) as client:
        for _ in range(2):
            synced = client.sync(proxy)
            assert (synced.outcome, synced.spent) == ("not accepted", 0.0)
        assert client.recommend(3)
        assert client.get_status().terms is None
        asked = client.fetch_manifest(proxy).terms
        client.accept(asked, 100.0)
        assert client.sync(proxy).outcome == "sent"
        assert client.get_status().terms == asked == proxy.signed.manifest.terms


def test_consent_is_for_the_terms_that_were_shown(
    informed: Client, proxy: FakeProxy, world: World
) -> None:
    proxy.publish(world.signed(3, epsilon=5.0, reports=2))
    with pytest.raises(TermsError, match=r"2\.5.*5\.0") as caught:
        informed.sync(proxy)
    proxy.publish(world.signed(3, epsilon=6.0, reports=2))  # while the owner reads
    informed.accept(caught.value.asked, 100.0)
    with pytest.raises(TermsError, match=r"5\.0.*6\.0"):
        informed.sync(proxy)
    assert informed.get_status().spent == 0.0
    proxy.publish(world.signed(3, epsilon=5.0, reports=2))
    assert informed.sync(proxy).spent == 10.0


def test_consent_to_outdated_terms_is_refused_and_leaves_the_limit(
    informed: Client, proxy: FakeProxy, world: World
) -> None:
    asked = []
    for epsilon in (5.0, 6.0):
        proxy.publish(world.signed(3, epsilon=epsilon, reports=2))
        with pytest.raises(TermsError) as caught:
            informed.sync(proxy)
        asked.append(caught.value.asked)
    before = informed.get_status()
    with pytest.raises(SettingsError, match="nothing was accepted"):
        informed.accept(asked[0], 7.0)
    assert informed.get_status() == before
    informed.accept(asked[1], 7.0)
    assert (informed.get_status().terms, informed.get_status().limit) == (asked[1], 7.0)


@pytest.mark.parametrize("outcomes", [ITEMS + 2, 4 * ITEMS])
def test_number_of_outcomes_of_names_never_changes(folder: Path, outcomes: int) -> None:
    """Ask again: with fewer, a name would be more certain; with more, dummies would hide less."""
    world = World(**ask_for_names(2 * ITEMS))
    proxy = FakeProxy(world)
    with world.create(folder) as client:
        assert client.sync(proxy).outcome == "sent"
        world.now += DAY
        proxy.publish(world.signed(2, **ask_for_names(outcomes)))
        with pytest.raises(TermsError, match=f"names {outcomes}, not names {2 * ITEMS}"):
            client.sync(proxy)
        assert len(proxy.received) == len(charges(folder)) == 1


@pytest.mark.parametrize("outcomes", [0, ITEMS, 2 * ITEMS + 1, 2**40])
def test_impossible_numbers_of_outcomes_are_refused(outcomes: int) -> None:
    """Refuse none, fewer than a catalogue needs, an odd number, and more than the bound."""
    asked = {**ask_for_names(2 * ITEMS), "parameters": {"names": outcomes}}
    with pytest.raises(ProtocolError, match="names"):
        World().signed(1, **asked)


@pytest.mark.parametrize("cheaper", [{"epsilon": 0.25}, {"reports": 1}])
def test_cheaper_reports_do_not_exceed_the_promise(
    proxy: FakeProxy, world: World, folder: Path, cheaper: dict[str, Any]
) -> None:
    """Among dummies, many reports of a small epsilon can reveal more than one of a large one."""
    with world.create(folder, limit=1.5 * COST, accept=False) as client:
        terms = client.fetch_manifest(proxy).terms
        assert (
            client.compute_outlook(terms)
            .summary[0]
            .startswith("Your history stays here; at most 4 reports,")
        )
        client.accept(terms, 1.5 * COST)
        for epoch in range(2, 8):
            world.now = (epoch + 0.5) * DAY
            proxy.publish(world.signed(epoch, **cheaper))
            with suppress(TermsError):
                client.sync(proxy)
        assert sum(charge.reports for charge in charges(folder)) <= 4


def test_better_terms_are_used_but_accepted_terms_stay_the_bound(
    informed: Client, proxy: FakeProxy, world: World
) -> None:
    proxy.publish(world.signed(3, epochs=3, dummies=0, min_clients=1000))
    assert informed.sync(proxy).spent == COST
    assert informed.get_status().terms == world.terms()
    proxy.next_epoch()
    assert informed.sync(proxy).outcome == "sent"


def test_next_key_is_trusted_after_the_pinned_key_has_named_it(
    informed: Client, proxy: FakeProxy, world: World
) -> None:
    old, new = world.signing_key, Ed25519PrivateKey.generate()
    statement = KeyStatement.make(old, new.public_key().public_bytes_raw())
    proxy.publish(SignedManifest.make(world.manifest(3), new, (statement,)), new)
    assert informed.sync(proxy).outcome == "sent"
    world.now += DAY
    proxy.publish(SignedManifest.make(world.manifest(4), old))
    with pytest.raises(UntrustedError):
        informed.sync(proxy)
    proxy.publish(SignedManifest.make(world.manifest(4), new), new)
    assert informed.sync(proxy).outcome == "sent"


# A server that asks again and again.
@pytest.mark.parametrize("fate", ["sent", "lost"])
def test_device_counts_its_turns_itself(world: World, folder: Path, fate: str) -> None:
    """Version 1 reported twelve times under terms of two epochs, and charged twelve times."""
    world.changes = {"epochs": 2}
    proxy = FakeProxy(world)
    proxy.closed = fate == "lost"
    with world.create(folder, limit=1_000) as client:
        outcomes = []
        for _ in range(7):
            outcomes.append(client.sync(proxy).outcome)
            proxy.next_epoch()
        taken = ["sent" if fate == "sent" else "too late"] * 2
        assert outcomes == taken + ["lifetime over"] * 5
        assert client.get_status().epochs == 2
        assert client.get_status().spent == 2 * COST
