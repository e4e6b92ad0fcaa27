"""Who reports in `sottovoce demo`, what is learnt from it, and why it is set up so."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Self

import httpx

from sottovoce.client import HttpProxy, ProxyApi
from sottovoce.client.recommending import wide_model
from sottovoce.client.syncing import check_terms
from sottovoce.core import Histories, Mechanism, os_words, user_vectors
from sottovoce.data import Interactions, synthetic_people
from sottovoce.data.synthetic import SYNTHETIC
from sottovoce.errors import ClosedError, UnavailableError
from sottovoce.protocol import Batch, Catalogue, Manifest, Release, seal_reports
from sottovoce.protocol.batch import ID
from sottovoce.protocol.model import Panel
from sottovoce.sandbox.devices import PublicReader
from sottovoce.sandbox.system import Sandbox
from sottovoce.server.setup import items_of
from sottovoce.service.workers import begin_worker
from sottovoce.simulation.evaluation.panel import panel_popularity, panel_quality
from sottovoce.training import Settings, planned

PEOPLE, FILMS = 2000, 1000
EPSILON = 8.0
"""Of a report: for a given budget, few loud reports teach most (`sottovoce.training.planning`)."""
REPORTS = 8
"""Of a person in an epoch."""
FACTORS, RIDGE = 8, 0.5
"""Fewer factors and more ridge than the plan for such loud reports: a visitor chooses three films
and asks in the first epochs. With a ridge of 0.1, five of the ten films for three horror films are
horror after five epochs, with this one 8.6; HR@10 falls from 0.482 to 0.473, and popularity has
0.407 (means of seeds 1000 and 1001)."""
EPOCHS = 20
EPOCH_SECONDS = 12
"""At least: a page looks for news every five seconds, and sends five seconds after it has decided
to, so a visitor has a chance in each."""
BEAT_SECONDS = 0.1
"""An epoch ends in a few of them."""
NOTICE = (
    "This is a demo. Everybody else who reports is invented, and so are the people that the model "
    "is tested on; the films are real. The budget is far larger than real people should be asked "
    "for: so small a crowd learns little from less."
)
TAG = "genre"
"""The kind of tags that films keep. Which years people like is left to be learnt."""


@dataclass(frozen=True, eq=False)
class DemoPlan:
    """Who reports in the demo, and what is learnt from it."""

    invented: Interactions
    epochs: int = EPOCHS
    epoch_seconds: int = EPOCH_SECONDS
    seed: int = 0

    @classmethod
    def of(cls, people: int, films: int, seed: int, **changes: int) -> Self:
        return cls(synthetic_people(people, films, seed), seed=seed, **changes)

    @property
    def histories(self) -> Histories:
        return self.invented.histories

    @property
    def people(self) -> int:
        return self.histories.n_users

    @cached_property
    def training(self) -> Settings:
        """Everybody takes part in every epoch, so that an epoch knows whom it waits for."""
        return planned(
            self.people,
            self.histories.n_items,
            history=self.histories.typical_length(),
            epsilon=EPSILON,
            reports=REPORTS,
            epochs=self.epochs,
            factors=FACTORS,
            ridge=RIDGE,
        )

    @property
    def cost(self) -> float:
        """What a person who takes part in all epochs spends."""
        return self.training.event(self.histories.n_items).pure

    def make(self, folder: Path, port: int) -> None:
        """Server and proxy, not running yet. An epoch ends when everybody has reported."""
        items = (
            replace(item, tags={kind: tag for kind, tag in item.tags.items() if kind == TAG})
            for item in items_of(self.invented)
        )
        Sandbox(
            Catalogue.of(items),
            self.training,
            self.people,
            self.epoch_seconds,
            port,
            data=f"{SYNTHETIC}:N={self.people},M={self.histories.n_items},seed={self.seed}",
            people=self.invented,
            known_people=self.people,
            beat=BEAT_SECONDS,
            proxy={("", "keep_models"): self.epochs + 1, ("page", "notice"): NOTICE},
        ).make(folder)


MOST_PROCESSES = 8
AT_ONCE = 32
"""People whose reports a process makes in one go."""
RETRY_SECONDS = 0.2
_NICE = 5
_STOP_SECONDS = 5.0
LOOK_SECONDS = 0.2


class Reporters:
    """All invented people, in processes of low priority. Use it in a `with`.

    What they send is what a device would send, under the terms of the first manifest that they saw.
    What protects a real person is missing: they have no ledger and no database, and send at once.
    """

    def __init__(self, url: str, key: bytes, rows: Sequence[list[int]]):
        processes = min(os.cpu_count() or 1, MOST_PROCESSES, len(rows))
        context = get_context("spawn")
        self._processes: list[SpawnProcess] = [
            context.Process(target=begin, args=(url, key, rows[at::processes]), daemon=True)
            for at in range(processes)
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


def begin(url: str, key: bytes, rows: Sequence[list[int]]) -> None:
    """In a process of its own."""
    begin_worker()
    os.nice(_NICE)
    with httpx.Client(trust_env=False) as http:
        take_part(HttpProxy(http, url), key, rows)


def take_part(
    api: ProxyApi,
    key: bytes,
    rows: Sequence[list[int]],
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """These people, by the rows that they touched: epoch after epoch, until the training ends."""
    reader = PublicReader(api, key, sleep=sleep)
    signed = reader.after(0, inf)
    accepted = signed.manifest.terms
    while signed.manifest.public_key is not None:
        check_terms(accepted, signed.manifest.terms)
        _report(reader.release(signed), rows, api, clock, sleep)
        signed = reader.after(signed.manifest.epoch, inf)


def _report(
    release: Release,
    rows: Sequence[list[int]],
    api: ProxyApi,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """One after the other, until all have or the epoch ends."""
    manifest = release.manifest
    sleep(max(manifest.opens - clock(), 0.0))
    mechanism = manifest.build()
    for first in range(0, len(rows), AT_ONCE):
        for batch in _batches(release, mechanism, rows[first : first + AT_ONCE]):
            if not _send(batch, manifest.ends, api, clock, sleep):
                return


def _batches(release: Release, mechanism: Mechanism, rows: Sequence[list[int]]) -> Iterator[bytes]:
    """What `client.reporting.make_batch` makes of each of them."""
    manifest, key = release.manifest, release.manifest.public_key
    assert key is not None, "they report only where reports are asked for"
    people = Histories.from_lists(rows, manifest.items)
    X = user_vectors(
        release.V, people, alpha=manifest.alpha, regularization=manifest.regularization
    )
    words = os_words(len(rows), manifest.terms.reports)
    for reports in mechanism.reports(release.V, X, people, words):
        sealed = seal_reports(reports, key, release.signed.hash)
        yield Batch(manifest.epoch, release.signed.hash, os.urandom(ID), sealed).encode()


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


@dataclass(frozen=True)
class CurvePoint:
    """How good the published model is after an epoch, as anybody could measure it."""

    learnt: int
    """Epochs that the model has learnt from by now."""
    quality: float
    """HR@10 of the new model."""
    popularity: float | None
    """HR@10 of recommending what most people touched, with the same tags, if the panel knows."""
    seconds: float
    """How long an epoch has taken so far, on average, from the first on."""
    finished: bool


def follow(
    reader: PublicReader,
    panel: Panel,
    checks: Sequence[Callable[[], None]],
    stopping: Callable[[], bool],
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[CurvePoint]:
    """Every epoch as it ends, until told to stop; an error as soon as a check raises one."""
    known: Manifest | None = None
    began = learnt = 0
    while not stopping():
        for check in checks:
            check()
        with suppress(UnavailableError):  # the next look tries again
            if known is None:
                known = reader.manifest().manifest
                began = known.opens
            elif known.public_key is not None:
                signed = reader.manifest()
                if signed.manifest.epoch > known.epoch:
                    release = reader.release(signed)
                    learnt += signed.manifest.model != known.model
                    known = signed.manifest
                    yield CurvePoint(
                        learnt,
                        panel_quality(wide_model(release), panel),
                        panel_popularity(panel, release.catalogue.tags),
                        (clock() - began) / (known.epoch - 1),
                        known.public_key is None,
                    )
        sleep(LOOK_SECONDS)
