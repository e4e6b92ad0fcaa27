"""What accounts cost: a token given by the proxy, redeemed there, and made by a device."""

import os
import time
from collections.abc import Callable, Iterator
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
    """A second of one core."""

    issued: Spread
    """Attestation checked, evaluated with its proof, synced with as many others as batches are."""
    redeemed: Spread
    made: Spread
    """Blinded, and finalised with the proof checked, on a device."""


def measure_tokens(
    signed: SignedManifest, folder: Path, *, rounds: int, watch: Watch
) -> TokenRates:
    watch(f"{rounds} x {MAX_REQUESTS_PER_TRANSACTION} tokens")
    found = [_round(signed, folder / f"tokens-{number}") for number in range(rounds)]
    return TokenRates(*(Spread.of(each) for each in zip(*found, strict=True)))


def _round(signed: SignedManifest, folder: Path) -> tuple[float, float, float]:
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
        before = replace(
            signed.manifest, terms=replace(signed.manifest.terms, accounts=True), public_key=None
        )
        accounts.follow(SignedManifest.make(before, signer))
        named = replace(before, next_token_key=accounts.announced_key)
        accounts.follow(SignedManifest.make(named, signer))
        requests = [
            TokenRequest(before.epoch + 1, attested, blind_token(os.urandom(16))[0]).encode()
            for attested in _attestations(backend, signed.key, int(now) + 60)
        ]
        issued = _rate(
            lambda: accounts.issue_tokens([accounts.check_request(each) for each in requests])
        )
    issuer, tokens = Issuer(os.urandom(32)), []
    waiting = [blind_token(os.urandom(16)) for _ in range(MAX_REQUESTS_PER_TRANSACTION)]
    answers = [issuer.evaluate(element) for element, _ in waiting]
    began = time.process_time()
    for _ in range(MAX_REQUESTS_PER_TRANSACTION):
        blind_token(os.urandom(16))
    for (_, finalize), answer in zip(waiting, answers, strict=True):
        tokens.append(finalize(answer, issuer.public_key))
    made = MAX_REQUESTS_PER_TRANSACTION / (time.process_time() - began)
    return issued, _rate(lambda: list(map(issuer.check, tokens))), made


def _attestations(backend: Ed25519PrivateKey, service: bytes, expiry: int) -> Iterator[Attestation]:
    for _ in range(MAX_REQUESTS_PER_TRANSACTION):
        yield Attestation.make(backend, service, os.urandom(32), expiry)


def _rate(work: Callable[[], object]) -> float:
    """Of a whole group, by processor time."""
    began = time.process_time()
    work()
    return MAX_REQUESTS_PER_TRANSACTION / (time.process_time() - began)
