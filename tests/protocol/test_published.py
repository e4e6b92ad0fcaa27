"""Every change of published files is refused by client, proxy and reader."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol import Catalogue, Item, SignedManifest, encode_items, model_size
from sottovoce.proxy.mirror import Mirror
from sottovoce.sandbox.people import PublicReader
from tests.client.world import DAY, FACTORS, ITEMS, FakeProxy, World, item
from tests.protocol.examples import damaged
from tests.proxy.world import open_store
from tests.proxy.world import settings as proxy_settings

TEST_WORLD = World()


class Party(NamedTuple):
    """A party that reads what is published."""

    refresh: Callable[[], object]
    accepted: Callable[[], object]
    """Return what the party uses and serves."""
    close: Callable[[], object] = lambda: None


def client(world: World, source: FakeProxy, folder: Path) -> Party:
    created = world.create(folder)
    created.pause(on=True)
    store = created._store
    shown = lambda: (store.newest, store.get_signed_manifest(), created.recommend(ITEMS))  # noqa: E731
    return Party(lambda: created.sync(source), shown, created.close)


def proxy(world: World, source: FakeProxy, folder: Path) -> Party:
    store = open_store(folder)
    expected = proxy_settings(folder, verification_key=world.verification_key.hex())
    mirror = Mirror(store, source, expected, lambda: 1e9)  # late enough for all of them

    def refresh() -> None:
        newer = mirror.fetch_newer()
        if newer is not None:
            mirror.publish(newer)

    return Party(refresh, lambda: (mirror.current, mirror._load_epoch()), store.close)


def reader(world: World, source: FakeProxy, _: Path) -> Party:
    stored = [PublicReader(source, world.verification_key)]

    def refresh() -> None:
        attempt = copy(stored[0])  # a manifest whose files fail is not remembered
        attempt.read_release(attempt.read_manifest())
        stored[0] = attempt

    return Party(refresh, lambda: (stored[0]._newest, stored[0]._files))


class Scene:
    """Epoch 3 is published for a party that has accepted epoch 2."""

    def __init__(self, make: Callable[[World, FakeProxy, Path], Party], folder: Path):
        self.world = World()
        self.world.now = 3.5 * DAY
        self.source = FakeProxy(self.world, 2)
        self.party = make(self.world, self.source, folder)
        self.party.refresh()
        self.source.publish(self.world.signed(3))

    @contextmanager
    def refused(self, error: type[ProtocolError], match: str) -> Iterator[None]:
        """Check that what the block publishes is refused each time and changes nothing."""
        before, files = self.party.accepted(), dict(self.world.files)
        yield
        for _ in range(2):
            with pytest.raises(error, match=match):
                self.party.refresh()
        assert self.party.accepted() == before
        self.world.files = files
        self.source.publish(self.world.signed(3))


@pytest.fixture(params=[client, proxy, reader], scope="module")
def scene(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    created = Scene(request.param, tmp_path_factory.mktemp("party") / "own")
    yield created
    created.party.refresh()  # after all that was refused, the honest epoch is accepted
    created.party.close()


def make_model(value: float) -> bytes:
    """Return a model whose last entry is this number, which no server encodes."""
    return encode_items(TEST_WORLD.items(3))[:-2] + np.float32(value).tobytes()[2:]


def make_catalogue(n: int) -> bytes:
    return Catalogue.from_items(Item(item(number), "t") for number in range(n)).raw


def sign_by_stranger(world: World) -> SignedManifest:
    return SignedManifest.make(world.manifest(3), Ed25519PrivateKey.generate())


def sign_with(kind: str, content: bytes) -> Callable[[World], SignedManifest]:
    return lambda world: world.signed(3, **{kind: world.add(content)})


U = UntrustedError
P = ProtocolError
BAD_RELEASES: dict[str, tuple[type[ProtocolError], str, Callable[[World], SignedManifest]]] = {
    "another key": (U, "signed manifest", sign_by_stranger),
    "older": (U, r"\b1\b.*\b2\b", lambda w: w.signed(1)),
    "second": (U, r"\b2\b", lambda w: w.signed(2, reports_behind=1)),
    "NaN": (P, "model file", sign_with("model", make_model(np.nan))),
    "infinite": (P, "model file", sign_with("model", make_model(-np.inf))),
    "wide": (
        P,
        "model file",
        sign_with("model", encode_items(np.ones((ITEMS, FACTORS + 1), "f4"))),
    ),
    "short": (
        P,
        "model file",
        sign_with("model", encode_items(np.ones((ITEMS - 1, FACTORS), "f4"))),
    ),
    "no model": (P, "model file", sign_with("model", b"<html>")),
    "few names": (P, r"\b49\b.*\b50\b", sign_with("catalogue", make_catalogue(ITEMS - 1))),
    "many names": (P, r"\b51\b.*\b50\b", sign_with("catalogue", make_catalogue(ITEMS + 1))),
    "a weak key": (P, "public_key", lambda w: w.signed(3, public_key=bytes(32))),
    "no catalogue": (P, "catalogue", sign_with("catalogue", b"[]")),
}


@pytest.mark.parametrize("lie", BAD_RELEASES)
def test_tampering_is_refused(scene: Scene, lie: str) -> None:
    error, match, content = BAD_RELEASES[lie]
    with scene.refused(error, match):
        scene.source.publish(content(scene.world))


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_damaged_manifest_is_refused(scene: Scene, data: st.DataObject) -> None:
    bad = data.draw(damaged(scene.source.data))
    assume(bad != scene.source.data)
    with scene.refused(ProtocolError, "signed manifest"):
        scene.source.data = bad


@pytest.mark.parametrize("make", [client, proxy])
def test_damaged_patch_is_refused(
    make: Callable[[World, FakeProxy, Path], Party], tmp_path: Path
) -> None:
    """Check that a proxy cannot choose what a patch says: its hash is signed."""
    scene = Scene(make, tmp_path / "own")
    signed = scene.world.signed(3, model_patch=scene.world.add(b"patch"))
    with scene.refused(UntrustedError, "patch"):
        scene.source.publish(signed)
        scene.world.files[signed.manifest.patches[0]] = b"another"
    scene.party.close()


@pytest.mark.parametrize("kind", ["model", "catalogue"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_damaged_file_is_refused(scene: Scene, kind: str, data: st.DataObject) -> None:
    fresh = scene.world.add(scene.world.catalogue.raw + b" ")  # the same names, not held yet
    signed = scene.world.signed(3, catalogue=fresh)
    sha256 = getattr(signed.manifest, kind)
    bad = data.draw(damaged(scene.world.files[sha256]))
    assume(bad != scene.world.files[sha256])
    with scene.refused(UntrustedError, kind):
        scene.source.publish(signed)
        scene.world.files[sha256] = bad


def test_model_is_limited_to_the_size_in_the_manifest(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the size that is requested; `test_http.py` checks that no more is read."""

    def too_long(_: bytes, max_bytes: int) -> bytes:
        raise ProtocolError(f"longer than {max_bytes}")

    monkeypatch.setattr(scene.source, "model", too_long)
    with scene.refused(ProtocolError, f"longer than {model_size(ITEMS, FACTORS)}"):
        pass


@pytest.mark.parametrize("make", [client, proxy, reader])
def test_valid_release_is_accepted(
    make: Callable[[World, FakeProxy, Path], Party], tmp_path: Path
) -> None:
    scene = Scene(make, tmp_path / "own")
    before, calls = scene.party.accepted(), len(scene.source.calls)
    for _ in range(2):
        scene.party.refresh()
    assert scene.party.accepted() != before
    asked = [call for call in scene.source.calls[calls:] if call != "shelf"]
    assert asked == ["manifest", "model", "manifest"], "the rest is held"
    scene.party.close()
