"""A real server and a real proxy over real HTTP; beats by hand: epochs turn when told to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from sottovoce import proxy as proxies
from sottovoce import server as servers
from sottovoce.client.recommending import Recommendation, list_recommendations
from sottovoce.client.reporting import make_batch
from sottovoce.core import draw_os_words
from sottovoce.data import synthetic_people
from sottovoce.protocol import (
    Catalogue,
    Manifest,
    Release,
    Shelf,
    SignedManifest,
    SignedShelf,
    Terms,
    derive_public_key,
    open_reports,
    verify_release,
)
from sottovoce.proxy import HttpUpstream, Proxy
from sottovoce.sandbox.demo import DEMO_NOTICE
from sottovoce.sandbox.setup import make_invented_panel
from sottovoce.server import InProcessOpener, Keys, Server, ServerSettings
from sottovoce.server.agreement import begin_service
from sottovoce.server.setup import list_catalogue_items
from sottovoce.service.page import Page
from sottovoce.training import Participation, Settings
from tests.live.stack import detach_tick
from tests.proxy.world import accept, open_store
from tests.proxy.world import settings as proxy_settings
from tests.server.world import KEYS, SECRETS, make_settings
from tests.web.front import Front, served

if TYPE_CHECKING:
    from sottovoce.protocol.panel import Panel
    from sottovoce.server.transaction import Epoch

PROXY = "east"
HOUR = 3_600
SOON = 1
LEAST = 3


class System:
    """One training on invented people. `turn` ends an epoch and opens the next."""

    def __init__(
        self,
        folder: Path,
        opened: ExitStack,
        *,
        films: int = 120,
        reports: int = 20,
        people: int,
        mechanism: str = "loudest",
        origins: tuple[str, ...] = (),
        accounts_key: str | None = None,
        keys: Keys = KEYS,
    ):
        self._opened = opened
        self.keys = keys
        self._accounts_key = accounts_key
        # An epoch without reports ends by its time alone: with accounts the first ones are such.
        self._ahead = SOON - HOUR if accounts_key else 0
        self.catalogue = _write_catalogue(folder, people, films)
        self.people = [
            [self.catalogue.items[row].id for row in rows] for rows in _histories(people, films)
        ]
        """What each has touched."""
        self.panel = _write_panel(folder, people, films, self.catalogue)
        training = Settings.preset(mechanism, reports=reports, epochs=1000)
        settings = make_settings(
            folder,
            f"sqlite:///{folder / 'server.sqlite'}",
            training=training,
            epoch_seconds=HOUR,
        )
        accounts = accounts_key is not None
        settings = replace(
            settings,
            proxies={PROXY: settings.proxies[PROXY]},
            terms=Participation(min_clients=1 if accounts else LEAST, hold=HOUR, accounts=accounts),
        )
        self.store = servers.ServerStore(settings.database)
        opened.callback(self.store.close)
        begin_service(self.store, settings, keys)
        self._start(keys, settings)
        self.server_url = opened.enter_context(served(servers.build_app(self.server, settings)))
        self.front = self._proxy(folder / "proxy", folder / "panel.json", origins)

    def _start(self, keys: Keys, settings: ServerSettings) -> None:
        self.keys, self.settings = keys, settings
        self.server = Server(
            self.store, keys, settings, clock=self._clock, opener=InProcessOpener()
        )
        self._beat_server = detach_tick(self.server)
        self._beat_server()

    def _proxy(self, folder: Path, panel: Path, origins: tuple[str, ...]) -> Front:
        settings = proxy_settings(
            folder,
            verification_key=self.keys.verification_key.hex(),
            chunk_reports=1000,
            keep_models=61,
            page=Page(serve=True, panel=panel, notice=DEMO_NOTICE),
            origins=origins,
            accounts_key=self._accounts_key,
        )
        store = self._opened.enter_context(open_store(folder))
        http = self._opened.enter_context(httpx.Client(trust_env=False))
        upstream = HttpUpstream(http, self.server_url, SECRETS[PROXY])
        clock = self._clock
        self.proxy = Proxy(store, upstream, settings, clock=clock, monotonic=clock)
        self._beat_proxy = detach_tick(self.proxy)
        front = Front(proxies.build_app(self.proxy, settings))
        front.url = self._opened.enter_context(served(front))
        self._beat_proxy()
        return front

    def _clock(self) -> float:
        """Return the browser's time, or that at which an epoch ends."""
        return time.time() + self._ahead

    @property
    def url(self) -> str:
        return self.front.url

    def signed(self) -> SignedManifest:
        """Return what the proxy serves, as the server signed it."""
        signed = self.proxy.manifest
        assert signed is not None
        return signed

    def published_of(self, epoch: int) -> bytes:
        """Return the signed manifest of this or an earlier epoch."""
        manifest = self.proxy.mirror.read_manifest(epoch)
        assert manifest is not None
        return manifest

    def release(self, signed: SignedManifest) -> Release:
        """Return the release as a Python client has it."""
        model = self.proxy.mirror.read_model(signed.manifest.model)
        assert model is not None
        catalogue = self.proxy.mirror.read_catalogue(signed.manifest.catalogue)
        assert catalogue is not None
        return verify_release(signed, model, catalogue)

    def cost(self) -> float:
        """Return the cost of one epoch."""
        manifest = self.signed().manifest
        return manifest.terms.epsilon * manifest.terms.reports

    def turn(self, *, report: bool = True) -> Epoch:
        """Let everybody report, then end, count and apply the epoch; return it."""
        epoch = self.signed().manifest.epoch
        if report:
            release = self.release(self.signed())
            for films in self.people:
                rows = release.rows_of(films)
                batch = make_batch(release, rows, 0.0, draw_os_words, os.urandom)
                accept(self.proxy, batch.batch)
        self._end(with_crowd=report)
        assert self.signed().manifest.epoch == epoch + 1
        with self.store.read() as transaction:
            over = transaction.find_epoch(epoch)
        assert over is not None
        assert over.state == "applied"
        return over

    def _end(self, *, with_crowd: bool) -> None:
        """End the epoch: with a crowd by its time, otherwise when the wait for a crowd ends."""
        self._ahead = HOUR if with_crowd else 2 * HOUR
        if with_crowd:
            self._beat_proxy()  # which tells the server so
        self._beat_server()
        self._beat_proxy()
        self._ahead = 0
        self._beat_server()
        self._beat_proxy()

    def begin_accounts(self) -> None:
        """Go to the first epoch in which tokens are issued: it closes soon."""
        self._beat_all()
        assert self.signed().manifest.next_token_key is not None
        self._ahead = 0

    def turn_by_time(self) -> None:
        epoch, closes = self.signed().manifest.epoch, self.signed().manifest.closes
        time.sleep(max(closes - time.time(), 0))
        self._beat_all()
        assert self.signed().manifest.epoch == epoch + 1

    def _beat_all(self) -> None:
        for _ in range(3):
            self._beat_proxy()
            self._beat_server()
        self._beat_proxy()

    def private_key(self, epoch: int) -> bytes:
        """Return the key of an epoch that is still open: afterwards it is gone."""
        with self.store.read() as transaction:
            wrapped = transaction.find_wrapped_key(epoch)
        assert wrapped is not None
        key = KEYS.unwrap(epoch, wrapped)
        assert derive_public_key(key) == self.signed().manifest.public_key
        return key

    def opened(self, batch: bytes) -> list[int]:
        """Return the plain reports of a batch of the open epoch, in its order."""
        signed = self.signed()
        assert batch[:4] == b"SVB2"
        assert int.from_bytes(batch[4:8], "little") == signed.manifest.epoch
        assert batch[8:40] == signed.hash
        key = self.private_key(signed.manifest.epoch)
        directions = signed.manifest.build().n_directions
        opened = open_reports(batch[56:], key, signed.hash, directions)
        assert opened.undecodable == 0
        return [int(report) for report in opened.reports]

    def recommended(self, films: list[str], *, ordered: bool = True) -> list[Recommendation]:
        """Return the Python client's list for a person who saw these films.

        On the page films have no order; elsewhere they were touched one after the other.
        """
        return self.recommended_by(self.signed(), films, ordered=ordered)

    def recommended_by(
        self, signed: SignedManifest, films: list[str], *, ordered: bool = True
    ) -> list[Recommendation]:
        """Return the same list, from an earlier model."""
        moments = {film: at if ordered else 1 for at, film in enumerate(films)}
        return list_recommendations(self.release(signed), moments, 10)

    def signed_with(self, **changes: Any) -> bytes:
        """Return another manifest than the current one, signed with the server's true key."""
        present = self.signed().manifest
        asked = {term.name for term in fields(Terms)} & set(changes)
        terms = replace(present.terms, **{name: changes.pop(name) for name in asked})
        manifest: Manifest = replace(present, terms=terms, **changes)
        return SignedManifest.make(manifest, KEYS.signer).encode()

    def of_another_version(self) -> bytes:
        """Return the current manifest as version 3 of the protocol, signed by the server."""
        signed = self.signed()
        assert signed.statements == ()
        other = signed.raw.replace(b'"version":2', b'"version":3')
        assert other != signed.raw
        return signed.encode()[:5] + KEYS.signer.sign(SignedManifest.label + other) + other

    def shelf_with(self, catalogue: bytes) -> bytes:
        """Return another shelf that is validly signed and newer than the current one."""
        later = self.signed().manifest.closes
        return SignedShelf.make(Shelf(later, catalogue), KEYS.signer).encode()


def _histories(people: int, films: int) -> list[list[int]]:
    histories = synthetic_people(people, films, 0).histories
    return [histories[person].tolist() for person in range(people)]


def _write_catalogue(folder: Path, people: int, films: int) -> Catalogue:
    catalogue = Catalogue.from_items(list_catalogue_items(synthetic_people(people, films, 0)))
    (folder / "catalogue.json").write_bytes(catalogue.raw)
    return catalogue


def _write_panel(folder: Path, people: int, films: int, catalogue: Catalogue) -> Panel:
    source = f"synthetic:N={people},M={films},seed=0"
    panel = make_invented_panel(source, catalogue, synthetic_people(people, films, 0))
    assert panel is not None
    (folder / "panel.json").write_bytes(panel.encode())
    return panel


@contextmanager
def running(folder: Path, *, people: int = 24, **changes: Any) -> Iterator[System]:
    """Run a system in which one epoch is over, so that the model has learnt something."""
    with ExitStack() as opened:
        system = System(folder, opened, people=people, **changes)
        if "accounts_key" in changes:
            system.begin_accounts()
        else:
            system.turn()
        system.front.begin()
        yield system
