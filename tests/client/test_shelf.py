"""The shelf: withdrawn items are on no list, new ones may be, and older shelves are refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.client import Client, TermsError
from sottovoce.client.reporting import find_reported_rows
from sottovoce.errors import ProtocolError, StoreError, UntrustedError
from sottovoce.protocol import (
    Catalogue,
    Item,
    KeyStatement,
    Release,
    Shelf,
    SignedShelf,
    make_patch,
)
from tests.client.world import DAY, FakeProxy, World, item

NEW = Item("new", "New", {"genre": ("x" * 100,)})
GONE = item(5)
LATER = DAY + 60


def lay_out(proxy: FakeProxy, published: int, *items: Item) -> Catalogue:
    """Put all items except `GONE` on the shelf, and these."""
    world = proxy.world
    left = [item for item in world.catalogue.items if item.id != GONE]
    shelf = Catalogue.from_items([*left, *items])
    world.add(shelf.raw)
    proxy.shelved = world.shelf(published, shelf.hash).encode()
    return shelf


def list_recommended(client: Client) -> set[str]:
    return {entry.id for entry in client.recommend(1_000)}


def look(client: Client, proxy: FakeProxy) -> set[str]:
    client.look(proxy, sleep=lambda _: None)
    return list_recommended(client)


def test_new_shelf_removes_and_adds_items_at_the_next_sync(
    client: Client, proxy: FakeProxy
) -> None:
    assert GONE in look(client, proxy)
    shelf = lay_out(proxy, LATER, NEW)
    ids = look(client, proxy)
    assert GONE not in ids
    assert NEW.id in ids
    assert client.list_catalogue() == shelf.items
    assert proxy.received == [], "a look reports nothing"


def lay_out_patch(proxy: FakeProxy, shelf: Catalogue, patch: bytes) -> None:
    """Put a catalogue on the shelf that names this patch, and forget the calls so far."""
    world = proxy.world
    signed = Shelf(LATER, world.add(shelf.raw), world.add(patch))
    proxy.shelved = SignedShelf.make(signed, world.signing_key).encode()
    proxy.calls.clear()


def test_catalogue_is_made_from_the_one_before(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    look(client, proxy)
    shelf = lay_out(proxy, LATER, NEW)
    patch = make_patch(shelf.raw, [world.catalogue.raw])
    assert patch is not None
    lay_out_patch(proxy, shelf, patch)
    assert NEW.id in look(client, proxy)
    assert proxy.calls == ["manifest", "shelf", "patch"]


@pytest.mark.parametrize("lie", ["another base", "another file", "malformed"])
def test_catalogue_is_fetched_whole_where_no_patch_gives_it(
    client: Client, proxy: FakeProxy, world: World, lie: str
) -> None:
    look(client, proxy)
    shelf, before = lay_out(proxy, LATER, NEW), world.catalogue.raw
    patch = make_patch(shelf.raw, [before + b" "] if lie == "another base" else [before])
    if lie == "another file":
        patch = make_patch(shelf.raw + b" ", [before])
    lay_out_patch(proxy, shelf, b"SVP2" if lie == "malformed" else patch or b"")
    assert NEW.id in look(client, proxy)
    assert proxy.calls == ["manifest", "shelf", "patch", "catalogue"]


def test_client_that_has_forgotten_asks_like_a_new_one(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    """Ask for no patch: it would show that this device had a file before."""
    look(client, proxy)
    shelf = lay_out(proxy, LATER, NEW)
    lay_out_patch(proxy, shelf, make_patch(shelf.raw, [world.catalogue.raw]) or b"")
    client.forget()
    look(client, proxy)
    assert proxy.calls == ["manifest", "shelf", "model", "catalogue", "catalogue"]


def test_sync_may_begin_while_a_look_at_the_shelf_waits(client: Client, proxy: FakeProxy) -> None:
    outcomes = []
    client.look(proxy, sleep=lambda _: outcomes.append(client.sync(proxy, jitter=0).outcome))
    assert outcomes == ["sent"]


def test_shelf_is_fetched_right_after_the_manifest(
    client: Client, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read files later: the time that this takes depends on what else the device computes."""
    look(client, proxy)
    proxy.calls.clear()
    read = client._store.get_file

    def file(sha256: bytes) -> bytes | None:
        proxy.calls.append("file")
        return read(sha256)

    monkeypatch.setattr(client._store, "get_file", file)
    client.look(proxy, sleep=lambda _: None)
    assert proxy.calls[:3] == ["manifest", "shelf", "file"]


def test_reports_are_for_the_catalogue_of_the_manifest(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ignore the shelf: the rows of an epoch's model are those of its manifest."""
    rows: list[list[int]] = []

    def find_and_note(release: Release, moments: dict[str, int]) -> list[int]:
        assert release.catalogue.hash == world.catalogue.hash
        rows.append(find_reported_rows(release, moments))
        return rows[-1]

    monkeypatch.setattr("sottovoce.client.syncing.find_reported_rows", find_and_note)
    proxy = FakeProxy(world)
    with world.create(tmp_path / "client") as client:
        client.record([GONE, item(9)])
        lay_out(proxy, LATER, NEW)
        assert client.sync(proxy).outcome == "sent"
    assert rows == [[5, 9]]


def sign_by_stranger(world: World) -> bytes:
    shelf = Shelf(LATER + 1, world.catalogue.hash)
    return SignedShelf.make(shelf, Ed25519PrivateKey.generate()).encode()


def add_larger_catalogue(world: World) -> bytes:
    most = world.terms().max_items
    many = Catalogue.from_items(Item(f"x{number}", "X") for number in range(most + 1))
    return world.shelf(LATER + 1, world.add(many.raw)).encode()


def name_other_bytes(world: World) -> bytes:
    world.files[bytes(32)] = world.catalogue.raw
    return world.shelf(LATER + 1, bytes(32)).encode()


LIES: dict[str, Callable[[World], bytes]] = {
    "older": lambda world: world.shelf(LATER - 1, world.catalogue.hash).encode(),
    "a second of the same time": lambda world: world.shelf(LATER, world.catalogue.hash).encode(),
    "a stranger's": sign_by_stranger,
    "a manifest": lambda world: world.signed(1).encode(),
    "another file": name_other_bytes,
    "larger than the terms allow": add_larger_catalogue,
    "no catalogue": lambda world: world.shelf(LATER + 1, world.add(b"{}")).encode(),
}


@pytest.mark.parametrize("lie", LIES)
def test_forged_shelf_changes_no_list(
    lie: str, client: Client, proxy: FakeProxy, world: World
) -> None:
    lay_out(proxy, LATER)
    before = look(client, proxy)
    honest, proxy.shelved = proxy.shelved, LIES[lie](world)
    for _ in range(2):
        with pytest.raises(ProtocolError):
            client.look(proxy, sleep=lambda _: None)
        with pytest.raises(ProtocolError):
            client.sync(proxy)
    assert list_recommended(client) == before
    assert proxy.received == []
    proxy.shelved = honest
    assert client.sync(proxy).outcome == "sent"


def test_older_shelf_is_refused_even_after_forgetting(client: Client, proxy: FakeProxy) -> None:
    first = proxy.shelved
    lay_out(proxy, LATER)
    look(client, proxy)
    client.forget()
    proxy.shelved = first
    with pytest.raises(UntrustedError):
        client.look(proxy, sleep=lambda _: None)


def test_withdrawn_items_are_hidden_without_consent_to_worse_terms(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    assert GONE in look(client, proxy)
    proxy.publish(world.signed(2, epsilon=3.0))
    for number in range(4):
        shelf = lay_out(proxy, 2 * DAY + number, Item(f"new {number}", "New"))
        for _ in range(2):
            with pytest.raises(TermsError):
                client.look(proxy, sleep=lambda _: None)
            assert client.list_catalogue() == shelf.items
    assert client.get_status().epoch == 1
    (files,) = client._store._db.row("SELECT count(*) FROM files")
    assert files == 3, "the model, its catalogue and the shelf's: no answer may take for ever"


def test_withdrawn_items_are_hidden_without_consent_to_a_larger_catalogue(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    before = look(client, proxy)
    most = world.terms().max_items
    proxy.publish(world.signed(2, max_items=10 * most))
    lay_out(proxy, 2 * DAY, *(Item(f"new {number}", "New") for number in range(most)))
    for _ in range(2):
        with pytest.raises(TermsError):
            client.look(proxy, sleep=lambda _: None)
        assert list_recommended(client) == before - {GONE}
    others = Catalogue.from_items(Item(f"other {number}", "Other") for number in range(most + 1))
    proxy.shelved = world.shelf(2 * DAY + 1, world.add(others.raw)).encode()
    with pytest.raises(TermsError):
        client.look(proxy, sleep=lambda _: None)
    with pytest.raises(StoreError):
        client.recommend(1)
    client.accept(world.terms(max_items=10 * most), 100.0)
    assert look(client, proxy) == {item.id for item in others.items}


def test_withheld_shelf_does_not_restore_items_that_the_manifest_lacks(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    kept_back = proxy.shelved
    look(client, proxy)
    world.catalogue = Catalogue.from_items(
        Item("other", old.title, old.tags) if old.id == GONE else old
        for old in world.catalogue.items
    )
    world.add(world.catalogue.raw)
    world.now += DAY
    proxy.publish(world.signed(2))
    proxy.shelved = kept_back
    assert GONE not in look(client, proxy)


def test_shelf_with_a_wrong_date_is_replaced(client: Client, proxy: FakeProxy) -> None:
    lay_out(proxy, LATER + 2 * DAY)
    with pytest.raises(UntrustedError):
        client.look(proxy, sleep=lambda _: None)
    lay_out(proxy, LATER, NEW)
    assert NEW.id in look(client, proxy)


def test_shelf_may_be_signed_by_the_next_key_before_any_manifest(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    """Accept the shelf without trusting its key: the manifest is still by the old key."""
    old, new = world.signing_key, Ed25519PrivateKey.generate()
    statement = KeyStatement.make(old, new.public_key().public_bytes_raw())
    shelf = lay_out(proxy, LATER)
    signed = SignedShelf.make(Shelf(LATER, shelf.hash), new, (statement,))
    proxy.shelved = signed.encode()
    for _ in range(2):
        assert GONE not in look(client, proxy)
