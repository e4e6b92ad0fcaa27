"""The server's keys: their file, an epoch's key and its end, and the chain of signing keys."""

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
from tests.server.changes import change_catalogue, read_pending
from tests.server.world import KEYS, MakeWorld, World


def test_only_their_owner_can_read_keys(tmp_path: Path) -> None:
    keys, path = Keys.generate(), tmp_path / "keys.json"
    keys.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Keys.read(path) == keys
    assert keys.signing.hex() not in repr(keys)
    assert keys.wrapping.hex() not in repr(keys)
    with pytest.raises(SettingsError):
        Keys.generate().write(path)
    assert Keys.read(path) == keys, "the file is not overwritten"
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
    with pytest.raises(SettingsError) as error:
        Keys.read(path)
    assert "a" * 32 not in str(error.value)


def test_a_wrapped_key_opens_only_with_its_keys_and_epoch() -> None:
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


def read_database(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("server.sqlite*")))


def test_the_files_contain_no_raw_report_and_no_key_of_an_applied_epoch(
    make_world: MakeWorld, sqlite_url: str, tmp_path: Path
) -> None:
    world = make_world(sqlite_url)
    signed = world.close_epoch()
    with world.store.read() as transaction:
        wrapped = transaction.find_wrapped_key(1)
    assert wrapped is not None
    private = world.keys.unwrap(1, wrapped)
    assert wrapped in read_database(tmp_path)
    assert private not in read_database(tmp_path)
    chunk = world.make_chunk(signed, 30)
    world.send("east", chunk)
    content = read_database(tmp_path)
    for start in range(0, len(chunk.sealed), 52):
        assert chunk.sealed[start : start + 12] not in content
        assert chunk.sealed[start + 32 : start + 52] not in content
    world.apply(signed, chunk)
    content = read_database(tmp_path)
    assert world.get_signed().manifest.epoch == 2
    assert signed.hash in content, "the epoch itself stays"
    for secret in (wrapped, wrapped[12:44], wrapped[:12], private, chunk.name.encode()):
        assert secret not in content
    assert (tmp_path / "server.sqlite-wal").stat().st_size == 0


def test_an_applied_epochs_key_is_deleted_from_every_database(world: World) -> None:
    signed = world.close_epoch()
    world.apply(signed, world.make_chunk(signed, 30))
    with world.store.read() as transaction:
        assert transaction.find_wrapped_key(1) is None
        assert transaction.find_wrapped_key(2) is not None
        assert transaction.list_chunk_names(1) == set()
        assert transaction.get_crowds(1) == transaction.get_counts(1) == {}
        assert transaction.get_sums(1).any()


def get_service(world: World) -> Service:
    with world.store.read() as transaction:
        return transaction.get_service()


def rotate_at_once(world: World, paths: list[Path]) -> list[Keys | SettingsError]:
    """Rotate the keys of several files at the same moment, over one connection for each."""
    barrier = Barrier(len(paths))

    def rotate(path: Path) -> Keys | SettingsError:
        store = ServerStore(world.settings.database)
        barrier.wait()
        try:
            return rotate_keys(store, path)
        except SettingsError as error:
            return error
        finally:
            store.close()

    with ThreadPoolExecutor(len(paths)) as threads:
        return list(threads.map(rotate, paths))


def write_copies(folder: Path, number: int) -> list[Path]:
    """Write the keys file of that many machines."""
    paths = [folder / f"keys{n}.json" for n in range(number)]
    for path in paths:
        KEYS.write(path)
    return paths


def publish_with(world: World, path: Path) -> SignedManifest:
    """Return the next manifest of a worker that starts with this file."""
    worker = World(world.settings, Keys.read(path), now=world.now)
    worker.apply(worker.close_epoch())
    signed = worker.get_signed()
    world.now = worker.now
    worker.close()
    return signed


def test_only_one_of_several_machines_replaces_the_key(world: World, tmp_path: Path) -> None:
    world.server.tick()
    paths = write_copies(tmp_path, 6)
    results = rotate_at_once(world, paths)
    (winner,) = (n for n, result in enumerate(results) if isinstance(result, Keys))
    for n, result in enumerate(results):
        if n != winner:
            assert isinstance(result, SettingsError)
            assert Keys.read(paths[winner]).verification_key.hex() in str(result)
            assert Keys.read(paths[n]) == KEYS, "a refused file is not changed"
    old = paths[winner - 1]
    assert publish_with(world, old).key == KEYS.verification_key, "it goes on meanwhile"
    Keys.read(paths[winner]).replace(old)
    rotate_keys(world.store, old)
    newest = Keys.read(old)
    assert len(newest.statements) == 2
    raw = publish_with(world, old).encode()
    for pinned in (KEYS, Keys.read(paths[winner]), newest):
        opened = SignedManifest.open(raw, pinned.verification_key)
        assert opened.key == newest.verification_key


@pytest.fixture
def interrupted(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return two files, of which the first has a new key that is not in the database."""
    world.server.tick()
    paths = write_copies(tmp_path, 2)

    def fail(_: Transaction, __: bytes) -> None:
        raise StoreError("the database is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "set_newest_key", fail)
        with pytest.raises(StoreError):
            rotate_keys(world.store, paths[0])
    assert len(Keys.read(paths[0]).statements) == 1
    assert get_service(world).newest_key == KEYS.verification_key
    return paths


def test_a_worker_makes_the_database_follow_its_file(world: World, interrupted: list[Path]) -> None:
    # The database may have been restored.
    first, second = interrupted
    worker = World(world.settings, Keys.read(first), now=world.now)
    worker.server.prepare()
    assert get_service(world).newest_key == worker.keys.verification_key
    with pytest.raises(SettingsError, match=worker.keys.verification_key.hex()):
        rotate_keys(world.store, second)
    worker.close()
    rotate_keys(world.store, first)
    assert len(publish_with(world, first).statements) == 2


def test_a_key_that_another_has_overtaken_never_signs(
    world: World, interrupted: list[Path]
) -> None:
    # Neither a worker that starts with it nor one that runs may sign.
    first, second = interrupted
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
    signed = publish_with(world, second)
    assert signed.key == Keys.read(second).verification_key
    with pytest.raises(SettingsError, match=signed.key.hex()):
        rotate_keys(world.store, first, newest_is_lost=True)


def test_a_worker_reports_at_once_that_another_key_was_made(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # It goes on meanwhile, logs it once, and is not ready when it cannot sign.
    world.server.tick()
    assert b'problem{name="keys"} 0.0' in world.server.render_metrics()
    (path,) = write_copies(tmp_path, 1)
    rotate_keys(world.store, path)
    for _ in range(3):
        world.server.tick()
    assert len(caplog.messages) == 1
    assert b'problem{name="keys"} 1.0' in world.server.render_metrics()
    world.server.check_ready()
    publish_with(world, path)
    with pytest.raises(UnavailableError):
        world.server.check_ready()


def test_a_worker_reports_at_once_that_its_keys_file_is_lost(world: World, tmp_path: Path) -> None:
    # It goes on with the keys that it has read.
    path = world.settings.keys
    path.rename(tmp_path / "kept.json")
    world.server.tick()
    assert str(path) in world.server.troubles.texts[0]
    assert b'problem{name="keys"} 1.0' in world.server.render_metrics()
    world.server.check_ready()
    (tmp_path / "kept.json").rename(path)
    world.server.tick()
    assert world.server.troubles.texts == []
    assert b'problem{name="keys"} 0.0' in world.server.render_metrics()


def test_a_worker_with_the_last_key_still_signs_the_shelf(world: World, tmp_path: Path) -> None:
    # A key was made, and no worker has it yet: lists must not wait for a restart.
    world.server.tick()
    (path,) = write_copies(tmp_path, 1)
    rotate_keys(world.store, path)
    change_catalogue(world.store, remove=["film-0"])
    world.server.tick()
    shelf = world.server.get_signed_shelf()
    assert shelf.key == world.get_signed().key
    assert shelf.shelf.catalogue == read_pending(world.store).catalogue.hash
    publish_with(world, path)
    newer = world.server.get_signed_shelf()
    change_catalogue(world.store, remove=["film-1"])
    world.server.tick()
    assert world.server.get_signed_shelf() == newer, "the key was replaced"


def test_signing_keys_change_in_one_direction_only(world: World) -> None:
    # Devices that know the first key follow; those that know the second refuse the first.
    first = world.run_epoch()
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
    assert newer.get_signed().hash == signed.hash, "the old key publishes nothing"
    assert world.get_signed().hash == signed.hash, "a worker serves what others publish"
    # Keys of another chain.
    stranger = World(world.settings, third)
    with pytest.raises(SettingsError, match=second.verification_key.hex()):
        stranger.server.tick()
    for other in (newer, stranger):
        other.close()


def test_replaced_keys_keep_their_link_and_owner(tmp_path: Path) -> None:
    # The server must be able to read them.
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
