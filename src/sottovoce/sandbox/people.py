"""Invented people who report: thousands in the demo, or ten companions in a trial of a service."""

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

# A function that yields endless histories, as lists of rows of the catalogue.
Inventor = Callable[[Catalogue], Iterator[list[int]]]

# Seconds between two polls for the next epoch.
POLL_SECONDS = 0.2
# Seconds before a batch is sent again to a busy proxy.
RESEND_SECONDS = 0.2
# People whose reports are computed at once.
PEOPLE_PER_PIECE = 32
# Fraction of an epoch over which people spread their reports.
SENDING_FRACTION = 0.9
# Number of companions, the invented people who report in every epoch of a trial.
COMPANIONS_PER_EPOCH = 10
# Maximum number of items in the history of a companion. If items have tags, these items share one.
MAX_COMPANION_ITEMS = 6
# Seconds before companions begin again after an error or the end of a training.
COMPANION_RETRY_SECONDS = 5.0
# Settings of a trial. The companions are a crowd, so epochs end even if nobody else reports.
# Cost of a trial for one person: 20 turns of 100 reports.
TRIAL_COST = {"epsilon": 2.5, "reports": 100, "epochs": 20}
TRIAL_DEFAULTS = {"epoch_seconds": 20, "min_clients": 5}


class PublicReader:
    """Reads the files that a proxy publishes, and verifies them as a client does.

    Args:
        source: The proxy.
        key: Verification key of the server.
        clock: Returns seconds of a clock that is never adjusted.
        sleep: Waits for some seconds.
    """

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
        """Fetch the files of an epoch, except those that were fetched for the last epoch."""
        release, self._files = fetch_release(signed, self._source, self._files.get)
        return release

    def wait_for_epoch_after(self, epoch: int, patience: float) -> SignedManifest:
        """Wait for the manifest of an epoch later than `epoch`, and return it.

        Raises:
            UnavailableError: No such manifest came within `patience` seconds.
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
            "when its time is over and its crowd (min_clients) has come: let as many report, or "
            "wait longer (--wait)"
        )


class InventedPeople:
    """Simulates new people in every epoch, who each report once.

    Their batches are like those of devices that have accepted the terms of the manifest that is
    fetched first. These people have no ledger and no database, whose protection only real people
    need.

    Args:
        api: The proxy.
        key: Verification key of the server.
        invent: Yields the histories of the people.
        per_epoch: Number of people in each epoch.
        clock: Returns Unix seconds.
        sleep: Waits for some seconds.
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
        """Send the batches of all people, spread over the epoch, until the epoch is over."""
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
        """Send a batch, and repeat this while the proxy is busy.

        Returns:
            Whether the batch was sent before the end of the epoch.
        """
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
    """Yield the batches of several people, each as `client.reporting.make_batch` would make it."""
    manifest, key = release.manifest, release.manifest.public_key
    assert key is not None, "people report only in epochs that ask for reports"
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
    """Yield endless histories, each of items that share a tag, or of any items if none has tags."""
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
    """Start a thread in which companions report to a proxy until the process ends."""

    def run() -> None:
        random = Random()  # noqa: S311 - draws histories, not the noise of reports
        with httpx.Client(trust_env=False) as http:
            api = HttpProxy(http, url)
            invent = lambda catalogue: invent_companions(catalogue, random)  # noqa: E731
            while True:
                with suppress(SottovoceError):
                    InventedPeople(api, key, invent, COMPANIONS_PER_EPOCH).take_part()
                time.sleep(COMPANION_RETRY_SECONDS)

    threading.Thread(target=run, daemon=True, name="companions").start()
