"""What a proxy shows to everybody, as an observer reads it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sottovoce.client.learning import Edition, genuine
from sottovoce.errors import UnavailableError
from sottovoce.protocol import Catalogue, SignedManifest, decode_items, model_size

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.client import ProxyApi

LOOK_SECONDS = 0.2


class Published:
    """One proxy, believed as far as the server's key goes."""

    def __init__(
        self,
        api: ProxyApi,
        key: bytes,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._api = api
        self._key = key
        self._clock = clock
        self._sleep = sleep

    def manifest(self) -> SignedManifest:
        """Of the present epoch."""
        return SignedManifest.open(self._api.manifest(), self._key)

    def catalogue(self, signed: SignedManifest) -> Catalogue:
        """What is item number i."""
        wanted = signed.manifest.catalogue
        return Catalogue.decode(genuine(self._api.catalogue(wanted), wanted))

    def items(self, signed: SignedManifest) -> NDArray[np.float32]:
        """V."""
        manifest = signed.manifest
        most = model_size(manifest.items, manifest.factors)
        content = genuine(self._api.model(manifest.model, most), manifest.model)
        return decode_items(content, manifest.items, manifest.factors)

    def edition(self, signed: SignedManifest) -> Edition:
        """All of an epoch."""
        return Edition(signed, self.items(signed), self.catalogue(signed))

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
            f"epoch {epoch} was not applied within {patience:g} seconds{problem}. The server "
            "closes an epoch when its time is over or its target_clients are reached: set them to "
            "the number of clients here, or wait longer (--wait)"
        )
