"""One account, one batch in an epoch, through the whole stack; and nobody knows whose it was."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.client import Client, HttpProxy, SyncResult
from sottovoce.errors import RefusedError, StoreError, UnavailableError
from sottovoce.protocol import SignedManifest
from sottovoce.protocol.tokens import Attestation, Token, TokenRequest, blind_token
from sottovoce.proxy.accounts import Accounts
from sottovoce.training import Participation, Settings
from tests.live.stack import HOLD, PROXY_URL, RecordedRequest, Stack, running

BACKEND = Ed25519PrivateKey.generate()
REPORTS = 2
TRAINING = Settings.preset("loudest", reports=REPORTS, epochs=4, factors=2)


@contextmanager
def accounts(folder: Path, **changes: Any) -> Iterator[Stack]:
    """Run a service in its second epoch, the first in which tokens are issued."""
    terms = Participation(least_clients=1, hold=HOLD, accounts=True)
    key = BACKEND.public_key().public_bytes_raw().hex()
    options = {"training": TRAINING, "terms": terms, "accounts_key": key, **changes}
    with running(folder, **options) as stack:
        stack.hand_in()
        assert stack.world.get_signed().manifest.epoch == 2
        yield stack


def attesting(stack: Stack, account: str) -> Callable[[], bytes]:
    """Return the product's backend for a user who is logged in with this account."""

    def attest() -> bytes:
        service, expiry = stack.world.keys.verification_key, int(stack.world.now) + 300
        return Attestation.make(
            BACKEND, service, sha256(account.encode()).digest(), expiry
        ).encode()

    return attest


def sync(stack: Stack, client: Client, account: str) -> SyncResult:
    api = stack.gates["east"].api()
    return client.sync(api, jitter=0, fetch_attestation=attesting(stack, account))


def test_a_token_is_fetched_in_one_epoch_and_spent_in_the_next(folder: Path) -> None:
    with accounts(folder) as stack:
        client = stack.client("phone", ["film-1"])
        assert sync(stack, client, "ann").outcome == "nothing asked"
        for _ in range(3):
            stack.turn()
            assert sync(stack, client, "ann").outcome == "sent"
            assert sync(stack, client, "ann").outcome == "already sent", "which fetches the next"
        epoch = stack.turn()
        assert stack.world.get_counts(epoch)[1] == REPORTS


def test_devices_of_one_account_share_its_turns_and_pay_for_them_once(folder: Path) -> None:
    with accounts(folder) as stack:
        devices = [stack.client(name, ["film-1"]) for name in ("phone", "laptop", "tablet")]
        for device in devices:
            sync(stack, device, "ann")
        for _ in range(2):
            stack.turn()
            results = [sync(stack, device, "ann") for device in devices]
            assert sorted(result.outcome for result in results) == ["no token", "no token", "sent"]
            assert sum(result.spent for result in results) > 0
            for device in devices:
                sync(stack, device, "ann")
        paid = [device.get_status().spent or 0.0 for device in devices]
        terms = stack.world.get_signed().manifest.terms
        assert sum(paid) == pytest.approx(2 * float(terms.cost))


def test_an_account_has_no_more_tokens_than_turns(folder: Path) -> None:
    """Count tokens at the proxy, so that nothing depends on what devices forget."""
    training = Settings.preset("loudest", reports=REPORTS, epochs=4, factors=2, lifetime=2)
    with accounts(folder, training=training) as stack:
        assert stack.world.get_signed().manifest.terms.epochs == 2
        tokens = []
        for turn in range(4):
            tokens.append(taken(stack, "ann", bytes([turn] * 16)))
            stack.turn(crowd=turn == 0)
        assert [token is not None for token in tokens] == [True, True, False, False]


def test_whoever_could_not_report_has_the_turn_again(folder: Path) -> None:
    """Return the turn; otherwise accounts that came first and had no crowd would never count."""
    training = Settings.preset("loudest", reports=REPORTS, epochs=4, factors=2, lifetime=1)
    terms = Participation(least_clients=3, hold=HOLD, accounts=True)
    with accounts(folder, training=training, terms=terms) as stack:
        names = ("anna", "otto", "ruth")
        first = [taken(stack, name, name.encode() * 4) for name in names[:2]]
        assert None not in first
        assert taken(stack, "anna", b"again" + bytes(11)) is None, "one for each epoch all the same"
        stack.turn()
        proxy = stack.gates["east"].proxy
        proxy.accounts.follow(stack.gates["east"].signed())  # as after a restart: given back once
        tokens = [taken(stack, name, name.upper().encode() * 4) for name in names]
        stack.turn()
        statuses = [spend(stack, token, seed) for seed, token in enumerate(tokens) if token]
        assert statuses == [202] * 3
        assert [taken(stack, name, name[::-1].encode() * 4) for name in names] == [None] * 3


def test_a_disk_that_fails_between_two_epochs_costs_none_of_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail when the manifest is on the disk and its keys are not."""
    with accounts(folder) as stack:
        gate, client = stack.gates["east"], stack.client("phone", ["film-1"])
        sync(stack, client, "ann")
        follow, failures = gate.proxy.accounts.follow, [StoreError("the disk is full")]

        def failing(signed: SignedManifest) -> None:
            if failures and signed.manifest.epoch == 3:
                raise failures.pop()
            follow(signed)

        monkeypatch.setattr(gate.proxy.accounts, "follow", failing)
        with pytest.raises(StoreError):
            stack.turn()
        stack.hand_in()
        assert sync(stack, client, "ann").outcome == "sent"
        assert sync(stack, client, "ann").outcome == "already sent"
        stack.turn()
        assert sync(stack, client, "ann").outcome == "sent"


def asked(stack: Stack, client: Client, api: HttpProxy | None = None, **more: Any) -> list[str]:
    """Return the last parts of the paths that one sync requests."""
    gate = stack.gates["east"]
    before = len(gate.recorder.requests)
    client.sync(api or gate.api(), fetch_attestation=attesting(stack, "ann"), **more)
    return [request.path.rpartition("/")[2] for request in gate.recorder.requests[before:]]


@pytest.mark.parametrize("answer", ["taken", "refused"])
def test_no_sync_sends_what_was_left_over_and_asks_for_a_token(folder: Path, answer: str) -> None:
    """Separate both: a proxy could let a batch wait, show the next epoch, and link the two."""
    with accounts(folder) as stack:
        gate, client = stack.gates["east"], stack.client("phone", ["film-1"])
        sync(stack, client, "ann")
        stack.turn()
        gate.recorder.lie = lambda request: b"" if request.path == "/v2/batches" else None
        with pytest.raises(RefusedError):  # 200 is not accepted
            sync(stack, client, "ann")

        class Late(HttpProxy):
            def send(self, batch: bytes) -> None:
                if answer == "refused":
                    stack.turn(crowd=False)
                super().send(batch)
                stack.turn()

        gate.recorder.lie = lambda _: None
        late = Late(gate.http, PROXY_URL)
        paths = asked(stack, client, late, jitter=0)
        assert "batches" in paths
        assert "tokens" not in paths
        assert stack.world.get_signed().manifest.epoch == 4
        assert "tokens" in asked(stack, client, jitter=0)


def test_nothing_is_asked_for_after_a_pause(folder: Path) -> None:
    with accounts(folder) as stack:
        client = stack.client("phone", ["film-1"])

        def paused(seconds: float) -> None:
            stack.world.now += seconds
            client.pause()

        assert "tokens" not in asked(stack, client, jitter=100, sleep=paused)
        client.pause(on=False)
        assert "tokens" in asked(stack, client, jitter=0)


def test_a_token_that_a_proxy_kept_back_is_not_used(folder: Path) -> None:
    """Spent when all others are, it would show whose batch it is."""
    with accounts(folder) as stack:
        gate, client = stack.gates["east"], stack.client("phone", ["film-1"])

        def slow(request: RecordedRequest) -> None:
            stack.world.now += 61 * (request.path == "/v2/tokens")

        gate.recorder.lie = slow
        with pytest.raises(UnavailableError, match="could be recognised"):
            sync(stack, client, "ann")
        gate.recorder.lie = lambda _: None
        stack.turn()
        assert sync(stack, client, "ann").outcome == "no token"


def taken(stack: Stack, account: str, name: bytes, epoch: int | None = None) -> Token | None:
    """Get a token for the next epoch as a device does; None if it is refused."""
    gate, manifest = stack.gates["east"], stack.gates["east"].signed().manifest
    epoch = manifest.epoch + 1 if epoch is None else epoch
    element, finalize = blind_token(name)
    attestation = Attestation.decode(attesting(stack, account)())
    try:
        answer = gate.api().token(TokenRequest(epoch, attestation, element).encode())
    except RefusedError:
        return None
    assert manifest.next_token_key is not None
    return finalize(answer, manifest.next_token_key)


def batch_with(stack: Stack, token: Token, seed: int = 0) -> bytes:
    batch = stack.random_batch(stack.gates["east"], seed)
    return replace(batch, id=token.id, output=token.output).encode()


def spend(stack: Stack, token: Token, seed: int = 0) -> int:
    """Send a batch with this token and return the status."""
    return stack.gates["east"].post(batch_with(stack, token, seed))


def test_a_token_counts_once_and_in_its_epoch(folder: Path) -> None:
    with accounts(folder) as stack:
        token, other = (taken(stack, name, name.encode() * 4) for name in ("anna", "otto"))
        assert token is not None
        assert other is not None
        assert taken(stack, "anna", bytes(16)) is None, "one for each account"
        assert taken(stack, "otto", bytes(16), epoch=4) is None, "of the next epoch alone"
        stack.turn()
        assert spend(stack, replace(token, output=bytes(64))) == 409, "forged"
        assert spend(stack, replace(token, id=other.id)) == 409, "another's id"
        batch = batch_with(stack, token)
        assert stack.gates["east"].post(batch) == 202
        assert stack.gates["east"].post(batch) == 202, "again: its answer was not heard"
        assert spend(stack, token, seed=1) == 409, "spent"
        late = taken(stack, "otto", b"late" * 4)
        assert late is not None
        assert spend(stack, late) == 409, "of the next epoch"
        epoch = stack.turn()
        assert stack.world.get_counts(epoch)[1] == REPORTS
        assert spend(stack, other) == 409, "of the epoch before"
        assert spend(stack, late) == 202


def test_a_crowd_is_as_many_accounts(folder: Path) -> None:
    """Count a machine with one account once, however often it asks."""
    terms = Participation(least_clients=3, hold=HOLD, accounts=True)
    with accounts(folder, terms=terms) as stack:
        tokens = [taken(stack, "mallory", bytes([turn] * 16)) for turn in range(9)]
        (one,) = [token for token in tokens if token is not None]
        two = taken(stack, "victim", b"v" * 16)
        assert two is not None
        stack.turn()
        assert [spend(stack, token, seed) for seed, token in enumerate((one, two))] == [410] * 2
        epoch = stack.turn()
        assert stack.world.get_counts(epoch)[1] == 0, "two are no crowd of three"


def test_an_epoch_of_too_few_accounts_costs_nobody_anything_and_ends_in_time(folder: Path) -> None:
    """End such an epoch in time: all of its tokens were issued before it."""
    terms = Participation(least_clients=2, hold=HOLD, accounts=True)
    with accounts(folder, terms=terms) as stack:
        client = stack.client("phone", ["film-1"])
        sync(stack, client, "ann")
        stack.turn()
        assert sync(stack, client, "ann").outcome == "not open"
        assert client.get_status().spent == 0
        stack.turn()
        assert stack.world.get_signed().manifest.public_key is not None


def test_what_is_not_attested_gets_no_token(folder: Path) -> None:
    with accounts(folder) as stack:
        gate, now = stack.gates["east"], int(stack.world.now)
        service, stranger = stack.world.keys.verification_key, Ed25519PrivateKey.generate()
        element, _ = blind_token(bytes(16))

        def status(key: Ed25519PrivateKey, whom: bytes, expiry: int) -> int:
            attestation = Attestation.make(key, whom, bytes(32), expiry)
            body = TokenRequest(gate.signed().manifest.epoch + 1, attestation, element).encode()
            return gate.http.post(f"{PROXY_URL}/v2/tokens", content=body).status_code

        assert status(stranger, service, now + 60) == 400
        assert status(BACKEND, bytes(32), now + 60) == 400, "for another service"
        assert status(BACKEND, service, now) == 400, "expired"
        assert status(BACKEND, service, now + 4000) == 400, "for too long"
        assert status(BACKEND, service, now + 60) == 200
        for body in (b"", b"SVT2" + bytes(140), bytes(144), bytes(5000)):
            answer = gate.http.post(f"{PROXY_URL}/v2/tokens", content=body)
            assert answer.status_code in (400, 413)


def test_the_same_element_is_answered_again_also_after_a_restart(folder: Path) -> None:
    with accounts(folder) as stack:
        gate, manifest = stack.gates["east"], stack.gates["east"].signed().manifest
        element, finalize = blind_token(bytes(16))
        key = manifest.next_token_key
        assert key is not None

        def ask() -> Token:
            attestation = Attestation.decode(attesting(stack, "ann")())
            request = TokenRequest(manifest.epoch + 1, attestation, element)
            return finalize(gate.api().token(request.encode()), key)

        token = ask()
        assert ask() == token
        gate.proxy.accounts = gate.proxy.intake._accounts = Accounts(
            gate.store, gate.proxy._settings, lambda: stack.world.now
        )
        gate.proxy.accounts.follow(gate.signed())
        stack.turn()
        assert spend(stack, token) == 202


def test_a_proxy_without_its_keys_takes_nothing_and_goes_on_by_itself(folder: Path) -> None:
    """Restore a backup without the keys: nobody pays for what could not be redeemed."""
    with accounts(folder) as stack:
        gate = stack.gates["east"]
        client = stack.client("phone", ["film-1"])
        sync(stack, client, "ann")
        with gate.store.write() as tables:
            for seed in tables.get_token_keys():
                tables.set_token_epoch(seed, 0)
            tables.delete_token_keys(1)
        stack.turn()
        assert gate.proxy.troubles["tokens"]
        assert gate.proxy.is_paused
        with pytest.raises(UnavailableError):
            sync(stack, client, "ann")
        assert client.get_status().spent == 0
        for _ in range(3):
            stack.turn(crowd=False)
        assert not gate.proxy.troubles["tokens"]
        sync(stack, client, "ann")
        stack.turn(crowd=False)
        assert sync(stack, client, "ann").outcome == "sent"
