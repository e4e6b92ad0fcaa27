"""The mirror: what is refused changes nothing and is logged; old files are pruned.

Every way to tamper with what is published is tried in `tests/protocol/test_published.py`.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.errors import UnavailableError
from sottovoce.protocol import KeyStatement, SignedManifest
from tests.proxy.world import CATALOGUE, KEY, World, manifest, metric, model_of, signed

LIES: dict[str, tuple[SignedManifest, bytes]] = {
    "forged": (SignedManifest.make(manifest(2), Ed25519PrivateKey.generate()), model_of(2)),
    "another model": (signed(6), model_of(7)),
    "a second of the same epoch": (signed(5), model_of(5)),
}


def tell(world: World, lie: str) -> None:
    told, model = LIES[lie]
    world.server.now = told
    world.server.files[told.manifest.model] = model


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_server(tmp_path: Path, lie: str, caplog: pytest.LogCaptureFixture) -> None:
    """What is in force stays in force, for clients and for the beat; then honesty helps."""
    world = World(tmp_path, signed(5))
    world.proxy.tick()
    honest = world.now
    tell(world, lie)
    for _ in range(2):
        world.proxy.tick()
        assert world.proxy.manifest() == honest
    world.reopen()
    world.proxy.tick()
    assert world.proxy.manifest() == honest
    assert world.server.told == [], "the epoch runs on"
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    assert metric(world, "manifests_untrusted_total") == 1
    world.server.now = honest
    world.server.go_on(signed(8))
    world.proxy.tick()
    assert world.proxy.manifest() == world.now
    world.store.close()


@pytest.mark.parametrize("lie", ["forged", "another model"])
def test_a_server_that_lies_from_the_start(tmp_path: Path, lie: str) -> None:
    world = World(tmp_path, signed(5))
    tell(world, lie)
    world.proxy.tick()
    assert world.proxy.manifest() is None
    with pytest.raises(UnavailableError):
        world.proxy.check()
    with world.store.read() as tables:
        assert tables.latest_manifest() is None
    world.store.close()


def test_a_key_that_was_replaced_is_not_believed_again(tmp_path: Path) -> None:
    """The old key names the next one, and is of no use from then on, after a restart either."""
    world = World(tmp_path)
    world.proxy.tick()
    key = Ed25519PrivateKey.generate()
    statement = KeyStatement.make(KEY, key.public_key().public_bytes_raw())
    world.server.go_on(SignedManifest.make(manifest(2), key, (statement,)))
    world.proxy.tick()
    second = world.now
    assert world.proxy.manifest() == second
    world.reopen()
    world.server.go_on(signed(3))
    world.proxy.tick()
    assert world.proxy.manifest() == second
    assert metric(world, "manifests_untrusted_total") == 1
    world.store.close()


def test_old_models_are_pruned_and_what_is_known_is_not_fetched_again(tmp_path: Path) -> None:
    world = World(tmp_path, keep_models=2)
    fetched: list[str] = []
    world.server.before = fetched.append
    world.proxy.tick()
    hashes = [world.now.manifest.model]
    for epoch in (2, 3, 4):
        world.server.go_on(signed(epoch))
        world.proxy.tick()
        hashes.append(world.now.manifest.model)
    assert [world.proxy.model(name) is not None for name in hashes] == [False, False, True, True]
    assert world.proxy.model(hashes[2]) == model_of(3)
    assert world.proxy.catalogue(CATALOGUE.hash) == CATALOGUE.raw
    assert world.proxy.model(CATALOGUE.hash) is None
    assert world.proxy.catalogue(hashes[3]) is None
    assert fetched.count("catalogue") == 1
    world.store.close()


def test_a_file_that_the_disk_has_damaged_is_fetched_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.proxy.tick()
    with world.store.write() as tables:
        tables.add_file(CATALOGUE.hash, b"damaged")
    world.reopen()
    world.server.go_on(signed(2))
    world.proxy.tick()
    assert world.proxy.manifest() == world.now
    assert world.proxy.catalogue(CATALOGUE.hash) == CATALOGUE.raw
    world.store.close()


def test_an_epoch_of_the_same_model_again(tmp_path: Path) -> None:
    """The server had too few reports: the next epoch starts from the same V."""
    world = World(tmp_path, keep_models=1)
    world.proxy.tick()
    world.server.go_on(signed(2, model=world.now.manifest.model))
    world.server.files.clear()
    world.proxy.tick()
    assert world.proxy.manifest() == world.now
    assert world.proxy.model(world.now.manifest.model) == model_of(1)
    world.store.close()
