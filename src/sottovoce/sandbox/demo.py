"""Who reports in `sottovoce demo`, what is learnt from it, and why it is set up so."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import Self

import httpx

from sottovoce.client import HttpProxy, ProxyApi
from sottovoce.client.recommending import wide_model
from sottovoce.client.syncing import check_terms
from sottovoce.core import Histories, Mechanism, draw_os_words, solve_user_vectors
from sottovoce.data import Interactions, synthetic_people
from sottovoce.data.synthetic import SYNTHETIC, generate_people
from sottovoce.errors import ClosedError, UnavailableError
from sottovoce.protocol import Batch, Catalogue, Release, seal_reports
from sottovoce.protocol.batch import BATCH_ID_BYTES
from sottovoce.protocol.panel import Panel
from sottovoce.sandbox.devices import PublicReader
from sottovoce.sandbox.system import Sandbox
from sottovoce.server.setup import list_catalogue_items
from sottovoce.service.workers import set_up_worker
from sottovoce.simulation.evaluation.panel import panel_popularity, panel_quality
from sottovoce.training import Settings, plan_training

PEOPLE, FILMS = 5000, 1000
"""New people in each epoch: nobody reports twice."""
# Epsilon of the only report, and the dummies that hide it: by a device's own bound the server sees
# 0.993 of it.
EPSILON = 10.0
DUMMIES = 5300
FACTORS, RIDGE, HALF_LIFE = 5, 0.3, 14.0
"""HR@10 of seeds 1000 to 1005: 0.27 by genres alone, 0.37 after one epoch of 5,000 people, 0.41
after five, 0.48 after twenty; popularity has 0.40. More ridge than the plan's 0.08 for a visitor
who has chosen three films: of ten for three horror films, 5 are horror after one epoch instead of
3, and at most 2 instead of 3 are also in a list for three romances or children's films. It costs
0.03 after twenty epochs. Ten factors are worse by 0.01 to 0.02."""
EPOCH_SECONDS = 20
"""A page looks every five seconds and takes part if ten are left: in this epoch or in the next."""
SAMPLE = 2000
"""Of the people: what is popular among them is popular."""
NOTICE = (
    "This is a demo. Everybody else who reports is invented, and so are the people that the model "
    "is tested on; the films are real. Your report is protected as in a real service, except that "
    "proxy and server are on one machine, so its owner could put together what both know, and that "
    "the page sends after seconds, not at a random moment."
)
TAG = "genre"
"""The kind of tags that films keep. Which years people like is left to be learnt."""


@dataclass(frozen=True)
class DemoPlan:
    """Who reports in the demo, and what is learnt from it."""

    people: int = PEOPLE
    """New ones, in every epoch."""
    films: int = FILMS
    epoch_seconds: int = EPOCH_SECONDS
    seed: int = 0

    @cached_property
    def sample(self) -> Interactions:
        """The first of them."""
        return synthetic_people(SAMPLE, self.films, self.seed)

    @cached_property
    def training(self) -> Settings:
        """One report in a lifetime, in the first epoch that a person meets; it never ends."""
        return plan_training(
            self.people,
            self.films,
            history=self.sample.histories.typical_length(),
            epsilon=EPSILON,
            dummies=DUMMIES,
            reports=1,
            lifetime=1,
            epochs=1,
            half_life=HALF_LIFE,
            factors=FACTORS,
            ridge=RIDGE,
        )

    def make(self, folder: Path, port: int) -> None:
        """Server and proxy, not running yet.

        An epoch ends by the clock alone: a device knows whether it can still report, and nothing is
        charged for nothing. The proxy's dummies hide everybody who comes.
        """
        items = (
            replace(item, tags={kind: tag for kind, tag in item.tags.items() if kind == TAG})
            for item in list_catalogue_items(self.sample)
        )
        Sandbox(
            Catalogue.from_items(items),
            self.training,
            least_clients=1,
            epoch_seconds=self.epoch_seconds,
            port=port,
            data=f"{SYNTHETIC}:N={SAMPLE},M={self.films},seed={self.seed}",
            people=self.sample,
            hold=0,
            notice=NOTICE,
        ).make(folder)


MOST_PROCESSES = 2
AT_ONCE = 32
"""People whose reports a process makes in one go."""
SENDING = 0.9
"""Of an epoch: they spread their reports over so much of it."""
RETRY_SECONDS = 0.2
_NICE = 2
_STOP_SECONDS = 5.0
LOOK_SECONDS = 0.2


class Reporters:
    """All invented people, in processes of low priority. Use it in a `with`.

    What they send is what a device would send, under the terms of the first manifest that they saw.
    What protects a real person is missing: they have no ledger and no database. Those for whom an
    epoch has no time left never report.
    """

    def __init__(self, url: str, key: bytes, plan: DemoPlan):
        processes = min(os.cpu_count() or 1, MOST_PROCESSES)
        context = get_context("spawn")
        self._processes = [
            context.Process(target=begin, args=(url, key, plan, part, processes), daemon=True)
            for part in range(processes)
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


def begin(url: str, key: bytes, plan: DemoPlan, part: int, parts: int) -> None:
    """In a process of its own, which invents its part of the people."""
    set_up_worker()
    os.nice(_NICE)
    people = generate_people(plan.films, plan.seed, part, parts)
    with httpx.Client(trust_env=False) as http:
        take_part(HttpProxy(http, url), key, lambda _: people, -(-plan.people // parts))


def take_part(
    api: ProxyApi,
    key: bytes,
    people: Callable[[Catalogue], Iterator[list[int]]],
    count: int,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """So many new people in every epoch, by the rows that they touched, until the training ends."""
    reader = PublicReader(api, key, sleep=sleep)
    signed = reader.after(0, inf)
    accepted = signed.manifest.terms
    while signed.manifest.public_key is not None:
        check_terms(accepted, signed.manifest.terms)
        release = reader.release(signed)
        _report(release, people(release.catalogue), count, api, clock, sleep)
        signed = reader.after(signed.manifest.epoch, inf)


def _report(
    release: Release,
    people: Iterator[list[int]],
    count: int,
    api: ProxyApi,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """One after the other, until all have or the epoch ends."""
    manifest = release.manifest
    mechanism = manifest.build()
    pace = SENDING * (manifest.closes - manifest.opens) / count
    for first in range(0, count, AT_ONCE):
        rows = list(islice(people, min(AT_ONCE, count - first)))
        for number, batch in enumerate(_batches(release, mechanism, rows), first):
            sleep(max(manifest.opens + pace * number - clock(), 0.0))
            if not _send(batch, manifest.ends, api, clock, sleep):
                return


def _batches(release: Release, mechanism: Mechanism, rows: Sequence[list[int]]) -> Iterator[bytes]:
    """What `client.reporting.make_batch` makes of each of them."""
    manifest, key = release.manifest, release.manifest.public_key
    assert key is not None, "they report only where reports are asked for"
    people = Histories.from_lists(rows, manifest.items)
    X = solve_user_vectors(
        release.V, people, alpha=manifest.alpha, regularization=manifest.regularization
    )
    words = draw_os_words(len(rows), manifest.terms.reports)
    for reports in mechanism.reports(release.V, X, people, words):
        sealed = seal_reports(reports, key, release.signed.hash)
        yield Batch(
            manifest.epoch, release.signed.hash, os.urandom(BATCH_ID_BYTES), sealed
        ).encode()


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
    """How good the published model is in an epoch, as anybody could measure it."""

    epoch: int
    """As the page counts them."""
    people: int
    """Whose reports were counted in the epoch before."""
    quality: float
    """HR@10 of the model."""
    tags_alone: float
    """HR@10 of the list that there would be without anybody's reports."""
    popularity: float | None
    """HR@10 of recommending what most people touched, with the same tags, if the panel knows."""


def follow(
    reader: PublicReader,
    panel: Panel,
    checks: Sequence[Callable[[], None]],
    stopping: Callable[[], bool],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[CurvePoint]:
    """Every epoch as it begins, until told to stop; an error as soon as a check raises one."""
    epoch, model = 0, b""
    while not stopping():
        for check in checks:
            check()
        with suppress(UnavailableError):  # the next look tries again
            signed = reader.manifest()
            manifest = signed.manifest
            if manifest.epoch > epoch:
                release = reader.release(signed)
                taught = manifest.reports_behind if manifest.model != model else 0
                epoch, model = manifest.epoch, manifest.model
                yield CurvePoint(
                    epoch,
                    taught // manifest.terms.reports,
                    panel_quality(wide_model(release), panel),
                    panel_quality(wide_model(release, tags_alone=True), panel),
                    panel_popularity(panel, release.catalogue.tags),
                )
        sleep(LOOK_SECONDS)
