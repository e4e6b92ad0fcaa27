"""Keys of tokens and their epochs, whatever a server claims, and power cuts."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.errors import RefusedError
from sottovoce.protocol import SignedManifest
from sottovoce.protocol.tokens import Attestation, Issuer, TokenRequest, blind_token
from sottovoce.proxy.accounts import Accounts
from tests.crash import Life, MortalDatabase, PowerCut, make_mortal
from tests.proxy.world import KEY, manifest, open_store, settings

BACKEND = Ed25519PrivateKey.generate()
NOW = 1_000.0


def sign_manifest(epoch: int, token: bytes | None, following: bytes | None) -> SignedManifest:
    """Return the manifest of an epoch in which reports need tokens."""
    plain = manifest(epoch)
    terms = replace(plain.terms, accounts=True)
    public = plain.public_key if token else None
    changed = replace(
        plain, terms=terms, public_key=public, token_key=token, next_token_key=following
    )
    return SignedManifest.make(changed, KEY)


@contextmanager
def opened(folder: Path) -> Iterator[Accounts]:
    key = BACKEND.public_key().public_bytes_raw().hex()
    with open_store(folder) as store:
        yield Accounts(store, settings(folder, accounts_key=key), lambda: NOW)


def request(epoch: int, element: bytes, whose: bytes = bytes(32)) -> TokenRequest:
    service = bytes.fromhex(settings(Path()).verification_key)
    attestation = Attestation.make(BACKEND, service, whose, int(NOW) + 60)
    return TokenRequest(epoch, attestation, element)


def is_paused(accounts: Accounts) -> bool:
    return accounts.problem is not None


def test_token_key_is_for_one_epoch(tmp_path: Path) -> None:
    """Tokens of an epoch are made with the key that was announced for it."""
    with opened(tmp_path) as accounts:
        accounts.follow(sign_manifest(1, None, None))
        first = accounts.announced_key
        assert first is not None
        accounts.follow(sign_manifest(2, None, first))
        second = accounts.announced_key
        assert second not in (None, first), "named once, it is announced no more"
        element, _ = blind_token(bytes(16))
        assert accounts.check_request(request(3, element).encode()).epoch == 3
        accounts.follow(sign_manifest(3, None, first))
        with pytest.raises(RefusedError):  # of the third epoch: with it an account would have two
            accounts.check_request(request(4, element).encode())
        accounts.follow(sign_manifest(4, first, second))
        assert is_paused(accounts)
        foreign = Issuer(bytes(32)).public_key
        accounts.follow(sign_manifest(5, second, foreign))
        assert not is_paused(accounts)
        with pytest.raises(RefusedError):
            accounts.check_request(request(6, element).encode())
        accounts.follow(sign_manifest(6, foreign, accounts.announced_key))
        assert is_paused(accounts)


def test_refused_token_request_is_not_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches wait for the same lock, and one account can send any number of requests."""
    with opened(tmp_path) as accounts:
        accounts.follow(sign_manifest(1, None, None))
        accounts.follow(sign_manifest(2, None, accounts.announced_key))
        element = blind_token(bytes(16))[0]
        assert isinstance(accounts.issue_tokens([request(3, element)])[0], bytes)
        evaluated: list[bytes] = []
        monkeypatch.setattr(Issuer, "evaluate", lambda _, element: evaluated.append(element))
        others = [request(3, blind_token(bytes([turn] * 16))[0]) for turn in range(9)]
        assert all(isinstance(answer, RefusedError) for answer in accounts.issue_tokens(others))
        assert evaluated == []


def test_power_cut_while_tokens_are_issued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The same element is answered again; another one only if there was no answer.
    make_mortal(monkeypatch)
    for steps in count():
        folder, life = tmp_path / str(steps), Life(steps)
        with opened(folder) as accounts:
            accounts.follow(sign_manifest(1, None, None))
            accounts.follow(sign_manifest(2, None, accounts.announced_key))
            shown = accounts._issuers[3].public_key
        element, finalize = blind_token(bytes(16))
        answered = False
        with suppress(PowerCut), opened(folder) as accounts:
            accounts.follow(sign_manifest(2, None, shown))
            MortalDatabase.life = life
            answered = isinstance(accounts.issue_tokens([request(3, element)])[0], bytes)
        MortalDatabase.life = Life()
        with opened(folder) as accounts:
            accounts.follow(sign_manifest(2, None, shown))
            (again,) = accounts.issue_tokens([request(3, element)])
            assert isinstance(again, bytes)
            accounts._issuers[3].check(finalize(again, shown))
            (other,) = accounts.issue_tokens([request(3, blind_token(bytes(16))[0])])
            assert isinstance(other, RefusedError)
            with accounts._store.read() as tables:
                assert tables.count_issued(3) == 1
        if answered:
            break
    assert steps >= 2
