"""The server's keys: their file, an epoch's key and its end, and who follows a signing key."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from sottovoce.errors import (
    ProtocolError,
    SettingsError,
    StoreError,
    UnavailableError,
)
from sottovoce.protocol import SignedManifest
from sottovoce.server import Keys, ServerStore
from sottovoce.server.key_chain import rotate_keys
from sottovoce.server.transaction import Service, Transaction
from tests.server.changes import change_catalogue, present, without
from tests.server.test_catalogue import learn
from tests.server.world import KEYS, MakeWorld, World


def test_keys_are_read_back_and_only_their_owner_can(tmp_path: Path) -> None:
    keys, path = Keys.generate(), tmp_path / "keys.json"
    keys.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Keys.read(path) == keys
    assert keys.signing.hex() not in repr(keys)
    assert keys.wrapping.hex() not in repr(keys)
    with pytest.raises(SettingsError):
        Keys.generate().write(path)
    assert Keys.read(path) == keys, "nothing is overwritten"
    for mode in (0o640, 0o604, 0o601):
        path.chmod(mode)
        with pytest.raises(SettingsError):
            Keys.read(path)


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "{}",
        json.dumps({"version": 2, "signing": "a" * 64, "wrapping": "b" * 64}),
        json.dumps({"version": 1, "signing": "a" * 63, "wrapping": "b" * 64}),
        json.dumps({"version": 1, "signing": "a" * 64, "wrapping": "b" * 64, "more": 1}),
        "x" * 5000,
    ],
)
def test_malformed_keys_are_refused_and_not_shown(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.touch(0o600)
        path.write_text(content)
    with pytest.raises(SettingsError) as refused:
        Keys.read(path)
    assert "a" * 32 not in str(refused.value)


def test_a_wrapped_key_opens_with_its_keys_and_epoch_alone() -> None:
    keys, private = Keys.generate(), os.urandom(32)
    wrapped = keys.wrap(3, private)
    assert keys.unwrap(3, wrapped) == private
    assert keys.wrap(3, private) != wrapped
    for other, epoch, data in (
        (keys, 4, wrapped),
        (Keys.generate(), 3, wrapped),
        (keys, 3, wrapped[:-1]),
        (keys, 3, b""),
    ):
        with pytest.raises(StoreError, match=rf"\b{epoch}\b"):
            other.unwrap(epoch, data)


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("server.sqlite*")))


def test_nothing_of_an_applied_epochs_key_or_chunks_is_left_in_the_files(
    make_world: MakeWorld, sqlite_url: str, tmp_path: Path
) -> None:
    """And nothing raw is ever stored."""
    world = make_world(sqlite_url)
    signed = world.close_epoch()
    with world.store.read() as transaction:
        wrapped = transaction.find_wrapped_key(1)
    assert wrapped is not None
    private = world.keys.unwrap(1, wrapped)
    assert wrapped in everything_in(tmp_path)
    assert private not in everything_in(tmp_path)
    chunk = world.make_chunk(signed, 30)
    world.send("east", chunk)
    left = everything_in(tmp_path)
    for at in range(0, len(chunk.sealed), 52):
        assert chunk.sealed[at : at + 12] not in left
        assert chunk.sealed[at + 32 : at + 52] not in left
    world.apply(signed, chunk)
    left = everything_in(tmp_path)
    assert world.get_signed().manifest.epoch == 2
    assert signed.hash in left, "the epoch itself is kept"
    for secret in (wrapped, wrapped[12:44], wrapped[:12], private, chunk.name.encode()):
        assert secret not in left
    assert (tmp_path / "server.sqlite-wal").stat().st_size == 0


def test_an_applied_epochs_key_is_gone_from_every_database(world: World) -> None:
    signed = world.close_epoch()
    world.apply(signed, world.make_chunk(signed, 30))
    with world.store.read() as transaction:
        assert transaction.find_wrapped_key(1) is None
        assert transaction.find_wrapped_key(2) is not None
        assert transaction.list_chunk_names(1) == set()
        assert transaction.get_crowds(1) == transaction.get_counts(1) == {}
        assert transaction.get_sums(1).any()


AT_ONCE = 6


def service(world: World) -> Service:
    with world.store.read() as transaction:
        found = transaction.get_service()
    assert found is not None
    return found


def rotated_at_once(world: World, paths: list[Path]) -> list[Keys | SettingsError]:
    """Each by a connection of its own, all at the same moment."""
    ready = Barrier(len(paths))

    def rotate(path: Path) -> Keys | SettingsError:
        store = ServerStore(world.settings.database)
        ready.wait()
        try:
            return rotate_keys(store, path)
        except SettingsError as error:
            return error
        finally:
            store.close()

    with ThreadPoolExecutor(len(paths)) as threads:
        return list(threads.map(rotate, paths))


def copies(folder: Path, number: int) -> list[Path]:
    """The keys file on so many machines."""
    paths = [folder / f"keys{n}.json" for n in range(number)]
    for path in paths:
        KEYS.write(path)
    return paths


def published_by(world: World, path: Path) -> SignedManifest:
    """The next manifest, by a worker that starts with this file."""
    worker = World(world.settings, Keys.read(path), now=world.now)
    worker.apply(worker.close_epoch())
    signed = worker.get_signed()
    world.now = worker.now
    worker.close()
    return signed


def test_of_several_machines_one_replaces_the_key(world: World, tmp_path: Path) -> None:
    world.server.tick()
    paths = copies(tmp_path, AT_ONCE)
    made = rotated_at_once(world, paths)
    (won,) = (n for n, each in enumerate(made) if isinstance(each, Keys))
    for n, refused in enumerate(made):
        if n != won:
            assert isinstance(refused, SettingsError)
            assert Keys.read(paths[won]).verification_key.hex() in str(refused)
            assert Keys.read(paths[n]) == KEYS, "nothing was changed"
    old = paths[won - 1]
    assert published_by(world, old).key == KEYS.verification_key, "it goes on meanwhile"
    Keys.read(paths[won]).replace(old)
    rotate_keys(world.store, old)
    newest = Keys.read(old)
    assert len(newest.statements) == 2
    raw = published_by(world, old).encode()
    for pinned in (KEYS, Keys.read(paths[won]), newest):
        opened = SignedManifest.open(raw, pinned.verification_key)
        assert opened.key == newest.verification_key


@pytest.fixture
def broken_off(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The first of two files has a new key of which the database has not heard."""
    world.server.tick()
    paths = copies(tmp_path, 2)

    def fail(_: Transaction, __: bytes) -> None:
        raise StoreError("the database is gone")

    with monkeypatch.context() as broken:
        broken.setattr(Transaction, "set_newest_key", fail)
        with pytest.raises(StoreError):
            rotate_keys(world.store, paths[0])
    assert len(Keys.read(paths[0]).statements) == 1
    assert service(world).newest_key == KEYS.verification_key
    return paths


def test_a_worker_makes_the_database_follow_its_file(world: World, broken_off: list[Path]) -> None:
    """Also after a restored database."""
    first, second = broken_off
    worker = World(world.settings, Keys.read(first), now=world.now)
    worker.server.prepare()
    assert service(world).newest_key == worker.keys.verification_key
    with pytest.raises(SettingsError, match=worker.keys.verification_key.hex()):
        rotate_keys(world.store, second)
    worker.close()
    rotate_keys(world.store, first)
    assert len(published_by(world, first).statements) == 2


def test_a_key_that_another_has_overtaken_never_signs(world: World, broken_off: list[Path]) -> None:
    """Neither by a worker that starts with it nor by one that runs."""
    first, second = broken_off
    worker = World(world.settings, Keys.read(first), now=world.now)
    worker.server.prepare()
    rotate_keys(world.store, second, newest_is_lost=True)
    with pytest.raises(SettingsError, match=Keys.read(second).verification_key.hex()):
        worker.apply(worker.close_epoch())
    worker.close()
    late = World(world.settings, Keys.read(first), now=world.now)
    with pytest.raises(SettingsError, match=Keys.read(second).verification_key.hex()):
        late.server.prepare()
    late.close()
    signed = published_by(world, second)
    assert signed.key == Keys.read(second).verification_key
    with pytest.raises(SettingsError, match=signed.key.hex()):
        rotate_keys(world.store, first, newest_is_lost=True)


def test_a_worker_says_at_once_that_another_key_signs(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on meanwhile, says it once for each key, and is not ready when it cannot sign."""
    world.server.tick()
    assert "\nsottovoce_server_keys_wrong 0.0\n" in world.server.render_metrics().decode()
    (path,) = copies(tmp_path, 1)
    rotate_keys(world.store, path)
    for _ in range(3):
        world.server.tick()
    assert len(caplog.messages) == 1
    assert "\nsottovoce_server_keys_wrong 1.0\n" in world.server.render_metrics().decode()
    world.server.check_ready()
    published_by(world, path)
    with pytest.raises(UnavailableError):
        world.server.check_ready()


def test_a_worker_says_at_once_that_its_keys_file_is_lost(world: World, tmp_path: Path) -> None:
    """And goes on with what it has read."""
    path = world.settings.keys
    path.rename(tmp_path / "kept.json")
    world.server.tick()
    assert str(path) in world.server.troubles.texts[0]
    assert "\nsottovoce_server_keys_wrong 1.0\n" in world.server.render_metrics().decode()
    world.server.check_ready()
    (tmp_path / "kept.json").rename(path)
    world.server.tick()
    assert world.server.troubles.texts == []
    assert "\nsottovoce_server_keys_wrong 0.0\n" in world.server.render_metrics().decode()


def test_what_is_withdrawn_is_signed_by_whoever_still_may(world: World, tmp_path: Path) -> None:
    """A key was made, and no worker has it yet: lists wait for nobody to be restarted."""
    world.server.tick()
    (path,) = copies(tmp_path, 1)
    rotate_keys(world.store, path)
    change_catalogue(world.store, lambda known: without(known, ["film-0"]))
    world.server.tick()
    shelf = world.server.get_signed_shelf()
    assert shelf.key == world.get_signed().key
    assert shelf.shelf.catalogue == present(world.store).catalogue.hash
    published_by(world, path)
    newer = world.server.get_signed_shelf()
    change_catalogue(world.store, lambda known: without(known, ["film-1"]))
    world.server.tick()
    assert world.server.get_signed_shelf() == newer, "not by a key that has been replaced"


def test_signing_keys_change_and_nobody_leads_back(world: World) -> None:
    """Who knows the first key follows; who has seen the second believes the first no more."""
    first = learn(world)
    second, third = KEYS.rotate(), KEYS.rotate().rotate()
    assert second.first_key == third.first_key == KEYS.verification_key
    newer = World(world.settings, second, now=world.now)
    newer.apply(newer.close_epoch())
    signed = newer.server.get_signed_manifest()
    assert signed.key == second.verification_key
    raw = signed.encode()
    for pinned in (KEYS.verification_key, second.verification_key):
        assert SignedManifest.open(raw, pinned).key == second.verification_key
    with pytest.raises(ProtocolError):
        SignedManifest.open(first.encode(), second.verification_key)
    world.now = newer.now
    with pytest.raises(SettingsError, match=second.verification_key.hex()):
        world.apply(world.close_epoch())
    assert newer.get_signed().hash == signed.hash, "a worker with the old key publishes nothing"
    assert world.get_signed().hash == signed.hash, "and serves what others publish"
    stranger = World(world.settings, third)  # of another chain
    with pytest.raises(SettingsError, match=second.verification_key.hex()):
        stranger.server.tick()
    for other in (newer, stranger):
        other.close()


def test_keys_with_their_statements_are_read_back(tmp_path: Path) -> None:
    """Behind a link, and with the same owner: the server must find and read them."""
    path, link = tmp_path / "keys.json", tmp_path / "link.json"
    KEYS.write(path)
    link.symlink_to(path)
    if os.geteuid() == 0:
        os.chown(path, 65_534, 65_534)
    owner = path.stat().st_uid
    keys = Keys.read(link).rotate()
    keys.replace(link)
    assert link.is_symlink()
    assert path.stat().st_uid == owner
    assert path.stat().st_mode & 0o777 == 0o600
    assert Keys.read(path) == keys
    assert KEYS.signing.hex() not in path.read_text()
    with pytest.raises(SettingsError):
        keys.replace(tmp_path / "missing.json")
    text, stranger = path.read_text(), Keys.generate()
    for broken in (
        text.replace(keys.signing.hex(), stranger.signing.hex()),
        text.replace(keys.first_key.hex(), stranger.first_key.hex()),
        text.replace('"statements": [', '"statements": [3, '),
        text.replace('"statements": [', '"statements": {}, "other": ['),
    ):
        path.write_text(broken)
        with pytest.raises(SettingsError):
            Keys.read(path)
