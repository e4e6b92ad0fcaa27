"""What a device downloads of 10,000 articles, in bytes as they travel from server and proxy."""

import asyncio
import gzip
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.applications import Starlette

from sottovoce.core.bounds import round_items
from sottovoce.protocol import (
    Catalogue,
    Files,
    Item,
    Newest,
    fetch_manifest,
    fetch_release,
    fetch_shelf,
)
from sottovoce.proxy.app import build_app
from sottovoce.server.administration import update_catalogue
from sottovoce.training import Settings
from sottovoce.training.start import Start
from tests.asgi import ask
from tests.proxy.world import Clock
from tests.proxy.world import World as ProxyWorld
from tests.server.world import KEYS, World, make_settings, make_start, write_start

ARTICLES = 10_000
FACTORS = 12
START_FACTORS = 16
# Most bytes that a device may download for a new epoch, and for one changed price.
EPOCH_BYTES = 250_000
PRICE_BYTES = 10_000


def make_catalogue(prices: Iterable[float]) -> Catalogue:
    """Return articles of a shop with these prices."""
    rng = np.random.default_rng(1)
    words = ["".join(chr(97 + letter) for letter in rng.integers(0, 26, 7)) for _ in range(3_000)]
    titles = [" ".join(rng.choice(words, 4)) for _ in range(ARTICLES)]
    return Catalogue.from_items(
        Item(
            f"sku-{rng.integers(10**9):09d}-{number}",
            title,
            {"category": (words[number % 40], words[40 + number % 9]), "price": price},
        )
        for number, (title, price) in enumerate(zip(titles, prices, strict=True))
    )


PRICES = np.random.default_rng(0).integers(100, 90_000, ARTICLES) / 100


@dataclass
class Download:
    """A source for a device, which counts the bytes that travel."""

    app: Starlette
    n_bytes: int = 0

    def _get(self, path: str) -> bytes:
        headers = [("accept-encoding", "gzip")]
        answer = asyncio.run(ask(self.app, "GET", f"/v2/{path}", headers=headers))
        assert answer.status == 200, path
        self.n_bytes += len(answer.body)
        is_compressed = answer.headers.get("content-encoding") == "gzip"
        return gzip.decompress(answer.body) if is_compressed else answer.body

    def manifest(self) -> bytes:
        return self._get("manifest")

    def shelf(self) -> bytes:
        return self._get("shelf")

    def model(self, sha256: bytes, max_bytes: int) -> bytes:
        return self._get(f"models/{sha256.hex()}")

    def catalogue(self, sha256: bytes) -> bytes:
        return self._get(f"catalogues/{sha256.hex()}")

    def patch(self, sha256: bytes) -> bytes:
        return self._get(f"patches/{sha256.hex()}")


class PublishedFiles(dict[bytes, bytes]):
    """The files of a real server."""

    def __init__(self, world: World):
        super().__init__()
        self._world = world

    def __missing__(self, sha256: bytes) -> bytes:
        kinds: Any = ("model", "catalogue", "patch")
        contents = (self._world.server.get_file(sha256, kind) for kind in kinds)
        return next(content for content in contents if content is not None)


class Shop:
    """A server, its proxy over HTTP, and a device."""

    def __init__(self, folder: Path, training: Settings, start: Start | None):
        self.items = make_catalogue(PRICES)
        (folder / "catalogue.json").write_bytes(self.items.raw)
        chosen = {} if start is None else {"start": write_start(folder, start)}
        settings = make_settings(folder, f"sqlite:///{folder / 'server.sqlite'}", **chosen)
        self.server = World.begin(replace(settings, training=training))
        self.server.server.tick()
        key = KEYS.verification_key.hex()
        first = self.server.get_signed()
        self.proxy = ProxyWorld(folder / "proxy", first, verification_key=key)
        self.proxy.server.files = PublishedFiles(self.server)
        self.newest: Newest | None = None
        self.files: Files = {}

    def change_prices(self, *numbers: int) -> None:
        """Give articles another price."""
        for number in numbers:
            old = self.items.items[number]
            new = replace(old, tags={**old.tags, "price": 7.77})
            listed = [*self.items.items[:number], new, *self.items.items[number + 1 :]]
            self.items = Catalogue.from_items(listed)
        update_catalogue(self.server.store, self.items)
        self.server.server.tick()

    def publish(self) -> Starlette:
        """Let the proxy fetch what the server has published; return its application."""
        upstream, mirror = self.proxy.server, self.proxy.proxy.mirror
        upstream.now = self.server.get_signed()
        upstream.shelved = self.server.server.get_signed_shelf()
        if (epoch := mirror.fetch_newer()) is not None:
            mirror.publish(epoch)
        if (shelf := mirror.fetch_newer_shelf()) is not None:
            mirror.publish_shelf(shelf)
        return build_app(self.proxy.proxy, self.proxy.settings, clock=Clock(0))

    def look(self) -> int:
        """Let the device fetch what is new; return the bytes that travelled."""
        source, use_patches = Download(self.publish()), bool(self.files)
        signed = fetch_manifest(source, KEYS.verification_key, self.newest)
        raw = source.shelf()
        _, files = fetch_release(signed, source, self.files.get, use_patches=use_patches)
        shelf, listed = fetch_shelf(
            signed,
            raw,
            source,
            (self.files | files).get,
            None,
            self.server.now,
            use_patches=use_patches,
        )
        assert listed[shelf.shelf.catalogue] == self.items.raw
        self.newest, self.files = (signed.manifest.epoch, signed.hash), files | listed
        return source.n_bytes

    def close(self) -> None:
        self.proxy.store.close()
        self.server.close()


def make_large_start() -> Start:
    V = np.random.default_rng(3).normal(size=(ARTICLES, START_FACTORS))
    ids = tuple(item.id for item in make_catalogue(PRICES).items)
    return Start(round_items(V), ids, make_start().provenance)


TASTE = Settings.preset("loudest", reports=5, epochs=5, factors=FACTORS)
NAMES = Settings.preset("named", reports=5, epochs=5, half_life=1.0)


@pytest.mark.parametrize(
    ("name", "training", "has_start"),
    [
        ("taste", TASTE, False),
        ("names", NAMES, False),
        ("names with a start", NAMES.copy_with(factors=START_FACTORS + 1), True),
    ],
)
def test_downloads_of_ten_thousand_articles_are_small(
    tmp_path: Path, name: str, training: Settings, *, has_start: bool
) -> None:
    """Print the figures in docs/operators.md (`pytest -s`)."""
    shop = Shop(tmp_path, training, make_large_start() if has_start else None)
    first = shop.look()
    shop.server.run_epoch()
    epoch = shop.look()
    shop.change_prices(4_321)
    price = shop.look()
    shop.change_prices(*range(0, 500, 5))
    prices = shop.look()
    # A device that was away for an epoch and two changes of prices, one on either side of it.
    shop.change_prices(9)
    shop.server.run_epoch()
    shop.change_prices(10)
    away = shop.look()
    print(f"{name}: {first=:,} {epoch=:,} {price=:,} {prices=:,} {away=:,} bytes")
    shop.close()
    assert epoch <= EPOCH_BYTES
    assert price <= PRICE_BYTES
    assert prices <= 2 * PRICE_BYTES
    assert away <= EPOCH_BYTES + 2 * PRICE_BYTES
