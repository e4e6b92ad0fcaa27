"""The cost of accounts: tokens that a proxy issues and redeems, and that a device makes."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.protocol import SignedManifest
from sottovoce.protocol.tokens import Attestation, Issuer, TokenRequest, blind_token
from sottovoce.proxy import ProxySettings, ProxyStore
from sottovoce.proxy.accounts import Accounts
from sottovoce.proxy.group_commit import MAX_REQUESTS_PER_TRANSACTION
from sottovoce_lab.bench.timing import Spread, Watch


@dataclass(frozen=True)
class TokenRates:
    """Tokens per CPU second."""

    issued: Spread
    """Tokens that a proxy issues: it checks the attestation, evaluates the request with a proof,
    and writes the record to disk in one transaction with many others."""
    redeemed: Spread
    """Tokens that a proxy checks when batches arrive."""
    created: Spread
    """Tokens that a device makes: it blinds the request, checks the proof and finalises the
    token."""


def measure_tokens(
    signed: SignedManifest, folder: Path, *, rounds: int, watch: Watch
) -> TokenRates:
    """Measure the rates of tokens in several rounds, each with its own proxy."""
    watch(f"{rounds} x {MAX_REQUESTS_PER_TRANSACTION} tokens")
    results = [_measure_round(signed, folder / f"tokens-{number}") for number in range(rounds)]
    return TokenRates(*(Spread.from_values(rates) for rates in zip(*results, strict=True)))


def _measure_round(signed: SignedManifest, folder: Path) -> tuple[float, float, float]:
    backend, signer = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    settings = ProxySettings(
        folder=folder,
        server="http://127.0.0.1",
        secret_file=folder / "none",
        verification_key=signed.key.hex(),
        accounts_key=backend.public_key().public_bytes_raw().hex(),
    )
    now = time.time()
    ProxyStore.create(folder)
    with ProxyStore.open(folder) as store:
        accounts = Accounts(store, settings, lambda: now)
        without_key = replace(
            signed.manifest, terms=replace(signed.manifest.terms, accounts=True), public_key=None
        )
        # A proxy announces its key after the first manifest. It issues tokens once a manifest names
        # this key.
        accounts.follow(SignedManifest.make(without_key, signer))
        with_key = replace(without_key, next_token_key=accounts.announced_key)
        accounts.follow(SignedManifest.make(with_key, signer))
        requests = []
        for _ in range(MAX_REQUESTS_PER_TRANSACTION):
            attestation = Attestation.make(backend, signed.key, os.urandom(32), int(now) + 60)
            element, _finalize = blind_token(os.urandom(16))
            requests.append(TokenRequest(with_key.epoch + 1, attestation, element).encode())
        issued = _measure_rate(
            lambda: accounts.issue_tokens([accounts.check_request(body) for body in requests])
        )
    issuer, tokens = Issuer(os.urandom(32)), []
    # Prepare the proxy's answers first: only the work of the device is timed.
    waiting = [blind_token(os.urandom(16)) for _ in range(MAX_REQUESTS_PER_TRANSACTION)]
    answers = [issuer.evaluate(element) for element, _ in waiting]
    began = time.process_time()
    for _ in range(MAX_REQUESTS_PER_TRANSACTION):
        blind_token(os.urandom(16))
    for (_, finalize), answer in zip(waiting, answers, strict=True):
        tokens.append(finalize(answer, issuer.public_key))
    created = MAX_REQUESTS_PER_TRANSACTION / (time.process_time() - began)
    return issued, _measure_rate(lambda: list(map(issuer.check, tokens))), created


def _measure_rate(work: Callable[[], object]) -> float:
    """Run work on the tokens of one full transaction, and return tokens per CPU second."""
    began = time.process_time()
    work()
    return MAX_REQUESTS_PER_TRANSACTION / (time.process_time() - began)
