"""Invented people who report live, at a visible pace.

What they send is what a device would send: made by `make_batch` from the signed edition, with the
operating system's noise, sealed, posted to the proxy, under the terms of the first manifest that
they saw. Only what protects a real person is missing, since there is none: they have no ledger and
no database, and send at once.
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
from sottovoce.client.reporting import make_batch
from sottovoce.client.terms import check_terms
from sottovoce.errors import ClosedError, UnavailableError
from sottovoce.experiments.live.devices import SharedDownloads
from sottovoce.experiments.live.reader import PublicReader
from sottovoce.mechanism import os_words
from sottovoce.model import Histories, initial_items, user_vectors
from sottovoce.protocol import new_epoch_key, public_key_of, seal_reports
from sottovoce.workers import begin_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.context import SpawnProcess
    from typing import Self

    from sottovoce.client import ProxyApi
    from sottovoce.protocol import Edition
    from sottovoce.training import Settings

PROCESSES = 2
SPREAD = 0.8
"""The share of an epoch over which they come, if the machine is fast enough."""
RETRY_SECONDS = 0.2
TRIED = 20
"""People whose reports are made for nobody, to see how long that takes."""
OTHERS_SHARE = 1.0
"""Proxy and server take about as long over a person's reports as their device does."""
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
        groups = [Group(url, key, list(rows[at::PROCESSES])) for at in range(PROCESSES)]
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


def epoch_length(rows: Sequence[list[int]], n_items: int, settings: Settings) -> float:
    """Seconds in which all of them can report on this machine, as busy as it is now."""
    V = initial_items(n_items, settings.factors, settings.initial_scale, 0, settings.head_start)
    mechanism, key = settings.build(n_items), public_key_of(new_epoch_key())
    began = time.perf_counter()
    for each in rows[:TRIED]:
        own = Histories.from_lists([each], n_items)
        x = user_vectors(V, own, alpha=settings.alpha, regularization=settings.user_ridge(V))
        reports = mechanism.reports(V, x, own, os_words(1, settings.reports))
        seal_reports(reports[0], key, bytes(32))
    seconds = (time.perf_counter() - began) / len(rows[:TRIED])
    at_once = min(PROCESSES, os.cpu_count() or 1)
    return seconds * len(rows) * (1 + OTHERS_SHARE) / at_once / SPREAD


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
    """One after the other, evenly over what is left of the epoch's busy part, until it ends."""
    opens, closes, ends = edition.manifest.opens, edition.manifest.closes, edition.manifest.ends
    first = max(clock(), opens)
    pause = max(opens + SPREAD * (closes - opens) - first, 0.0) / len(group.rows)
    for number, rows in enumerate(group.rows):
        sleep(max(first + number * pause - clock(), 0.0))
        now = clock()
        batch = make_batch(edition, rows, now, now, os_words, os.urandom).batch
        if not _send(batch, ends, api, clock, sleep):
            return


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
