"""The proxy over HTTP. Every device's requests look the same.

Requests are built by hand, so that nothing is added to them: no cookie, no language, no version, no
`If-None-Match` (which would tell what this device saw last). Redirects are not followed.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import NoReturn

import httpx

from sottovoce.client.address import checked_url
from sottovoce.errors import (
    ClosedError,
    ProtocolError,
    RefusedError,
    SettingsError,
    UnavailableError,
)
from sottovoce.protocol.catalogue import MAX_CATALOGUE
from sottovoce.protocol.manifest import MAX_SIGNED_MANIFEST
from sottovoce.protocol.transfer import WRONG_EPOCH, is_for_later, read_capped

HEADERS = {"User-Agent": "sottovoce", "Accept": "*/*", "Accept-Encoding": "identity"}
TIMEOUT = httpx.Timeout(30.0, connect=10.0)
MAX_PROBLEM = 16 * 1024


class HttpProxy:
    """A `ProxyApi` at an address; any `httpx.Client` will do, whatever headers it would add."""

    def __init__(self, http: httpx.Client, url: str):
        self._http = http
        self._url = checked_url(url)
        try:
            httpx.URL(self._url)
        except httpx.InvalidURL as error:
            raise SettingsError(f"the proxy's address {url!r} cannot be read: {error}") from error

    def manifest(self) -> bytes:
        """See `ProxyApi`."""
        return self._get("/v1/manifest", MAX_SIGNED_MANIFEST)

    def model(self, sha256: bytes, most: int) -> bytes:
        """See `ProxyApi`."""
        return self._get(f"/v1/models/{sha256.hex()}", most)

    def catalogue(self, sha256: bytes) -> bytes:
        """See `ProxyApi`."""
        return self._get(f"/v1/catalogues/{sha256.hex()}", MAX_CATALOGUE)

    def send(self, batch: bytes) -> None:
        """See `ProxyApi`. Only 202 means accepted: a hotel's log-in page also answers 200."""
        self._exchange("POST", "/v1/batches", HTTPStatus.ACCEPTED, most=0, content=batch)

    def _get(self, path: str, most: int) -> bytes:
        return self._exchange("GET", path, HTTPStatus.OK, most=most)

    def _exchange(
        self, method: str, path: str, wanted: HTTPStatus, *, most: int, content: bytes | None = None
    ) -> bytes:
        kind = {} if content is None else {"Content-Type": "application/octet-stream"}
        request = httpx.Request(
            method,
            self._url + path,
            headers=HEADERS | kind,
            content=content,
            extensions={"timeout": TIMEOUT.as_dict()},
        )
        try:
            response = self._http.send(request, stream=True, auth=None, follow_redirects=False)
            try:
                if response.status_code != wanted:
                    _refuse(response)
                return read_capped(response, most) if most else b""
            finally:
                response.close()
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise UnavailableError(
                f"{request.url}: the proxy cannot be reached ({why}); try again later"
            ) from error


def _refuse(response: httpx.Response) -> NoReturn:
    """Say what the status means for whoever sent this."""
    code = response.status_code
    told = f"{response.url}: the proxy answered {code}"
    if is_for_later(code):
        raise UnavailableError(f"{told}; try again later")
    if code == HTTPStatus.GONE:
        raise ClosedError(f"{told}: the epoch is over")
    if code == HTTPStatus.CONFLICT and _problem_type(response) == WRONG_EPOCH:
        raise ClosedError(f"{told}: it is at another epoch")
    if response.has_redirect_location:
        raise RefusedError(f"{told}, sending us elsewhere; redirects are not followed")
    raise RefusedError(told)


def _problem_type(response: httpx.Response) -> object:
    try:
        problem = json.loads(read_capped(response, MAX_PROBLEM))
    except (ProtocolError, ValueError, RecursionError):
        return None
    return problem.get("type") if isinstance(problem, dict) else None
