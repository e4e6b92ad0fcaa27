"""Every single tampering with what is published is refused, by client, proxy and reader alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol import (
    Catalogue,
    Edition,
    Item,
    SignedManifest,
    encode_items,
    fetch_manifest,
    model_size,
    verified,
)
from tests.client.world import FACTORS, ITEMS, FakeProxy, World, item
from tests.protocol.examples import damaged
from tests.protocol.parties import PARTIES, MakeParty, Party


@dataclass(frozen=True)
class Scene:
    """One party that has accepted epoch 2; epoch 3 is published."""

    world: World
    source: FakeProxy
    party: Party

    @contextmanager
    def refused(self, error: type[ProtocolError], match: str) -> Iterator[None]:
        """Publish something in the block: it is refused again and again, and nothing changes."""
        before, files = self.party.accepted(), dict(self.world.files)
        yield
        for _ in range(2):
            with pytest.raises(error, match=match) as caught:
                self.party.refresh()
            assert type(caught.value) is error
        assert self.party.accepted() == before
        self.world.files = files
        self.source.publish(self.world.signed(3))


@contextmanager
def scene_of(make: MakeParty, folder: Path) -> Iterator[Scene]:
    world = World()
    source = FakeProxy(world, 2)
    party = make(world, source, folder)
    party.refresh()
    source.publish(world.signed(3))
    yield Scene(world, source, party)
    party.close()


@pytest.fixture(params=PARTIES, ids=lambda kind: kind.__name__, scope="module")
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    with scene_of(request.param, tmp_path_factory.mktemp("party") / "own") as made:
        yield made


HONEST = World()
SIGNED = HONEST.signed(3)
MODEL = encode_items(HONEST.items(3))


# The manifest.


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_damage_to_the_manifest(scene: Scene, data: st.DataObject) -> None:
    honest = scene.world.signed(3).encode()
    bad = data.draw(damaged(honest))
    assume(bad != honest)
    scene.source.data = bad
    before = scene.party.accepted()
    with pytest.raises(ProtocolError):
        scene.party.refresh()
    assert scene.party.accepted() == before


def test_another_key(scene: Scene) -> None:
    with scene.refused(UntrustedError, "not signed with the pinned verification key"):
        stranger = Ed25519PrivateKey.generate()
        scene.source.publish(SignedManifest.make(scene.world.manifest(3), stranger))


def test_an_older_epoch(scene: Scene) -> None:
    with scene.refused(UntrustedError, "epoch 1 after that of epoch 2: epochs never go back"):
        scene.source.publish(scene.world.signed(1))


def test_a_second_manifest_of_one_epoch(scene: Scene) -> None:
    with scene.refused(UntrustedError, "two different manifests of epoch 2"):
        scene.source.publish(scene.world.signed(2, previous_reports=1))


@given(st.integers(1, 8), st.integers(1, 8), st.booleans())
def test_the_order_of_epochs(newest: int, offered: int, other: bool) -> None:
    """Later, or the very same; nothing else."""
    known, signed = HONEST.signed(newest), HONEST.signed(offered, previous_reports=int(other))
    source, key = FakeProxy(HONEST), HONEST.verification_key
    source.publish(signed)
    assert fetch_manifest(source, key, None) == signed
    if offered > newest or signed.hash == known.hash:
        assert fetch_manifest(source, key, (newest, known.hash)) == signed
    else:
        with pytest.raises(UntrustedError):
            fetch_manifest(source, key, (newest, known.hash))


# The files.


@pytest.mark.parametrize("kind", ["model", "catalogue"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_damage_to_a_file(scene: Scene, kind: str, data: st.DataObject) -> None:
    names = scene.world.catalogue.raw + b" "  # white space: another file, not held yet
    name = scene.world.add(names)
    scene.source.publish(scene.world.signed(3, catalogue=name))
    wanted = name if kind == "catalogue" else scene.source.signed.manifest.model
    honest = scene.world.files[wanted]
    bad = data.draw(damaged(honest))
    assume(bad != honest)
    with scene.refused(UntrustedError, f"the {kind} file is not the one that the manifest names"):
        scene.world.files[wanted] = bad


def test_each_file_is_limited_to_the_size_that_the_manifest_allows(scene: Scene) -> None:
    """Whoever fetches must stop there: the protocol's own sources do, see test_http."""
    limits: list[int] = []
    fetch = scene.source.model

    def limited(sha256: bytes, most: int) -> bytes:
        limits.append(most)
        raise ProtocolError("longer than allowed")

    scene.source.model = limited  # type: ignore[method-assign]
    with scene.refused(ProtocolError, "longer than allowed"):
        pass
    scene.source.model = fetch  # type: ignore[method-assign]
    assert limits == [model_size(ITEMS, FACTORS)] * 2


def with_value(at: int, value: float) -> bytes:
    V = HONEST.items(3)
    V.flat[at] = value
    return encode_items(V)


def with_items(n: int) -> bytes:
    return Catalogue.of(Item(item(number), "t") for number in range(n)).raw


WRONG: dict[str, tuple[str, bytes, str]] = {
    "a NaN": ("model", with_value(4, np.nan), "NaN or an infinity"),
    "more factors": ("model", encode_items(np.ones((ITEMS, FACTORS + 1), np.float32)), "model"),
    "fewer items": ("model", encode_items(np.ones((ITEMS - 1, FACTORS), np.float32)), "model"),
    "no model": ("model", b"<html>", "model file"),
    "a short catalogue": ("catalogue", with_items(ITEMS - 1), "has 49 items, the manifest says 50"),
    "a long catalogue": ("catalogue", with_items(ITEMS + 1), "has 51 items, the manifest says 50"),
    "no catalogue": ("catalogue", b"[]", "catalogue"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_files_that_the_server_signed_but_nobody_can_use(scene: Scene, wrong: str) -> None:
    kind, content, match = WRONG[wrong]
    with scene.refused(ProtocolError, match):
        changes: dict[str, Any] = {kind: scene.world.add(content)}
        scene.source.publish(scene.world.signed(3, **changes))


@given(st.integers(0, ITEMS * FACTORS - 1), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_what_is_not_finite_is_found_anywhere(at: int, value: float) -> None:
    content = with_value(at, value)
    signed = HONEST.signed(3, model=HONEST.add(content))
    with pytest.raises(ProtocolError, match="NaN or an infinity"):
        verified(signed, content, HONEST.catalogue.raw)


@pytest.mark.parametrize(
    "swapped",
    [lambda m, c: (c, c), lambda m, c: (m, m), lambda m, c: (c, m), lambda m, c: (b"", c)],
)
def test_files_in_each_others_place(swapped: Callable[..., tuple[bytes, bytes]]) -> None:
    with pytest.raises(UntrustedError):
        verified(SIGNED, *swapped(MODEL, HONEST.catalogue.raw))


# What holds.


@pytest.mark.parametrize("make", PARTIES)
def test_what_holds_is_accepted(make: MakeParty, tmp_path: Path) -> None:
    with scene_of(make, tmp_path / "own") as scene:
        before, calls = scene.party.accepted(), len(scene.source.calls)
        scene.party.refresh()
        assert scene.party.accepted() != before
        assert scene.source.calls[calls:] == ["manifest", "model"], "the catalogue is held"
        scene.party.refresh()
        assert scene.source.calls[calls + 2 :] == ["manifest"]


def test_an_edition() -> None:
    edition = verified(SIGNED, MODEL, HONEST.catalogue.raw)
    assert isinstance(edition, Edition)
    assert edition.manifest == SIGNED.manifest
    assert np.array_equal(edition.V, HONEST.items(3))
    assert edition.rows_of([item(7), "unknown", item(3)]) == [3, 7]
