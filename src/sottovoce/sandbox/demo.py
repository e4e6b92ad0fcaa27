"""The demo: its settings, the people who report in it, and its learning curve."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Self

import httpx

from sottovoce.client import HttpProxy
from sottovoce.client.recommending import build_wide_model
from sottovoce.data import Interactions, synthetic_people
from sottovoce.data.synthetic import SYNTHETIC, generate_people
from sottovoce.errors import UnavailableError
from sottovoce.protocol import Catalogue
from sottovoce.protocol.panel import Panel
from sottovoce.sandbox.people import POLL_SECONDS, InventedPeople, PublicReader
from sottovoce.sandbox.setup import Sandbox
from sottovoce.server.setup import list_catalogue_items
from sottovoce.service.workers import set_up_worker
from sottovoce.simulation.evaluation.panel import measure_on_panel, measure_popularity_on_panel
from sottovoce.training import Settings, plan_training

# New people in each epoch: nobody reports twice.
PEOPLE_PER_EPOCH = 5000
DEFAULT_FILMS = 1000
# Length of an epoch. A page looks every five seconds, and takes part in this epoch if ten are left.
EPOCH_SECONDS = 20
# Epsilon of the only report, and the dummies that hide it: by a device's own bound the server sees
# 0.993 of it.
REPORT_EPSILON = 10.0
DUMMIES_PER_EPOCH = 5300
# HR@10 with these settings, for seeds 1000 to 1005: 0.27 by genres alone, 0.37 after one epoch of
# 5,000 people, 0.41 after five, 0.48 after twenty; popularity has 0.40. Ten factors are worse by
# 0.01 to 0.02.
MODEL_FACTORS = 5
HALF_LIFE_EPOCHS = 14.0
# More than the 0.08 that is planned, for a visitor who has chosen three films: of ten for three
# horror films, 5 are horror after one epoch instead of 3, and at most 2 instead of 3 are also in a
# list for three romances or children's films. It costs 0.03 of HR@10 after twenty epochs.
USER_RIDGE = 0.3
# People from whom popularity is estimated.
SAMPLE_PEOPLE = 2000
# The kind of tags that films have here. Which years people like is left to be learnt.
FILM_TAG = "genre"
# Text at the top of the page.
DEMO_NOTICE = (
    "This is a demo. Everybody else who reports is invented, and so are the people that the model "
    "is tested on; the films are real. Your report is protected as in a real service, except that "
    "proxy and server are on one machine, so its owner could put together what both know, and that "
    "the page sends after seconds, not at a random moment."
)
# Processes of the people who report.
MAX_PROCESSES = 2
# They have a lower priority than the services and the browser.
PROCESS_NICENESS = 2
# A process that still runs this long after SIGTERM is killed.
STOP_SECONDS = 5.0


@dataclass(frozen=True)
class DemoPlan:
    """Who reports in the demo, and what is learnt from it."""

    people: int = PEOPLE_PER_EPOCH
    """New people in each epoch."""
    films: int = DEFAULT_FILMS
    epoch_seconds: int = EPOCH_SECONDS
    seed: int = 0

    @cached_property
    def sample(self) -> Interactions:
        """The first of the people."""
        return synthetic_people(SAMPLE_PEOPLE, self.films, self.seed)

    @cached_property
    def training(self) -> Settings:
        """Settings of a training without end, with one report in a lifetime."""
        return plan_training(
            self.people,
            self.films,
            history=self.sample.histories.typical_length(),
            epsilon=REPORT_EPSILON,
            dummies=DUMMIES_PER_EPOCH,
            reports=1,
            lifetime=1,
            epochs=1,
            half_life=HALF_LIFE_EPOCHS,
            factors=MODEL_FACTORS,
            ridge=USER_RIDGE,
        )

    def set_up(self, folder: Path, port: int) -> None:
        """Set up server and proxy."""
        items = (
            replace(item, tags={kind: tag for kind, tag in item.tags.items() if kind == FILM_TAG})
            for item in list_catalogue_items(self.sample)
        )
        Sandbox(
            Catalogue.from_items(items),
            self.training,
            # An epoch ends by the clock alone, so that no device is charged for one that waits. The
            # dummies hide everybody who comes.
            least_clients=1,
            hold=0,
            epoch_seconds=self.epoch_seconds,
            port=port,
            data=f"{SYNTHETIC}:N={SAMPLE_PEOPLE},M={self.films},seed={self.seed}",
            people=self.sample,
            notice=DEMO_NOTICE,
        ).set_up(folder)


class Reporters:
    """The people of the demo, in processes of their own. Use it in a `with`."""

    def __init__(self, url: str, key: bytes, plan: DemoPlan):
        processes = min(os.cpu_count() or 1, MAX_PROCESSES)
        context = get_context("spawn")
        self._processes = [
            context.Process(target=_report, args=(url, key, plan, part, processes), daemon=True)
            for part in range(processes)
        ]

    def check(self) -> None:
        """Raise an `UnavailableError` if a process has failed."""
        for process in self._processes:
            if process.exitcode:
                raise UnavailableError(
                    "the process of the people who report has ended by itself with code "
                    f"{process.exitcode}; its last output is above. Everything else was stopped"
                )

    def terminate(self) -> None:
        """Ask the processes to end."""
        for process in self._processes:
            process.terminate()

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()
        for process in self._processes:
            process.join(STOP_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()


def _report(url: str, key: bytes, plan: DemoPlan, part: int, parts: int) -> None:
    """Invent and report for one part of the people; runs in a process of its own."""
    set_up_worker()
    os.nice(PROCESS_NICENESS)
    people = generate_people(plan.films, plan.seed, part, parts)
    with httpx.Client(trust_env=False) as http:
        per_epoch = -(-plan.people // parts)
        InventedPeople(HttpProxy(http, url), key, lambda _: people, per_epoch).take_part()


@dataclass(frozen=True)
class CurvePoint:
    """How good the published model is in an epoch, as anybody could measure it."""

    epoch: int
    people: int
    """People whose reports the model learnt from in the epoch before."""
    quality: float
    """HR@10 of the model."""
    tags_alone: float
    """HR@10 without anybody's reports."""
    popularity: float | None
    """HR@10 of the items that most people touched, with the same tags; None if that is unknown."""


def follow_curve(
    reader: PublicReader,
    panel: Panel,
    checks: Sequence[Callable[[], None]],
    stopping: Callable[[], bool],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[CurvePoint]:
    """Yield a point for each epoch as it begins, until it is time to stop or a check raises."""
    epoch, model = 0, b""
    while not stopping():
        for check in checks:
            check()
        with suppress(UnavailableError):  # the next look tries again
            signed = reader.read_manifest()
            manifest = signed.manifest
            if manifest.epoch > epoch:
                release = reader.read_release(signed)
                # A discarded epoch leaves the model as it was.
                reports = manifest.reports_behind if manifest.model != model else 0
                epoch, model = manifest.epoch, manifest.model
                yield CurvePoint(
                    epoch,
                    reports // manifest.terms.reports,
                    measure_on_panel(build_wide_model(release), panel),
                    measure_on_panel(build_wide_model(release, tags_only=True), panel),
                    measure_popularity_on_panel(panel, release.catalogue.tags),
                )
        sleep(POLL_SECONDS)
