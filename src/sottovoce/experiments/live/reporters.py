"""Invented people who report live, as fast as this machine allows.

What they send is what a device would send: made from the signed edition by the functions that
`client.reporting` calls, with the operating system's noise, sealed, posted to the proxy, under the
terms of the first manifest that they saw. A process makes the reports of several people at a time,
which is faster. What protects a real person is missing, since there is none: they have no ledger
and no database, and send at once.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from math import inf
from multiprocessing import get_context
from typing import TYPE_CHECKING

import httpx

from sottovoce.client import HttpProxy
from sottovoce.client.terms import check_terms
from sottovoce.errors import ClosedError, UnavailableError
from sottovoce.experiments.live.devices import SharedDownloads
from sottovoce.experiments.live.reader import PublicReader
from sottovoce.mechanism import os_words
from sottovoce.model import Histories, user_vectors
from sottovoce.protocol import Batch, seal_reports
from sottovoce.protocol.batch import ID
from sottovoce.workers import begin_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.context import SpawnProcess
    from typing import Self

    from sottovoce.client import ProxyApi
    from sottovoce.mechanism import Mechanism
    from sottovoce.protocol import Edition

MOST_PROCESSES = 8
AT_ONCE = 32
"""People whose reports a process makes in one go."""
RETRY_SECONDS = 0.2
_NICE = 5
_STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Group:
    """The people of one process."""

    url: str
    """The proxy's address."""
    key: bytes
    """The server's verification key."""
    rows: list[list[int]]
    """What each of them touched, as rows of the catalogue."""


class Reporters:
    """All invented people, in processes of low priority. Use it in a `with`."""

    def __init__(self, url: str, key: bytes, rows: Sequence[list[int]]):
        processes = min(os.cpu_count() or 1, MOST_PROCESSES, len(rows))
        groups = [Group(url, key, list(rows[at::processes])) for at in range(processes)]
        context = get_context("spawn")
        self._processes: list[SpawnProcess] = [
            context.Process(target=begin, args=(group,), daemon=True) for group in groups
        ]

    def check(self) -> None:
        """An error if one of them has failed; those who are finished have ended well."""
        for process in self._processes:
            if process.exitcode:
                raise UnavailableError(
                    "the process of the people who report has ended by itself with code "
                    f"{process.exitcode}; what it said last is above. Everything else was stopped"
                )

    def terminate(self) -> None:
        for process in self._processes:
            process.terminate()

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()
        for process in self._processes:
            process.join(_STOP_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()


def begin(group: Group) -> None:
    """In a process of its own."""
    begin_worker()
    os.nice(_NICE)
    with httpx.Client(trust_env=False) as http:
        take_part(group, SharedDownloads(HttpProxy(http, group.url)))


def take_part(
    group: Group,
    api: ProxyApi,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Epoch after epoch, until the training is finished."""
    reader = PublicReader(api, group.key, sleep=sleep)
    signed = reader.after(0, inf)
    accepted = signed.manifest.terms
    while signed.manifest.public_key is not None:
        check_terms(accepted, signed.manifest.terms)
        _report(reader.edition(signed), group, api, clock, sleep)
        signed = reader.after(signed.manifest.epoch, inf)


def _report(
    edition: Edition,
    group: Group,
    api: ProxyApi,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """One after the other, until all have or the epoch ends."""
    manifest = edition.manifest
    sleep(max(manifest.opens - clock(), 0.0))
    mechanism = manifest.build()
    for first in range(0, len(group.rows), AT_ONCE):
        some = group.rows[first : first + AT_ONCE]
        for batch in _batches(edition, mechanism, some):
            if not _send(batch, manifest.ends, api, clock, sleep):
                return


def _batches(edition: Edition, mechanism: Mechanism, rows: list[list[int]]) -> Iterator[bytes]:
    """What `client.reporting.make_batch` makes of each of them."""
    manifest, key = edition.manifest, edition.manifest.public_key
    assert key is not None, "they report only where reports are asked for"
    people = Histories.from_lists(rows, manifest.items)
    X = user_vectors(
        edition.V, people, alpha=manifest.alpha, regularization=manifest.regularization
    )
    words = os_words(len(rows), manifest.terms.reports)
    for reports in mechanism.reports(edition.V, X, people, words):
        sealed = seal_reports(reports, key, edition.signed.hash)
        yield Batch(manifest.epoch, edition.signed.hash, os.urandom(ID), sealed).encode()


def _send(
    batch: bytes,
    ends: float,
    api: ProxyApi,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> bool:
    """Whether the epoch is still open; a proxy that is busy is asked again."""
    while clock() < ends:
        try:
            api.send(batch)
        except ClosedError:
            return False
        except UnavailableError:
            sleep(RETRY_SECONDS)
        else:
            return True
    return False
