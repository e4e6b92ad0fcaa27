"""The server's keys, and the destruction of an epoch's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sottovoce.errors import SettingsError, StoreError
from sottovoce.server import Keys
from tests.server.world import World, chunk_of, sealed

if TYPE_CHECKING:
    from tests.server.conftest import MakeWorld


def test_keys_are_read_back_and_only_their_owner_can(tmp_path: Path) -> None:
    keys, path = Keys.generate(), tmp_path / "keys.json"
    keys.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Keys.read(path) == keys
    assert keys.signing.hex() not in repr(keys)
    assert keys.wrapping.hex() not in repr(keys)
    with pytest.raises(SettingsError, match="nothing is overwritten"):
        Keys.generate().write(path)
    assert Keys.read(path) == keys


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_keys_that_others_may_read_are_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys.json"
    Keys.generate().write(path)
    path.chmod(mode)
    with pytest.raises(SettingsError, match="others may read the keys"):
        Keys.read(path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        json.dumps({"version": 2, "signing": "a" * 64, "wrapping": "b" * 64}),
        json.dumps({"version": 1, "signing": "a" * 63, "wrapping": "b" * 64}),
        json.dumps({"version": 1, "signing": "a" * 64, "wrapping": "b" * 64, "more": 1}),
        "x" * 5000,
    ],
)
def test_malformed_keys_are_refused_and_not_shown(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.json"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(SettingsError) as refused:
        Keys.read(path)
    assert "a" * 32 not in str(refused.value)
    with pytest.raises(SettingsError, match="cannot be read"):
        Keys.read(tmp_path / "missing.json")


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
        with pytest.raises(StoreError, match="must belong together"):
            other.unwrap(epoch, data)


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("server.sqlite*")))


def test_nothing_of_an_applied_epochs_key_or_chunks_is_left_in_the_files(
    make_world: MakeWorld, sqlite_url: str, tmp_path: Path
) -> None:
    world = make_world(sqlite_url)
    signed = world.closed()
    with world.store.read() as transaction:
        wrapped = transaction.wrapped_key(1)
    assert wrapped is not None
    private = world.keys.unwrap(1, wrapped)
    assert wrapped in everything_in(tmp_path)
    assert private not in everything_in(tmp_path)
    chunk = world.chunk(signed, 30)
    world.apply(signed, chunk)
    left = everything_in(tmp_path)
    assert world.signed().manifest.epoch == 2
    assert signed.hash in left, "the epoch itself is kept"
    for secret in (wrapped, wrapped[12:44], wrapped[:12], private, chunk.name.encode()):
        assert secret not in left
    assert (tmp_path / "server.sqlite-wal").stat().st_size == 0


def test_a_reader_in_the_way_only_delays_the_scrubbing(
    make_world: MakeWorld, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.server.store.store.BUSY_SECONDS", 0)
    world = make_world(sqlite_url)
    signed = world.closed()
    with world.store.read() as transaction:
        wrapped = transaction.wrapped_key(1)
        assert wrapped is not None
        world.apply(signed, world.chunk(signed, 30))
        assert wrapped in everything_in(tmp_path)
    world.server.tick()
    assert wrapped not in everything_in(tmp_path)


def test_an_applied_epochs_key_is_gone_from_every_database(world: World) -> None:
    signed = world.closed()
    world.apply(signed, world.chunk(signed, 30))
    with world.store.read() as transaction:
        assert transaction.wrapped_key(1) is None
        assert transaction.wrapped_key(2) is not None
        assert transaction.chunk_names(1) == set()
        assert transaction.crowds(1) == transaction.counts(1) == {}
        assert transaction.sums(1).any()


def test_nothing_raw_is_ever_stored(make_world: MakeWorld, sqlite_url: str, tmp_path: Path) -> None:
    world = make_world(sqlite_url)
    signed = world.closed()
    data = sealed(world.reports(30), signed)
    world.send("east", chunk_of(data, signed))
    left = everything_in(tmp_path)
    for at in range(0, len(data), 52):
        assert data[at : at + 12] not in left
        assert data[at + 32 : at + 52] not in left
