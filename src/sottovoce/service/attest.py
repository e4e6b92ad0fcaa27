"""A small backend that says who has an account: to try things out, and as a pattern for one's own.

A product knows who is logged in. All that its backend must add is `Attester.attest`. Which account
is behind a pseudonym is known here alone, and what its devices do then is not.
"""

import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from sottovoce.errors import SettingsError, get_reason
from sottovoce.protocol.signing import KEY_BYTES
from sottovoce.protocol.tokens import Attestation
from sottovoce.service.files import BINARY_TYPE
from sottovoce.storage.files import write_new

PATH = "/attest"
SECONDS = 300
"""For which an attestation holds: a device uses it at once."""


@dataclass(frozen=True)
class Attester:
    """Who signs, for which service, and the secret that makes pseudonyms of accounts."""

    service: str
    """The service's first verification key."""
    signing_key: str
    secret: str

    @classmethod
    def new(cls, service: str) -> Self:
        return cls(service, token_hex(32), token_hex(32))

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            found = cls(**json.loads(path.read_text(encoding="utf-8")))
            for name, value in asdict(found).items():
                if len(bytes.fromhex(value)) != KEY_BYTES:
                    raise ValueError(f"{name} must have {2 * KEY_BYTES} hexadecimal digits")
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(
                f"{path}: not from `sottovoce attest init`: {get_reason(error)}"
            ) from error
        return found

    def write(self, path: Path) -> None:
        try:
            write_new(path, json.dumps(asdict(self), indent=1).encode())
        except OSError as error:
            raise SettingsError(f"{path}: cannot be written: {get_reason(error)}") from error

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self.signing_key))

    @property
    def verification_key(self) -> str:
        """What the proxy knows as `accounts_key`."""
        return self._key.public_key().public_bytes_raw().hex()

    def attest(self, account: str, now: float) -> bytes:
        """For whoever is logged in as this account."""
        pseudonym = hmac.digest(bytes.fromhex(self.secret), account.encode(), "sha256")
        expiry = int(now) + SECONDS
        return Attestation.make(self._key, bytes.fromhex(self.service), pseudonym, expiry).encode()


def build_attester(
    attester: Attester,
    sessions: Mapping[str, str] | None,
    origins: tuple[str, ...] = (),
    clock: Callable[[], float] = time.time,
    page: str | None = None,
) -> Starlette:
    """`POST /attest` with `Authorization: Bearer SESSION`; None: every name is believed, for toys.

    A product asks its own session instead. `page` is the HTML of a shop to try it with, at `/`.
    """

    def account_of(session: str) -> str | None:
        return session if sessions is None else sessions.get(sha256(session.encode()).hexdigest())

    async def attest(request: Request) -> Response:
        scheme, _, session = request.headers.get("authorization", "").partition(" ")
        account = account_of(session) if scheme == "Bearer" and session else None
        if account is None:
            return Response("log in first\n", HTTPStatus.UNAUTHORIZED)
        made = attester.attest(account, clock())
        return Response(made, media_type=BINARY_TYPE, headers={"Cache-Control": "no-store"})

    async def show(_: Request) -> Response:
        return HTMLResponse(page)

    shop = [] if page is None else [Route("/", show)]
    return Starlette(
        routes=[Route(PATH, attest, methods=["POST"]), *shop],
        middleware=[
            Middleware(
                CORSMiddleware,
                allow_origins=origins,
                allow_methods=["POST"],
                allow_headers=["Authorization"],
            )
        ],
    )


def read_sessions(path: Path) -> dict[str, str]:
    """Lines of a session's token and its account; only hashes of the tokens stay in memory."""
    found = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        session, _, account = line.strip().partition(" ")
        if session and not account:
            raise SettingsError(f"{path}, line {number}: must be a session and its account")
        found[sha256(session.encode()).hexdigest()] = account.strip()
    return found


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: must be text in UTF-8: {get_reason(error)}") from error
