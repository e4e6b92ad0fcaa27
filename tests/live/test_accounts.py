"""One account, one batch in an epoch, through the whole stack; and nobody knows whose it was."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.client import Client, Synced
from sottovoce.protocol.tokens import Attestation
from sottovoce.training import Participation, Settings
from tests.live.stack import HOLD, Stack, running

BACKEND = Ed25519PrivateKey.generate()
REPORTS = 2
TRAINING = Settings.preset("loudest", reports=REPORTS, epochs=4, factors=2)


@contextmanager
def accounts(folder: Path, **changes: Any) -> Iterator[Stack]:
    """A service in its second epoch: the first in which tokens are given, and nobody reports."""
    terms = Participation(least_clients=1, hold=HOLD, accounts=True)
    key = BACKEND.public_key().public_bytes_raw().hex()
    with running(folder, training=TRAINING, terms=terms, accounts_key=key, **changes) as stack:
        stack.hand_in()
        assert stack.world.signed().manifest.epoch == 2
        yield stack


def attesting(stack: Stack, account: str) -> Callable[[], bytes]:
    """The product's backend, for whoever is logged in as this account."""

    def attest() -> bytes:
        service, expiry = stack.world.keys.verification_key, int(stack.world.now) + 60
        return Attestation.make(BACKEND, service, sha256(account.encode()).digest(), expiry).encode()

    return attest


def sync(stack: Stack, client: Client, account: str) -> Synced:
    api = stack.gates["east"].api()
    return client.sync(api, jitter=0, attest=attesting(stack, account))


def test_a_token_is_fetched_in_one_epoch_and_spent_in_the_next(folder: Path) -> None:
    with accounts(folder) as stack:
        client = stack.client("phone", ["film-1"])
        assert sync(stack, client, "ann").outcome == "nothing asked"
        for _ in range(3):
            stack.turn()
            assert sync(stack, client, "ann").outcome == "sent"
            assert sync(stack, client, "ann").outcome == "already sent", "which fetches the next"
        epoch = stack.turn()
        assert stack.world.counts(epoch)[1] == REPORTS
