"""Tokens in a real browser: a shop whose customers have accounts, the proxy, and `accounts.js`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.protocol.tokens import Attestation
from tests.server.world import KEYS
from tests.web import chromium
from tests.web.shop import EXAMPLE, Customer, Shop, running_shop
from tests.web.system import System, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.web.chromium import Trap

BACKEND = Ed25519PrivateKey.generate()
START = """async ({ attestation, ...given }) => {
  const { createTokenMaker } = await import(`${given.proxy}/accounts.js`);
  const { start } = await import(`${given.proxy}/widget.js`);
  const attest = async () => attestation && new Uint8Array(attestation);
  start({ ...given, tokenMaker: createTokenMaker(attest) });
}"""


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with running_shop() as shop:
        yield shop


@pytest.fixture(scope="module")
def whole_system(browser: Browser, folder: Path, shop: Shop) -> Iterator[System]:
    key = BACKEND.public_key().public_bytes_raw().hex()
    with running(folder, people=6, origins=(shop.url,), accounts_key=key) as system:
        yield system


def visit(customer: Customer, system: System, account: str | None) -> None:
    """Open a page that states the user in its script, with the shop's attestation of a login."""
    shop = customer.shop.open(system)
    consent = re.search("<sottovoce-consent (proxy=.*?)>", shop.page)
    assert consent is not None
    shop.page = shop.page.replace(consent[1], "")
    values = dict(re.findall('(\\w+)="(.*?)"', consent[1]))
    attestation = None if account is None else list(attested(account))
    options = {**values, "limit": float(values["limit"]), "attestation": attestation}
    customer.enter().page.evaluate(START, options)


def attested(account: str) -> bytes:
    pseudonym, expiry = sha256(account.encode()).digest(), int(time.time()) + 600
    return Attestation.make(BACKEND, KEYS.verification_key, pseudonym, expiry).encode()


def posted(system: System) -> list[tuple[str, int]]:
    posts = [request for request in system.front.requests if request.method == "POST"]
    return [(request.path.removeprefix("/v2/"), request.status) for request in posts]


def test_token_is_fetched_in_one_visit_and_spent_in_another(
    browser: Browser, system: System, shop: Shop, trap: Trap
) -> None:
    # The question is about the reports of one account, in the words of the other client.
    with ExitStack() as opened:
        ann, stranger = (
            Customer(
                opened.enter_context(chromium.fresh_profile(browser, trap)), shop, system, trap
            )
            for _ in range(2)
        )
        visit(ann, system, None)
        terms = system.signed().manifest.terms
        limit = re.search('limit="(.*?)"', EXAMPLE.read_text(encoding="utf-8"))
        assert limit is not None
        turns = int(Fraction(limit[1]) // terms.cost)
        assert ann.question() == terms.summarize([], turns)
        ann.press("yes")
        ann.looks_again()
        assert posted(system) == []
        visit(ann, system, "ann")
        ann.until(lambda: posted(system), "a request for a token")
        system.turn_by_time()
        visit(ann, system, None)
        ann.until(lambda: posted(system)[1:] and posted(system)[-1][1], "the answer to a batch")
        assert posted(system) == [("tokens", 200), ("batches", 202)]
        (batch,) = [
            request.body
            for request in system.front.requests
            if request.path == "/v2/batches" and request.body
        ]
        assert len(batch) == 56 + 64 + 52 * system.signed().manifest.terms.reports
        visit(stranger, system, None)
        stranger.question()
        stranger.press("yes")
        stranger.state("You take part. This device has no token yet")
        for request in (ann, stranger):
            request.check()
