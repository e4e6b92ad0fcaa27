"""What a proxy shows to everybody, as anybody may read it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sottovoce.errors import UnavailableError
from sottovoce.protocol import fetch_edition, fetch_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.protocol import Edition, Files, Newest, PublishedSource, SignedManifest

LOOK_SECONDS = 0.2


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

    def manifest(self) -> SignedManifest:
        signed = fetch_manifest(self._source, self._key, self._newest)
        self._newest = signed.manifest.epoch, signed.hash
        return signed

    def edition(self, signed: SignedManifest) -> Edition:
        """All of an epoch; what it shares with the last one read is not fetched again."""
        edition, self._files = fetch_edition(signed, self._source, self._files.get)
        return edition

    def after(self, epoch: int, patience: float) -> SignedManifest:
        """The first manifest of a later epoch; `UnavailableError` if there is none in time."""
        deadline = self._clock() + patience
        problem = ""
        while self._clock() < deadline:
            try:
                signed = self.manifest()
                if signed.manifest.epoch > epoch:
                    return signed
            except UnavailableError as error:
                problem = f" ({error})"
            self._sleep(LOOK_SECONDS)
        raise UnavailableError(
            f"epoch {epoch} was not applied within {patience:g} seconds{problem}. An epoch ends "
            "when its time is over and its crowd (least_clients) has come: let as many report, or "
            "wait longer (--wait)"
        )
