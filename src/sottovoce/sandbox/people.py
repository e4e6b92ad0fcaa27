"""Invented people who report: thousands in the demo, a few next to somebody who tries a service."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from math import inf
from random import Random

import httpx

from sottovoce.client import HttpProxy, ProxyApi
from sottovoce.client.fetching import check_terms
from sottovoce.core import Histories, Mechanism, draw_os_words, solve_user_vectors
from sottovoce.errors import ClosedError, SottovoceError, UnavailableError
from sottovoce.protocol import (
    Batch,
    Catalogue,
    Files,
    Newest,
    PublishedSource,
    Release,
    SignedManifest,
    fetch_manifest,
    fetch_release,
    seal_reports,
)
from sottovoce.protocol.batch import BATCH_ID_BYTES

# Histories without end, by the rows of a catalogue.
Inventor = Callable[[Catalogue], Iterator[list[int]]]

# Pause between two polls for the next epoch.
POLL_SECONDS = 0.2
# Pause before a batch is sent again to a busy proxy.
RESEND_SECONDS = 0.2
# People whose reports are computed at once.
PEOPLE_PER_PIECE = 32
# Fraction of an epoch over which people spread their reports.
SENDING_FRACTION = 0.9
# Companions who report in every epoch of a trial.
COMPANIONS_PER_EPOCH = 10
# Items that a companion touched, at most. They share a tag if items have tags.
MAX_COMPANION_ITEMS = 6
# Pause of companions before they begin again after an error or the end of a training.
COMPANION_RETRY_SECONDS = 5.0
# Settings of a trial: epochs end by themselves, with or without the person who tries it.
TRIAL_DEFAULTS = {"epoch_seconds": 20, "least_clients": 5}


class PublicReader:
    """Reads what one proxy publishes, and verifies it like a client."""

    def __init__(
        self,
        source: PublishedSource,
        key: bytes,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._source = source
        self._key = key
        self._clock = clock
        self._sleep = sleep
        self._newest: Newest | None = None
        self._files: Files = {}

    def read_manifest(self) -> SignedManifest:
        """Fetch the current manifest."""
        signed = fetch_manifest(self._source, self._key, self._newest)
        self._newest = signed.manifest.epoch, signed.hash
        return signed

    def read_release(self, signed: SignedManifest) -> Release:
        """Fetch the files of an epoch, except those that the last one had too."""
        release, self._files = fetch_release(signed, self._source, self._files.get)
        return release

    def wait_for_epoch_after(self, epoch: int, patience: float) -> SignedManifest:
        """Return the first manifest of a later epoch.

        Raises:
            UnavailableError: There was none within `patience` seconds.
        """
        deadline = self._clock() + patience
        problem = ""
        while self._clock() < deadline:
            try:
                signed = self.read_manifest()
                if signed.manifest.epoch > epoch:
                    return signed
            except UnavailableError as error:
                problem = f" ({error})"
            self._sleep(POLL_SECONDS)
        raise UnavailableError(
            f"epoch {epoch} was not applied within {patience:g} seconds{problem}. An epoch ends "
            "when its time is over and its crowd (least_clients) has come: let as many report, or "
            "wait longer (--wait)"
        )


class InventedPeople:
    """People who report once: new ones in every epoch, until the training ends.

    They send what devices would send under the terms of the first manifest that they saw. What
    protects a real person is missing: they have no ledger and no database.
    """

    def __init__(
        self,
        api: ProxyApi,
        key: bytes,
        invent: Inventor,
        per_epoch: int,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._api = api
        self._reader = PublicReader(api, key, sleep=sleep)
        self._invent = invent
        self._per_epoch = per_epoch
        self._clock = clock
        self._sleep = sleep

    def take_part(self) -> None:
        """Report in every epoch until the training ends."""
        signed = self._reader.wait_for_epoch_after(0, inf)
        accepted = signed.manifest.terms
        while signed.manifest.public_key is not None:
            check_terms(accepted, signed.manifest.terms)
            self._report(self._reader.read_release(signed))
            signed = self._reader.wait_for_epoch_after(signed.manifest.epoch, inf)

    def _report(self, release: Release) -> None:
        """Report one after the other; those for whom no time is left never report."""
        manifest = release.manifest
        mechanism, people = manifest.build(), self._invent(release.catalogue)
        pace = SENDING_FRACTION * (manifest.closes - manifest.opens) / self._per_epoch
        for first in range(0, self._per_epoch, PEOPLE_PER_PIECE):
            rows = list(islice(people, min(PEOPLE_PER_PIECE, self._per_epoch - first)))
            for number, batch in enumerate(_make_batches(release, mechanism, rows), first):
                self._sleep(max(manifest.opens + pace * number - self._clock(), 0.0))
                if not self._send(batch, manifest.ends):
                    return

    def _send(self, batch: bytes, ends: float) -> bool:
        """Send a batch, again if the proxy is busy; return False if the epoch is over."""
        while self._clock() < ends:
            try:
                self._api.send(batch)
            except ClosedError:
                return False
            except UnavailableError:
                self._sleep(RESEND_SECONDS)
            else:
                return True
        return False


def _make_batches(
    release: Release, mechanism: Mechanism, rows: Sequence[list[int]]
) -> Iterator[bytes]:
    """Yield the batches that `client.reporting.make_batch` makes one by one."""
    manifest, key = release.manifest, release.manifest.public_key
    assert key is not None, "they report only where reports are asked for"
    people = Histories.from_lists(rows, manifest.items)
    X = solve_user_vectors(
        release.V, people, alpha=manifest.alpha, regularization=manifest.regularization
    )
    words = draw_os_words(len(rows), manifest.terms.reports)
    for reports in mechanism.reports(release.V, X, people, words):
        sealed = seal_reports(reports, key, release.signed.hash)
        batch_id = os.urandom(BATCH_ID_BYTES)
        yield Batch(manifest.epoch, release.signed.hash, batch_id, sealed).encode()


def invent_companions(catalogue: Catalogue, random: Random) -> Iterator[list[int]]:
    """Yield histories without end: items of one tag, or any items if there are no tags."""
    rows_by_tag: dict[str, list[int]] = {}
    for row, item in enumerate(catalogue.items):
        for tags in item.tags.values():
            for tag in tags if isinstance(tags, tuple) else ():
                rows_by_tag.setdefault(tag, []).append(row)
    tastes = [rows for rows in rows_by_tag.values() if len(rows) > 1]
    tastes = tastes or [[*range(len(catalogue.items))]]
    while True:
        rows = random.choice(tastes)
        yield sorted(random.sample(rows, min(MAX_COMPANION_ITEMS, len(rows))))


def start_companions(url: str, key: bytes) -> None:
    """Let companions report to the proxy of `sottovoce up --trial`, as long as it runs."""

    def run() -> None:
        random = Random()  # noqa: S311 - of people, not of reports
        with httpx.Client(trust_env=False) as http:
            api = HttpProxy(http, url)
            invent = lambda catalogue: invent_companions(catalogue, random)  # noqa: E731
            while True:
                with suppress(SottovoceError):
                    InventedPeople(api, key, invent, COMPANIONS_PER_EPOCH).take_part()
                time.sleep(COMPANION_RETRY_SECONDS)

    threading.Thread(target=run, daemon=True, name="companions").start()
