"""Accounts through the whole stack: one batch of an account in an epoch, which nobody can link."""

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
from tests.live.stack import HOLD_SECONDS, PROXY_URL, RecordedRequest, Stack, run_stack

BACKEND_KEY = Ed25519PrivateKey.generate()
BATCH_REPORTS = 2
TRAINING = Settings.preset("loudest", reports=BATCH_REPORTS, epochs=4, factors=2)


@contextmanager
def run_with_accounts(folder: Path, **changes: Any) -> Iterator[Stack]:
    """Run a service in its second epoch, the first in which tokens are issued."""
    terms = Participation(min_clients=1, hold=HOLD_SECONDS, accounts=True)
    key = BACKEND_KEY.public_key().public_bytes_raw().hex()
    options = {"training": TRAINING, "terms": terms, "accounts_key": key, **changes}
    with run_stack(folder, **options) as stack:
        stack.hand_in()
        assert stack.world.get_signed().manifest.epoch == 2
        yield stack


def make_backend(stack: Stack, account: str) -> Callable[[], bytes]:
    """Return the product's backend for a user who is logged in with this account."""

    def attest() -> bytes:
        service, expiry = stack.world.keys.verification_key, int(stack.world.now) + 300
        return Attestation.make(
            BACKEND_KEY, service, sha256(account.encode()).digest(), expiry
        ).encode()

    return attest


def sync(stack: Stack, client: Client, account: str) -> SyncResult:
    api = stack.gates["east"].make_api()
    return client.sync(api, jitter=0, fetch_attestation=make_backend(stack, account))


def test_a_token_is_fetched_in_one_epoch_and_spent_in_the_next(folder: Path) -> None:
    with run_with_accounts(folder) as stack:
        client = stack.add_client("phone", ["film-1"])
        assert sync(stack, client, "ann").outcome == "nothing asked"
        for _ in range(3):
            stack.end_epoch()
            assert sync(stack, client, "ann").outcome == "sent"
            assert sync(stack, client, "ann").outcome == "already sent", "which fetches the next"
        epoch = stack.end_epoch()
        assert stack.world.get_counts(epoch)[1] == BATCH_REPORTS


def test_devices_of_one_account_share_its_turns_and_pay_for_them_once(folder: Path) -> None:
    with run_with_accounts(folder) as stack:
        devices = [stack.add_client(name, ["film-1"]) for name in ("phone", "laptop", "tablet")]
        for device in devices:
            sync(stack, device, "ann")
        for _ in range(2):
            stack.end_epoch()
            results = [sync(stack, device, "ann") for device in devices]
            assert sorted(result.outcome for result in results) == ["no token", "no token", "sent"]
            assert sum(result.spent for result in results) > 0
            for device in devices:
                sync(stack, device, "ann")
        paid = [device.get_status().spent or 0.0 for device in devices]
        terms = stack.world.get_signed().manifest.terms
        assert sum(paid) == pytest.approx(2 * float(terms.cost))


def test_account_has_no_more_tokens_than_turns(folder: Path) -> None:
    # The proxy counts tokens, so that nothing depends on what devices forget.
    training = Settings.preset("loudest", reports=BATCH_REPORTS, epochs=4, factors=2, lifetime=2)
    with run_with_accounts(folder, training=training) as stack:
        assert stack.world.get_signed().manifest.terms.epochs == 2
        tokens = []
        for turn in range(4):
            tokens.append(get_token(stack, "ann", bytes([turn] * 16)))
            stack.end_epoch(crowd=turn == 0)
        assert [token is not None for token in tokens] == [True, True, False, False]


def test_turn_is_returned_if_the_epoch_had_no_crowd(folder: Path) -> None:
    """Otherwise accounts that came first and had no crowd would never count."""
    training = Settings.preset("loudest", reports=BATCH_REPORTS, epochs=4, factors=2, lifetime=1)
    terms = Participation(min_clients=3, hold=HOLD_SECONDS, accounts=True)
    with run_with_accounts(folder, training=training, terms=terms) as stack:
        names = ("anna", "otto", "ruth")
        first = [get_token(stack, name, name.encode() * 4) for name in names[:2]]
        assert None not in first
        assert get_token(stack, "anna", b"again" + bytes(11)) is None, "one for each epoch"
        stack.end_epoch()
        proxy = stack.gates["east"].proxy
        # As after a restart: turns are given back only once.
        proxy.accounts.follow(stack.gates["east"].get_signed())
        tokens = [get_token(stack, name, name.upper().encode() * 4) for name in names]
        stack.end_epoch()
        statuses = [spend(stack, token, seed) for seed, token in enumerate(tokens) if token]
        assert statuses == [202] * 3
        assert [get_token(stack, name, name[::-1].encode() * 4) for name in names] == [None] * 3


def test_disk_failure_between_two_epochs_loses_neither(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It fails when the manifest is on the disk and its keys are not.
    with run_with_accounts(folder) as stack:
        gate, client = stack.gates["east"], stack.add_client("phone", ["film-1"])
        sync(stack, client, "ann")
        follow, failures = gate.proxy.accounts.follow, [StoreError("the disk is full")]

        def failing(signed: SignedManifest) -> None:
            if failures and signed.manifest.epoch == 3:
                raise failures.pop()
            follow(signed)

        monkeypatch.setattr(gate.proxy.accounts, "follow", failing)
        with pytest.raises(StoreError):
            stack.end_epoch()
        stack.hand_in()
        assert sync(stack, client, "ann").outcome == "sent"
        assert sync(stack, client, "ann").outcome == "already sent"
        stack.end_epoch()
        assert sync(stack, client, "ann").outcome == "sent"


def list_requests(
    stack: Stack, client: Client, api: HttpProxy | None = None, **more: Any
) -> list[str]:
    """Return the last parts of the paths that one sync requests."""
    gate = stack.gates["east"]
    before = len(gate.recorder.requests)
    client.sync(api or gate.make_api(), fetch_attestation=make_backend(stack, "ann"), **more)
    return [request.path.rpartition("/")[2] for request in gate.recorder.requests[before:]]


@pytest.mark.parametrize("answer", ["taken", "refused"])
def test_sync_does_not_both_send_an_old_batch_and_fetch_a_token(folder: Path, answer: str) -> None:
    # A proxy could let a batch wait, show the next epoch, and link the two.
    with run_with_accounts(folder) as stack:
        gate, client = stack.gates["east"], stack.add_client("phone", ["film-1"])
        sync(stack, client, "ann")
        stack.end_epoch()
        gate.recorder.answer_instead = lambda request: (
            b"" if request.path == "/v2/batches" else None
        )
        # The answer is 200, which is not accepted.
        with pytest.raises(RefusedError):
            sync(stack, client, "ann")

        class Late(HttpProxy):
            def send(self, batch: bytes) -> None:
                if answer == "refused":
                    stack.end_epoch(crowd=False)
                super().send(batch)
                stack.end_epoch()

        gate.recorder.answer_instead = lambda _: None
        late = Late(gate.http, PROXY_URL)
        paths = list_requests(stack, client, late, jitter=0)
        assert "batches" in paths
        assert "tokens" not in paths
        assert stack.world.get_signed().manifest.epoch == 4
        assert "tokens" in list_requests(stack, client, jitter=0)


def test_paused_device_requests_no_token(folder: Path) -> None:
    with run_with_accounts(folder) as stack:
        client = stack.add_client("phone", ["film-1"])

        def paused(seconds: float) -> None:
            stack.world.now += seconds
            client.pause()

        assert "tokens" not in list_requests(stack, client, jitter=100, sleep=paused)
        client.pause(on=False)
        assert "tokens" in list_requests(stack, client, jitter=0)


def test_withheld_token_is_not_used(folder: Path) -> None:
    # If it were used when all others are, it would show whose batch it is.
    with run_with_accounts(folder) as stack:
        gate, client = stack.gates["east"], stack.add_client("phone", ["film-1"])

        def slow(request: RecordedRequest) -> None:
            stack.world.now += 61 * (request.path == "/v2/tokens")

        gate.recorder.answer_instead = slow
        with pytest.raises(UnavailableError, match="could recognise"):
            sync(stack, client, "ann")
        gate.recorder.answer_instead = lambda _: None
        stack.end_epoch()
        assert sync(stack, client, "ann").outcome == "no token"


def get_token(stack: Stack, account: str, name: bytes, epoch: int | None = None) -> Token | None:
    """Get a token for the next epoch as a device does; None if it is refused."""
    gate, manifest = stack.gates["east"], stack.gates["east"].get_signed().manifest
    epoch = manifest.epoch + 1 if epoch is None else epoch
    element, finalize = blind_token(name)
    attestation = Attestation.decode(make_backend(stack, account)())
    try:
        answer = gate.make_api().token(TokenRequest(epoch, attestation, element).encode())
    except RefusedError:
        return None
    assert manifest.next_token_key is not None
    return finalize(answer, manifest.next_token_key)


def make_batch_with(stack: Stack, token: Token, seed: int = 0) -> bytes:
    batch = stack.make_random_batch(stack.gates["east"], seed)
    return replace(batch, id=token.id, output=token.output).encode()


def spend(stack: Stack, token: Token, seed: int = 0) -> int:
    """Send a batch with this token and return the status."""
    return stack.gates["east"].post(make_batch_with(stack, token, seed))


def test_a_token_counts_once_and_in_its_epoch(folder: Path) -> None:
    with run_with_accounts(folder) as stack:
        token, other = (get_token(stack, name, name.encode() * 4) for name in ("anna", "otto"))
        assert token is not None
        assert other is not None
        assert get_token(stack, "anna", bytes(16)) is None, "one for each account"
        assert get_token(stack, "otto", bytes(16), epoch=4) is None, "of the next epoch alone"
        stack.end_epoch()
        assert spend(stack, replace(token, output=bytes(64))) == 409, "forged"
        assert spend(stack, replace(token, id=other.id)) == 409, "another's id"
        batch = make_batch_with(stack, token)
        assert stack.gates["east"].post(batch) == 202
        assert stack.gates["east"].post(batch) == 202, "again: its answer was not heard"
        assert spend(stack, token, seed=1) == 409, "spent"
        late = get_token(stack, "otto", b"late" * 4)
        assert late is not None
        assert spend(stack, late) == 409, "of the next epoch"
        epoch = stack.end_epoch()
        assert stack.world.get_counts(epoch)[1] == BATCH_REPORTS
        assert spend(stack, other) == 409, "of the epoch before"
        assert spend(stack, late) == 202


def test_crowd_counts_accounts(folder: Path) -> None:
    # A machine with one account counts once, whatever it requests.
    terms = Participation(min_clients=3, hold=HOLD_SECONDS, accounts=True)
    with run_with_accounts(folder, terms=terms) as stack:
        tokens = [get_token(stack, "mallory", bytes([turn] * 16)) for turn in range(9)]
        (one,) = [token for token in tokens if token is not None]
        two = get_token(stack, "victim", b"v" * 16)
        assert two is not None
        stack.end_epoch()
        assert [spend(stack, token, seed) for seed, token in enumerate((one, two))] == [410] * 2
        epoch = stack.end_epoch()
        assert stack.world.get_counts(epoch)[1] == 0, "two are no crowd of three"


def test_epoch_of_too_few_accounts_charges_nobody_and_ends_in_time(folder: Path) -> None:
    # All of its tokens were issued before it, so its crowd cannot grow.
    terms = Participation(min_clients=2, hold=HOLD_SECONDS, accounts=True)
    with run_with_accounts(folder, terms=terms) as stack:
        client = stack.add_client("phone", ["film-1"])
        sync(stack, client, "ann")
        stack.end_epoch()
        assert sync(stack, client, "ann").outcome == "not open"
        assert client.get_status().spent == 0
        stack.end_epoch()
        assert stack.world.get_signed().manifest.public_key is not None


def test_request_without_attestation_gets_no_token(folder: Path) -> None:
    with run_with_accounts(folder) as stack:
        gate, now = stack.gates["east"], int(stack.world.now)
        service, stranger = stack.world.keys.verification_key, Ed25519PrivateKey.generate()
        element, _ = blind_token(bytes(16))

        def status(key: Ed25519PrivateKey, whom: bytes, expiry: int) -> int:
            attestation = Attestation.make(key, whom, bytes(32), expiry)
            body = TokenRequest(gate.get_signed().manifest.epoch + 1, attestation, element).encode()
            return gate.http.post(f"{PROXY_URL}/v2/tokens", content=body).status_code

        assert status(stranger, service, now + 60) == 400
        assert status(BACKEND_KEY, bytes(32), now + 60) == 400, "for another service"
        assert status(BACKEND_KEY, service, now) == 400, "expired"
        assert status(BACKEND_KEY, service, now + 4000) == 400, "for too long"
        assert status(BACKEND_KEY, service, now + 60) == 200
        for body in (b"", b"SVT2" + bytes(140), bytes(144), bytes(5000)):
            answer = gate.http.post(f"{PROXY_URL}/v2/tokens", content=body)
            assert answer.status_code in (400, 413)


def test_same_element_is_answered_again_after_a_restart(folder: Path) -> None:
    with run_with_accounts(folder) as stack:
        gate, manifest = stack.gates["east"], stack.gates["east"].get_signed().manifest
        element, finalize = blind_token(bytes(16))
        key = manifest.next_token_key
        assert key is not None

        def ask() -> Token:
            attestation = Attestation.decode(make_backend(stack, "ann")())
            request = TokenRequest(manifest.epoch + 1, attestation, element)
            return finalize(gate.make_api().token(request.encode()), key)

        token = ask()
        assert ask() == token
        gate.proxy.accounts = gate.proxy.intake._accounts = Accounts(
            gate.store, gate.proxy._settings, lambda: stack.world.now
        )
        gate.proxy.accounts.follow(gate.get_signed())
        stack.end_epoch()
        assert spend(stack, token) == 202


def test_proxy_without_its_token_keys_takes_nothing_until_the_next_epoch(folder: Path) -> None:
    """Restore a backup without the keys: nobody pays for a batch that could not be redeemed."""
    with run_with_accounts(folder) as stack:
        gate = stack.gates["east"]
        client = stack.add_client("phone", ["film-1"])
        sync(stack, client, "ann")
        with gate.store.write() as tables:
            for seed in tables.get_token_keys():
                tables.set_token_epoch(seed, 0)
            tables.delete_token_keys(1)
        stack.end_epoch()
        assert gate.proxy.troubles["tokens"]
        assert gate.proxy.is_paused
        with pytest.raises(UnavailableError):
            sync(stack, client, "ann")
        assert client.get_status().spent == 0
        for _ in range(3):
            stack.end_epoch(crowd=False)
        assert not gate.proxy.troubles["tokens"]
        sync(stack, client, "ann")
        stack.end_epoch(crowd=False)
        assert sync(stack, client, "ann").outcome == "sent"
