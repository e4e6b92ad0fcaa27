"""The signing key is replaced from several sides at once: one chain, and nobody is locked out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from sottovoce.errors import SettingsError, StoreError, UnavailableError
from sottovoce.protocol import SignedManifest
from sottovoce.server import Keys, ServerStore
from sottovoce.server.keys import rotate_keys
from sottovoce.server.store import Transaction
from tests.server.world import KEYS, World

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.server.store import Service

AT_ONCE = 6


def service(world: World) -> Service:
    with world.store.read() as transaction:
        found = transaction.service()
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
    worker.apply(worker.closed())
    signed = worker.signed()
    world.now = worker.now
    worker.close()
    return signed


def test_who_replaces_one_file_at_once_makes_one_chain(world: World, tmp_path: Path) -> None:
    world.server.tick()
    (path,) = copies(tmp_path, 1)
    made = rotated_at_once(world, [path] * AT_ONCE)
    keys = Keys.read(path)
    shown = [each.verification_key for each in made if isinstance(each, Keys)]
    assert sorted(shown) == sorted(each.key for each in keys.statements)
    assert len(set(shown)) == AT_ONCE
    assert service(world).newest_key == keys.verification_key
    raw = published_by(world, path).encode()
    for pinned in (KEYS.verification_key, *shown):
        assert SignedManifest.open(raw, pinned).key == keys.verification_key


def test_of_several_machines_one_replaces_the_key(world: World, tmp_path: Path) -> None:
    world.server.tick()
    paths = copies(tmp_path, AT_ONCE)
    made = rotated_at_once(world, paths)
    (won,) = (n for n, each in enumerate(made) if isinstance(each, Keys))
    for n, refused in enumerate(made):
        if n != won:
            assert "not in the keys file: copy the file" in str(refused)
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
    with pytest.raises(SettingsError, match="copy the file"):
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
    with pytest.raises(SettingsError, match="newest verification key"):
        worker.apply(worker.closed())
    worker.close()
    late = World(world.settings, Keys.read(first), now=world.now)
    with pytest.raises(SettingsError, match="newest verification key"):
        late.server.prepare()
    late.close()
    signed = published_by(world, second)
    assert signed.key == Keys.read(second).verification_key
    with pytest.raises(SettingsError, match="devices know the verification key"):
        rotate_keys(world.store, first, newest_is_lost=True)


def test_a_worker_with_the_old_key_goes_on_and_says_so(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.tick()
    rotate_keys(world.store, copies(tmp_path, 1)[0])
    old = world.another()
    old.server.tick()
    assert "copy the newest keys file here" in caplog.text
    old.server.check()
    old.apply(old.closed())
    assert old.signed().key == KEYS.verification_key


def test_a_worker_says_at_once_that_another_key_signs(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also while others publish, and once for each key; it is not ready when it cannot sign."""
    world.server.tick()
    assert "\nsottovoce_server_key_is_old 0.0\n" in world.server.measured().decode()
    (path,) = copies(tmp_path, 1)
    rotate_keys(world.store, path)
    for _ in range(3):
        world.server.tick()
    assert caplog.text.count("copy the newest keys file here") == 1
    assert "\nsottovoce_server_key_is_old 1.0\n" in world.server.measured().decode()
    world.server.check()
    published_by(world, path)
    with pytest.raises(UnavailableError, match="can publish nothing: devices know"):
        world.server.check()
    caplog.clear()
    for _ in range(3):
        world.server.tick()
    assert caplog.text.count("copy the newest keys file here") == 1


def test_without_a_database_nothing_is_replaced(sqlite_url: str, tmp_path: Path) -> None:
    (path,) = copies(tmp_path, 1)
    store = ServerStore(sqlite_url)
    store.migrate()
    with pytest.raises(SettingsError, match="the database is not set up"):
        rotate_keys(store, path)
    assert Keys.read(path) == KEYS
    store.close()
