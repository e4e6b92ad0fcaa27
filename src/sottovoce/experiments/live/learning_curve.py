"""How the published model gets better, epoch by epoch, as anybody could measure it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.client.recommending import wide_model
from sottovoce.errors import UnavailableError
from sottovoce.evaluation.panel import panel_popularity, panel_quality

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sottovoce.experiments.live.reader import PublicReader
    from sottovoce.protocol import SignedManifest
    from sottovoce.protocol.panel import Panel

LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class CurvePoint:
    epoch: int
    learnt: int
    """Epochs that the model has learnt from by now."""
    people: int
    """Whose reports are in the new model; 0 if the epoch came to nothing, and it is the old."""
    quality: float
    """HR@10 of the new model."""
    popularity: float | None
    """HR@10 of recommending what most people touched, with the same tags, if the panel knows."""
    seconds: float
    """How long an epoch has taken so far, on average, from the first on."""
    finished: bool


class LearningCurve:
    """Measures every new model of a proxy, from its public files alone."""

    def __init__(
        self,
        reader: PublicReader,
        panel: Panel,
        *,
        clock: Callable[[], float] = time.time,
    ):
        self._reader = reader
        self._panel = panel
        self._clock = clock
        self._began = 0.0
        self._learnt = 0
        self._known: SignedManifest | None = None

    def look(self) -> CurvePoint | None:
        """The epoch that has ended since the last look, if any."""
        signed, known = self._reader.manifest(), self._known
        if known is not None and signed.manifest.epoch == known.manifest.epoch:
            return None
        point = None if known is None else self._point(known, signed)
        if known is None:
            self._began = signed.manifest.opens
        # Only now: if the model could not be fetched, the next look tries again.
        self._known = signed
        return point

    @property
    def finished(self) -> bool:
        return self._known is not None and self._known.manifest.public_key is None

    def _point(self, before: SignedManifest, after: SignedManifest) -> CurvePoint:
        manifest = after.manifest
        edition = self._reader.edition(after)
        quality = panel_quality(wide_model(edition), self._panel)
        popularity = panel_popularity(self._panel, edition.catalogue.tags)
        people, finished = 0, manifest.public_key is None
        if manifest.model != before.manifest.model:
            people = manifest.reports_behind // manifest.terms.reports
            self._learnt += 1
        epoch = manifest.epoch - 1
        seconds = (self._clock() - self._began) / epoch
        return CurvePoint(epoch, self._learnt, people, quality, popularity, seconds, finished)


def follow(
    curve: LearningCurve,
    checks: Sequence[Callable[[], None]],
    stopping: Callable[[], bool],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[CurvePoint]:
    """Every epoch as it comes, until told to stop; an error as soon as a check raises one."""
    while not stopping():
        for check in checks:
            check()
        point = None if curve.finished else _looked(curve)
        if point is not None:
            yield point
        sleep(LOOK_SECONDS)


def _looked(curve: LearningCurve) -> CurvePoint | None:
    try:
        return curve.look()
    except UnavailableError:
        return None
