"""The proxy over HTTP. Every device's requests look the same: see `HttpSource`."""

from __future__ import annotations

from http import HTTPStatus

import httpx

from sottovoce.client.address import checked_url
from sottovoce.errors import SettingsError
from sottovoce.protocol import routes
from sottovoce.protocol.http import HttpSource

OCTETS = {"Content-Type": "application/octet-stream"}


class HttpProxy(HttpSource):
    """A proxy at its address, over HTTP; what it answers is checked by whoever asks."""

    _who = "the proxy"
    _closes_with_epoch = True

    def __init__(self, http: httpx.Client, url: str):
        super().__init__(http, checked_url(url))
        try:
            httpx.URL(self._url)
        except httpx.InvalidURL as error:
            raise SettingsError(f"the proxy's address {url!r} cannot be read: {error}") from error

    def send(self, batch: bytes) -> None:
        """See `ProxyApi`. Only 202 means accepted: a hotel's log-in page also answers 200."""
        accepted = HTTPStatus.ACCEPTED
        self._exchange(
            "POST", routes.BATCHES, most=0, wanted=accepted, content=batch, headers=OCTETS
        )
