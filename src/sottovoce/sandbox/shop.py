"""The toy shop of `up --accounts`, where any name can log in: an example of a product's backend.

A product knows who is logged in, so its backend only has to add `Backend.attest`. Only the backend
knows which account a pseudonym belongs to, and it does not see what devices do with the pseudonym.

Somebody who wants to may also publish what they touched in this shop, for a public start. That is
outside of the private path: it is no report, no budget limits it, and nothing hides it.
"""

import csv
import hmac
import io
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

from sottovoce.errors import DataError
from sottovoce.protocol.tokens import Attestation
from sottovoce.service.files import BINARY_TYPE
from sottovoce.service.logs import start_logging

ATTEST_PATH = "/attest"
PUBLISH_PATH = "/publish"
# Files in the server's folder: the keys of the backend, the page of the shop, and what volunteers
# have published, which `sottovoce start` reads.
KEYS_FILE = "attest.json"
PAGE_FILE = "shop.html"
VOLUNTEERS_FILE = "volunteers.csv"
VOLUNTEER_COLUMNS = ("user", "item")
# A page must send this word with a publication, so that no request is one by accident.
CONSENT_WORD = "public"
# Largest number of articles and of bytes of one publication.
MAX_PUBLISHED_ARTICLES = 1_000
MAX_PUBLISHED_BYTES = 100_000
# First characters of a formula in a spreadsheet, which somebody may open the table with.
FORMULA_CHARACTERS = ("=", "+", "-", "@")
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


@dataclass(frozen=True)
class Volunteers:
    """The table of what volunteers have published. A row has a random number and an article."""

    path: Path

    def publish(self, body: bytes) -> str:
        """Append what one person has published, and return the person's number.

        The number has no relation to an account, and the same person gets another one each time.

        Raises:
            DataError: The body is not a publication.
        """
        articles = parse_publication(body)
        number = f"v{token_hex(8)}"
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        if not self.path.exists():
            table.writerow(VOLUNTEER_COLUMNS)
        table.writerows((number, article) for article in articles)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text.getvalue())
        return number

    def read(self) -> str:
        """Return the table as CSV."""
        return self.path.read_text(encoding="utf-8") if self.path.exists() else ""


def parse_publication(body: bytes) -> list[str]:
    """Return the articles of a publication, each once.

    Raises:
        DataError: The body is not a publication, or does not say that it is public.
    """
    try:
        content = json.loads(body)
        articles, consent = content["articles"], content["consent"]
        is_valid = (
            consent == CONSENT_WORD
            and isinstance(articles, list)
            and 0 < len(articles) <= MAX_PUBLISHED_ARTICLES
            and all(isinstance(name, str) and name and name.isprintable() for name in articles)
            and not any(name.startswith(FORMULA_CHARACTERS) for name in articles)
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        is_valid = False
    if not is_valid:
        raise DataError(
            f"a publication must have 1 to {MAX_PUBLISHED_ARTICLES:,} ids as `articles`, and "
            f"`consent` must be {CONSENT_WORD!r}"
        )
    return list(dict.fromkeys(articles))


def build_shop(
    backend: Backend,
    page: str,
    origins: list[str],
    volunteers: Volunteers,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """Build the shop.

    It has a page at `/`, `POST /attest` with `Authorization: Bearer NAME`, and `/publish`, to which
    volunteers post what they publish, and where anybody may read it.

    Args:
        backend: The backend.
        page: HTML of the page.
        origins: Sites whose pages may ask for attestations and publish.
        volunteers: The table of what volunteers publish.
        clock: Returns Unix seconds.
    """

    async def attest(request: Request) -> Response:
        # A product would look up the account of the session; this toy accepts any name.
        scheme, _, name = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not name:
            return Response("log in first\n", HTTPStatus.UNAUTHORIZED)
        attestation = backend.attest(name, clock())
        return Response(attestation, media_type=BINARY_TYPE, headers={"Cache-Control": "no-store"})

    async def publish(request: Request) -> Response:
        # A form of another site cannot send this type, and scripts only of the sites in `origins`.
        if request.headers.get("content-type") != "application/json":
            return Response("send JSON\n", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_PUBLISHED_BYTES:
                return Response("too large\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            number = volunteers.publish(body)
        except DataError as error:
            return Response(f"{error}\n", HTTPStatus.BAD_REQUEST)
        return Response(number, HTTPStatus.CREATED, media_type="text/plain")

    async def show_published(_: Request) -> Response:
        return Response(volunteers.read(), media_type="text/csv")

    async def show_page(_: Request) -> Response:
        return HTMLResponse(page)

    cross_origin = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["POST"],
        allow_headers=["Authorization"],
    )
    return Starlette(
        routes=[
            Route(ATTEST_PATH, attest, methods=["POST"]),
            Route(PUBLISH_PATH, publish, methods=["POST"]),
            Route(PUBLISH_PATH, show_published),
            Route("/", show_page),
        ],
        middleware=[cross_origin],
    )


def main() -> None:
    """Run the shop. The arguments of the program are its folder, its port and allowed origins."""
    folder, port, *origins = sys.argv[1:]
    backend = Backend(**json.loads((Path(folder) / KEYS_FILE).read_text(encoding="utf-8")))
    page = (Path(folder) / PAGE_FILE).read_text(encoding="utf-8")
    start_logging()
    shop = build_shop(backend, page, origins, Volunteers(Path(folder) / VOLUNTEERS_FILE))
    uvicorn.run(shop, host="127.0.0.1", port=int(port), access_log=False, log_config=None)


if __name__ == "__main__":
    main()
