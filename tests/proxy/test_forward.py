"""The connection to the server: what is mirrored, verified and sent, and with which secret.

Every way to tamper with what is published is tried in `tests/protocol/test_published.py`; what is
fetched over HTTP in `tests/protocol/test_http.py`.
"""

import json
import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.errors import SettingsError
from sottovoce.protocol import (
    SEALED_BYTES,
    Catalogue,
    Chunk,
    Item,
    KeyStatement,
    Shelf,
    SignedManifest,
    SignedShelf,
)
from sottovoce.protocol.contact import DAY_SECONDS, Contact
from sottovoce.proxy import HttpUpstream, Upstream, connect
from sottovoce.storage.files import write_new
from tests.proxy.world import (
    CATALOGUE,
    CLOSES,
    KEY,
    OPENS,
    MakeWorld,
    World,
    manifest,
    metric,
    model_of,
    settings,
    shelved,
    signed,
)

LIES: dict[str, tuple[SignedManifest, bytes]] = {
    "forged": (SignedManifest.make(manifest(2), Ed25519PrivateKey.generate()), model_of(2)),
    "another model": (signed(6), model_of(7)),
    "a second of the same epoch": (signed(5, closes=CLOSES + 1), model_of(5)),
}


def tell(world: World, lie: str) -> None:
    signed, model = LIES[lie]
    world.server.now = signed
    world.server.files[signed.manifest.model] = model


OTHER = Catalogue.from_items(Item(f"film-{number}", "Another film") for number in range(2))


def test_patches_are_mirrored_as_long_as_somebody_may_ask_for_them(world: World) -> None:
    mirror, names = world.proxy.mirror, [sha256(patch).digest() for patch in (b"one", b"other")]
    world.server.files |= {names[0]: b"one", names[1]: b"other"}
    world.server.go_on(signed(2, model_patch=names[1], opens=OPENS))
    for seconds in range(4):
        shelf = Shelf(OPENS + 1 + seconds, CATALOGUE.hash, names[0] if seconds == 0 else None)
        world.server.shelved = SignedShelf.make(shelf, KEY)
        world.proxy.tick()
        for _ in range(2):
            mirror = world.proxy.mirror
            assert mirror.read_patch(names[1]) == b"other"
            # Clients that have just read the older shelf may still ask for its patch.
            assert mirror.read_patch(names[0]) == (b"one" if seconds < 2 else None)
            assert mirror.read_model(names[1]) is None
            world.reopen()


def test_newer_shelf_is_shown_after_a_tick_and_the_older_one_is_still_served(
    world: World,
) -> None:
    world.server.files[OTHER.hash] = OTHER.raw
    world.server.shelved = shelved(OPENS + 60, OTHER.hash)
    world.proxy.tick()
    for _ in range(2):
        assert world.proxy.mirror.shelf is not None
        assert world.proxy.mirror.shelf.signed == world.server.shelved
        assert world.proxy.mirror.read_catalogue(OTHER.hash) == OTHER.raw
        assert world.proxy.mirror.read_catalogue(CATALOGUE.hash) == CATALOGUE.raw
        world.reopen()
    world.server.shelved = shelved(OPENS + 61, CATALOGUE.hash)
    world.proxy.tick()
    assert world.proxy.mirror.read_catalogue(OTHER.hash) == OTHER.raw, (
        "somebody has just read of it"
    )
    world.server.shelved = shelved(OPENS + 62, CATALOGUE.hash)
    world.proxy.tick()
    assert world.proxy.mirror.read_catalogue(OTHER.hash) is None


@pytest.mark.parametrize(
    "lie",
    [
        SignedShelf.make(Shelf(OPENS + 99, CATALOGUE.hash), Ed25519PrivateKey.generate()),
        shelved(OPENS + 59, CATALOGUE.hash),
        shelved(OPENS + 60, CATALOGUE.hash),
        shelved(OPENS + 99, bytes(32)),
    ],
    ids=["forged", "older", "a second of the same time", "another file"],
)
def test_invalid_shelf_is_not_shown(world: World, lie: SignedShelf) -> None:
    world.server.files |= {OTHER.hash: OTHER.raw, bytes(32): OTHER.raw}
    world.server.shelved = honest = shelved(OPENS + 60, OTHER.hash)
    world.proxy.tick()
    world.server.shelved = lie
    world.proxy.tick()
    assert world.proxy.mirror.shelf is not None
    assert world.proxy.mirror.shelf.signed == honest
    assert metric(world, "manifests_untrusted_total") == 1


def test_shelf_with_a_wrong_date_is_replaced(world: World) -> None:
    """Set the clocks of server and proxy wrong, then restore the database of the server."""
    opened, world.clock.now = world.clock.now, OPENS + 400 * DAY_SECONDS
    world.server.files[OTHER.hash] = OTHER.raw
    world.server.shelved = shelved(int(world.clock.now), OTHER.hash)
    newer = world.proxy.mirror.fetch_newer_shelf()
    assert newer is not None
    world.proxy.mirror.publish_shelf(newer)
    world.clock.now = opened
    for published in (OPENS + 60, OPENS + 61):
        world.server.shelved = shelved(published, CATALOGUE.hash)
        world.proxy.tick()
        world.reopen()
        assert world.proxy.mirror.shelf is not None
        assert world.proxy.mirror.shelf.signed == world.server.shelved


@pytest.mark.parametrize("lie", LIES)
def test_forged_files_of_a_server_are_refused(
    make_world: MakeWorld, lie: str, caplog: pytest.LogCaptureFixture
) -> None:
    # The current files stay for clients and contacts; an honest answer is accepted later.
    world = make_world(signed(5))
    honest = world.now
    tell(world, lie)
    world.proxy.tick()
    assert world.proxy.manifest == honest
    world.reopen()
    world.proxy.tick()
    assert world.proxy.manifest == honest
    assert world.server.told == [], "the epoch runs on"
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    assert metric(world, "manifests_untrusted_total") == 1
    world.server.now = honest
    world.server.go_on(signed(8))
    world.proxy.tick()
    assert world.proxy.manifest == world.now


def test_replaced_key_is_not_trusted_again(world: World) -> None:
    """Accept the next key that the old one names; refuse the old one, also after a restart."""
    key = Ed25519PrivateKey.generate()
    statement = KeyStatement.make(KEY, key.public_key().public_bytes_raw())
    world.server.go_on(SignedManifest.make(manifest(2), key, (statement,)))
    world.proxy.tick()
    second = world.now
    assert world.proxy.manifest == second
    world.reopen()
    world.server.go_on(signed(3))
    world.proxy.tick()
    assert world.proxy.manifest == second
    assert metric(world, "manifests_untrusted_total") == 1


def test_old_models_are_pruned_and_known_files_are_not_fetched_again(
    make_world: MakeWorld,
) -> None:
    # A model from which the next epoch starts again is known, too; a damaged file is fetched.
    world = make_world(keep_models=2)
    fetched: list[str] = []
    world.server.before = fetched.append
    hashes = [world.now.manifest.model]
    for epoch in (2, 3, 4):
        world.server.go_on(signed(epoch))
        world.proxy.tick()
        hashes.append(world.now.manifest.model)
    assert [world.proxy.mirror.read_model(name) is not None for name in hashes] == [
        False,
        False,
        True,
        True,
    ]
    assert world.proxy.mirror.read_catalogue(CATALOGUE.hash) == CATALOGUE.raw
    assert world.proxy.mirror.read_model(CATALOGUE.hash) is None
    assert world.proxy.mirror.read_catalogue(hashes[3]) is None
    world.server.go_on(signed(5, model=hashes[3]))
    world.proxy.tick()
    assert world.proxy.mirror.read_model(hashes[3]) == model_of(4)
    assert (fetched.count("catalogue"), fetched.count("model")) == (0, 3)
    with world.store.write() as tables:
        tables.add_file(CATALOGUE.hash, b"damaged")
    world.reopen()
    world.server.go_on(signed(6))
    world.proxy.tick()
    assert world.proxy.manifest == world.now
    assert world.proxy.mirror.read_catalogue(CATALOGUE.hash) == CATALOGUE.raw


CHUNK = Chunk(7, bytes(32), bytes(SEALED_BYTES))

SECRET = "a very secret thing"


class Wire:
    """A transport that gives prepared answers and records the requests."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response]):
        self._answer = answer
        self.asked: list[httpx.Request] = []
        http = httpx.Client(transport=httpx.MockTransport(self._handle))
        self.upstream: Upstream = HttpUpstream(http, "https://server.example/", SECRET)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return self._answer(request)


def answering(content: bytes) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(200, stream=httpx.ByteStream(content))


CALLS: dict[str, Callable[[Upstream], object]] = {
    "contact": lambda u: u.contact(Contact(7, bytes(32), "short", 12.5, None)),
    "put_chunk": lambda u: u.put_chunk(CHUNK),
    "commit": lambda u: u.commit(7, bytes(32), 2, 40),
}


def test_contact_has_the_state_and_the_secret_of_the_proxy() -> None:
    wire = Wire(answering(b'{"state":"open","time":12.0,"database":"0123456789abcdef"}'))
    for call in CALLS.values():
        call(wire.upstream)
    zeros = "00" * 32
    assert [(r.method, str(r.url), r.headers["authorization"]) for r in wire.asked] == [
        ("POST", "https://server.example/v2/contact", f"Bearer {SECRET}"),
        ("PUT", f"https://server.example/v2/epochs/7/chunks/{CHUNK.name}", f"Bearer {SECRET}"),
        ("POST", "https://server.example/v2/epochs/7/commit", f"Bearer {SECRET}"),
    ]
    contents = [request.content for request in wire.asked]
    expected = {"epoch": 7, "manifest": zeros, "crowd": "short", "time": 12.5, "process": None}
    expected |= {"token_key": None, "database": None, "server_database": None}
    assert json.loads(contents[0]) == expected
    assert contents[1] == CHUNK.encode()
    assert json.loads(contents[2]) == {"manifest": zeros, "chunks": 2, "reports": 40}


@pytest.mark.parametrize("server", ["https://server.example", "http://server.example"])
def test_connect_reads_the_secret_and_warns_without_encryption(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, server: str
) -> None:
    """Certificates: `tests/service/test_tls.py`."""
    write_new(tmp_path / "secret", f"{SECRET}\n".encode())
    http, upstream = connect(settings(tmp_path, server=server))
    assert isinstance(upstream, HttpUpstream)
    assert upstream._secret == {"Authorization": f"Bearer {SECRET}"}
    assert ("not encrypted" in caplog.text) is (server[:5] == "http:")
    assert SECRET not in caplog.text
    http.close()


@pytest.mark.parametrize("content", [None, b"", b" \n", b"two\nlines", b"\xff\xfe"])
def test_invalid_secrets_are_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        write_new(tmp_path / "secret", content)
    with pytest.raises(SettingsError, match=str(tmp_path / "secret")):
        connect(settings(tmp_path))


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_new(path, SECRET.encode())
    for mode in (0o644, 0o640, 0o604):
        path.chmod(mode)
        with pytest.raises(SettingsError, match=rf"{path}.*{mode:o}.*chmod 600"):
            connect(settings(tmp_path))
    path.chmod(0o400)
    connect(settings(tmp_path))[0].close()
