"""The mirror: only what is signed, complete and later is shown; the rest is refused and said."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.protocol import Catalogue, Item, SignedManifest
from tests.proxy.world import CATALOGUE, World, manifest, metric, model_of, signed


def lie(world: World, told: SignedManifest, **files: bytes) -> None:
    world.server.now = told
    world.server.files[told.manifest.model] = files.get("model", model_of(told.manifest.epoch))
    world.server.files[told.manifest.catalogue] = files.get("catalogue", CATALOGUE.raw)


def forged(world: World) -> None:
    lie(world, SignedManifest.make(manifest(2), Ed25519PrivateKey.generate()))


def tampered(world: World) -> None:
    honest = signed(2)
    lie(world, replace(honest, raw=honest.raw.replace(b'"epsilon":2.5', b'"epsilon":9.5')))


def older(world: World) -> None:
    lie(world, signed(4))


def second_for_the_same_epoch(world: World) -> None:
    lie(world, signed(5))


def other_model(world: World) -> None:
    lie(world, signed(6), model=model_of(7))


def model_of_another_size(world: World) -> None:
    lie(world, signed(6, factors=3))


def other_catalogue(world: World) -> None:
    other = Catalogue.of(Item(f"book-{number}", "Book") for number in range(3))
    lie(world, signed(6, catalogue=other.hash))


def catalogue_of_another_size(world: World) -> None:
    small = Catalogue.of([Item("a", "A")])
    lie(world, signed(6, catalogue=small.hash), catalogue=small.raw)


def rubbish(world: World) -> None:
    world.server.now = replace(signed(6), raw=b"\xff")


LIES = [
    forged, tampered, older, second_for_the_same_epoch, other_model, model_of_another_size,
    other_catalogue, catalogue_of_another_size, rubbish,
]  # fmt: skip


@pytest.mark.parametrize("told", LIES)
def test_a_lying_server(
    tmp_path: Path, told: Callable[[World], None], caplog: pytest.LogCaptureFixture
) -> None:
    """What is in force stays in force, for clients and for the beat; then honesty helps."""
    world = World(tmp_path, signed(5))
    world.proxy.tick()
    honest = world.now
    told(world)
    for _ in range(2):
        world.proxy.tick()
        assert world.proxy.manifest() == honest
    world.reopen()
    world.proxy.tick()
    assert world.proxy.manifest() == honest
    assert world.server.told == [(5, 0)] * 4
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    assert metric(world, "manifests_untrusted_total") == 1
    world.server.now = honest
    world.server.go_on(signed(8))
    world.proxy.tick()
    assert world.proxy.manifest() == world.now
    world.store.close()


@pytest.mark.parametrize("told", [forged, tampered, other_model, model_of_another_size, rubbish])
def test_a_server_that_lies_from_the_start(tmp_path: Path, told: Callable[[World], None]) -> None:
    world = World(tmp_path, signed(5))
    told(world)
    world.proxy.tick()
    assert world.proxy.manifest() is None
    assert not world.proxy.is_ready()
    with world.store.read() as tables:
        assert tables.latest_manifest() is None
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
