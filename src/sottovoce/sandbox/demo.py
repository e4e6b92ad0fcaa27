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
from sottovoce.data import Interactions, load, synthetic_people
from sottovoce.data.synthetic import SYNTHETIC, generate_people
from sottovoce.errors import UnavailableError
from sottovoce.protocol import Catalogue
from sottovoce.protocol.panel import Panel
from sottovoce.sandbox.people import POLL_SECONDS, InventedPeople, PublicReader
from sottovoce.sandbox.setup import Sandbox
from sottovoce.server.setup import list_catalogue_items
from sottovoce.service.workers import set_up_worker
from sottovoce.simulation.evaluation.panel import measure_on_panel, measure_popularity_on_panel
from sottovoce.simulation.start import encode_start, learn_table_start
from sottovoce.training import Settings, plan_training
from sottovoce.training.start import Start

# New people in each epoch. Each of these people reports only once.
PEOPLE_PER_EPOCH = 5000
DEFAULT_FILMS = 1000
# The page polls every five seconds and takes part in an epoch if at least ten seconds are left.
EPOCH_SECONDS = 20
# A visitor can watch two reports, in two epochs, for the price of one: their epsilons sum to 10.
# With the dummies, the central epsilon of both is 0.978, by the bound that devices compute. With
# one report of epsilon 10, models learn faster: after five epochs HR@10 is 0.476 instead of 0.459
# (0.448 before the first, for 2,000 test people).
REPORTS_PER_VISITOR = 2
REPORT_EPSILON = 5.0
DUMMIES_PER_EPOCH = 2900
HALF_LIFE_EPOCHS = 14.0
# Ridge of the user equations. With less, the list of a visitor who has chosen three films follows
# the best known films of the start more than these three: with 0.3, 1 of the ten films for somebody
# who chose horror films is a horror film, and with 2.5, 4 are. But HR@10 of the start alone is 0.50
# instead of 0.56 (seed 0).
USER_RIDGE = 2.5
# Number of people in the sample from which popularity is estimated.
SAMPLE_PEOPLE = 2000
# The public table that the first model is learnt from, and how its licence wants it to be shown.
START_DATA = "ml-latest-small"
START_NAME = "MovieLens ml-latest-small, by GroupLens"
START_LICENCE = (
    "for research and demonstration, not for commercial use without permission; F. M. Harper and "
    "J. A. Konstan 2015, The MovieLens Datasets, https://doi.org/10.1145/2827872"
)
# The only kind of tags that films keep. Preferences for years must be learnt from reports.
FILM_TAG = "genre"
# Text at the top of the page.
DEMO_NOTICE = (
    "This is a demo: the films are real, all other people are invented. So are those that the "
    "model is tested on. The first lists come from public ratings of films "
    "(MovieLens). The invented people have tastes like those in these ratings, so first lists suit "
    "them better than they would elsewhere. Your reports are protected as in a real service, with "
    "two exceptions: proxy and server run on one machine, so its owner could combine what the two "
    "know, and the page sends a report after a few seconds instead of at a random moment."
)
# Maximum number of processes that simulate the people.
MAX_PROCESSES = 2
# Niceness of these processes, so that the services and the browser have priority.
PROCESS_NICENESS = 2
# Seconds after SIGTERM when a process that still runs is killed.
STOP_SECONDS = 5.0


@dataclass(frozen=True)
class DemoPlan:
    """The size of the demo, from which its people and training follow."""

    people: int = PEOPLE_PER_EPOCH
    """Number of new people in each epoch."""
    films: int = DEFAULT_FILMS
    """Number of films in the catalogue."""
    epoch_seconds: int = EPOCH_SECONDS
    seed: int = 0

    @cached_property
    def sample(self) -> Interactions:
        """The first `SAMPLE_PEOPLE` people, from whom popularity is estimated."""
        return synthetic_people(SAMPLE_PEOPLE, self.films, self.seed)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The films, with their genres."""
        return Catalogue.from_items(
            replace(item, tags={kind: tag for kind, tag in item.tags.items() if kind == FILM_TAG})
            for item in list_catalogue_items(self.sample)
        )

    @cached_property
    def start(self) -> Start:
        """The public start, learnt from the real viewers of the bundled data set."""
        return learn_table_start(
            load(START_DATA), self.catalogue.numbers, START_NAME, START_LICENCE
        )

    @cached_property
    def training(self) -> Settings:
        """Settings of an open-ended training in which a visitor takes part in a few epochs."""
        return plan_training(
            self.people,
            self.films,
            history=self.sample.histories.typical_length(),
            epsilon=REPORT_EPSILON,
            dummies=DUMMIES_PER_EPOCH,
            reports=1,
            lifetime=REPORTS_PER_VISITOR,
            epochs=REPORTS_PER_VISITOR,
            half_life=HALF_LIFE_EPOCHS,
            start_factors=self.start.V.shape[1],
            ridge=USER_RIDGE,
        )

    def set_up(self, folder: Path, port: int) -> None:
        """Write the settings and files of a server and a proxy to a folder."""
        Sandbox(
            self.catalogue,
            self.training,
            start=encode_start(self.start),
            # Epochs do not wait for a crowd, because the dummies hide even a single person. If an
            # epoch required more people, it could be discarded for lack of them, after devices were
            # charged for it.
            min_clients=1,
            hold=0,
            epoch_seconds=self.epoch_seconds,
            port=port,
            data=f"{SYNTHETIC}:N={SAMPLE_PEOPLE},M={self.films},seed={self.seed}",
            people=self.sample,
            notice=DEMO_NOTICE,
            demo=True,
        ).set_up(folder)


class Reporters:
    """Starts processes that simulate the people of the demo. Use it as a context manager.

    Args:
        url: Address of the proxy.
        key: Verification key of the server.
        plan: The size of the demo.
    """

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
                    "a process that simulates people exited unexpectedly with code "
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
    """Simulate a part of the people and send their reports, in a child process.

    Args:
        url: Address of the proxy.
        key: Verification key of the server.
        plan: The size of the demo.
        part: Index of the part, from 0 on.
        parts: Number of parts, one for each process.
    """
    set_up_worker()
    os.nice(PROCESS_NICENESS)
    people = generate_people(plan.films, plan.seed, part, parts)
    with httpx.Client(trust_env=False) as http:
        per_epoch = -(-plan.people // parts)
        InventedPeople(HttpProxy(http, url), key, lambda _: people, per_epoch).take_part()


@dataclass(frozen=True)
class CurvePoint:
    """The quality of an epoch's model, measured only with files that are public."""

    epoch: int
    people: int
    """Number of people whose reports the previous epoch counted."""
    quality: float
    """HR@10 of the model."""
    tags_only: float
    """HR@10 of recommendations by tags only, which need no reports."""
    popularity: float | None
    """HR@10 of recommendations by popularity and tags, without a trained model; None if the panel
    does not say how many people touched each item."""


def follow_curve(
    reader: PublicReader,
    panel: Panel,
    checks: Sequence[Callable[[], None]],
    should_stop: Callable[[], bool],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[CurvePoint]:
    """Yield a point for each epoch when it begins.

    Args:
        reader: Reads the files that the proxy publishes.
        panel: The test people.
        checks: Called at every poll; an error of a check ends the curve.
        should_stop: Returns whether to end the curve.
        sleep: Waits for some seconds.
    """
    epoch, model = 0, b""
    while not should_stop():
        for check in checks:
            check()
        with suppress(UnavailableError):  # the next poll tries again
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
