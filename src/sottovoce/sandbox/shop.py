"""The toy shop of `up --accounts`, where any name can log in: an example of a product's backend.

A product knows who is logged in, so its backend only has to add `Backend.attest`. Only the backend
knows which account a pseudonym belongs to, and it does not see what devices do with the pseudonym.
"""

import hmac
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex
from typing import Self

import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from sottovoce.protocol.tokens import Attestation
from sottovoce.service.files import BINARY_TYPE
from sottovoce.service.logs import start_logging

ATTEST_PATH = "/attest"
# Files in the server's folder: the keys of the backend, and the page of the shop.
KEYS_FILE = "attest.json"
PAGE_FILE = "shop.html"
# Seconds for which an attestation is valid. They are few, because a device uses it at once.
ATTESTATION_SECONDS = 300


@dataclass(frozen=True)
class Backend:
    """The keys of a product's backend, as hexadecimal text."""

    service: str
    """The first verification key of the service, which names the service in attestations."""
    signing_key: str
    """Private Ed25519 key that signs attestations."""
    secret: str
    """HMAC key that turns accounts into pseudonyms."""

    @classmethod
    def create(cls, service: str) -> Self:
        """Create a backend of this service with new keys."""
        return cls(service, token_hex(32), token_hex(32))

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self.signing_key))

    @property
    def verification_key(self) -> str:
        """The public key for the proxy's setting `accounts_key`."""
        return self._key.public_key().public_bytes_raw().hex()

    def attest(self, account: str, now: float) -> bytes:
        """Return an encoded attestation that somebody is logged in with this account.

        Args:
            account: Name of the account.
            now: Unix seconds.
        """
        pseudonym = hmac.digest(bytes.fromhex(self.secret), account.encode(), "sha256")
        expiry = int(now) + ATTESTATION_SECONDS
        return Attestation.make(self._key, bytes.fromhex(self.service), pseudonym, expiry).encode()


def build_shop(
    backend: Backend, page: str, origins: list[str], clock: Callable[[], float] = time.time
) -> Starlette:
    """Build the shop: its page at `/`, and `POST /attest` with `Authorization: Bearer NAME`.

    Args:
        backend: The backend.
        page: HTML of the page.
        origins: Sites whose pages may ask for attestations.
        clock: Returns Unix seconds.
    """

    async def attest(request: Request) -> Response:
        # A product would look up the account of the session; this toy accepts any name.
        scheme, _, name = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not name:
            return Response("log in first\n", HTTPStatus.UNAUTHORIZED)
        attestation = backend.attest(name, clock())
        return Response(attestation, media_type=BINARY_TYPE, headers={"Cache-Control": "no-store"})

    async def show_page(_: Request) -> Response:
        return HTMLResponse(page)

    cross_origin = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["POST"],
        allow_headers=["Authorization"],
    )
    return Starlette(
        routes=[Route(ATTEST_PATH, attest, methods=["POST"]), Route("/", show_page)],
        middleware=[cross_origin],
    )


def main() -> None:
    """Run the shop. The arguments of the program are its folder, its port and allowed origins."""
    folder, port, *origins = sys.argv[1:]
    backend = Backend(**json.loads((Path(folder) / KEYS_FILE).read_text(encoding="utf-8")))
    page = (Path(folder) / PAGE_FILE).read_text(encoding="utf-8")
    start_logging()
    shop = build_shop(backend, page, origins)
    uvicorn.run(shop, host="127.0.0.1", port=int(port), access_log=False, log_config=None)


if __name__ == "__main__":
    main()
