"""Tokens for accounts: at most one for each account and epoch, made blindly, and spent once.

The key of an epoch's tokens is drawn here and announced to the server, which names it in a manifest
for the epoch after: all devices see the same one. When that epoch is over, the key is deleted. A
spent token is recognised by its batch, which has the token's id. Tokens of an epoch that can have
no crowd are given back.
"""

from collections.abc import Callable, Sequence

from sottovoce.errors import ProtocolError, RefusedError, SottovoceError, StoreError
from sottovoce.protocol import Batch, Manifest, SignedManifest
from sottovoce.protocol.tokens import Issuer, TokenRequest, draw_seed
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.store import ProxyStore, Tables


class Accounts:
    """Issues tokens to devices and checks them."""

    def __init__(self, store: ProxyStore, settings: ProxySettings, clock: Callable[[], float]):
        self._store = store
        self._settings = settings
        self._attester = settings.attester
        self._service = settings.key
        self._clock = clock
        self._issuers: dict[int | None, Issuer] = {}
        """Issuers by epoch; None for the one that no manifest has named yet."""
        self._manifest: Manifest | None = None
        self.problem: str | None = None
        """Why no token can be redeemed in the epoch that clients are shown."""
        self._n_issued: int | None = None
        """Tokens of that epoch, so that no more people can report; None if nobody needs one."""

    def follow(self, signed: SignedManifest) -> None:
        """Assign keys to epochs as a manifest says, and draw a key for a later epoch."""
        manifest = signed.manifest
        if not manifest.terms.accounts:
            self._manifest = self.problem = self._n_issued = None
            return
        with self._store.write() as tables:
            tables.delete_token_keys(manifest.epoch)
            for seed, epoch in tables.get_token_keys().items():
                # Only once: a key for two epochs would give an account two tokens in one of them.
                if epoch is None and Issuer(seed).public_key == manifest.next_token_key:
                    tables.set_token_epoch(seed, manifest.epoch + 1)
            if None not in tables.get_token_keys().values():
                tables.add_token_key(draw_seed())
            issuers = {epoch: Issuer(seed) for seed, epoch in tables.get_token_keys().items()}
            if tables.count_issued(manifest.epoch) < self._settings.compute_min_crowd(
                manifest.terms
            ):
                tables.give_back(manifest.epoch)  # nobody can spend them
            self._n_issued = tables.count_issued(manifest.epoch)
        self._issuers, self._manifest = issuers, manifest
        self.problem = self._find_problem(manifest)

    def _find_problem(self, manifest: Manifest) -> str | None:
        if self._attester is None:
            return "the terms ask for accounts: accounts_key must name the backend's key"
        epoch, key = manifest.epoch, manifest.token_key
        if key is None or (epoch in self._issuers and self._issuers[epoch].public_key == key):
            return None
        return (
            f"the key of epoch {epoch}'s tokens is not in this proxy's folder, as in a backup; "
            "wait: at most two epochs later there is a new one"
        )

    def has_too_few_tokens(self, min_crowd: int) -> bool:
        """Return whether the epoch can have no crowd, so that nobody should pay for it."""
        # Each batch needs a token, so the number of tokens limits the crowd.
        return self._n_issued is not None and self._n_issued < min_crowd

    @property
    def announced_key(self) -> bytes | None:
        """The public key that the next manifest may name."""
        issuer = self._issuers.get(None)
        return None if issuer is None or self._attester is None else issuer.public_key

    def check_request(self, data: bytes) -> TokenRequest:
        """Decode a device's request and check its attestation, without reading the disk."""
        request = TokenRequest.decode(data)
        if self._manifest is None or self._attester is None:
            raise RefusedError("this service has no accounts")
        request.attestation.check(self._attester, self._service, self._clock())
        # Only for the next epoch, for which the current manifest names the key.
        if request.epoch != self._manifest.epoch + 1 or self._get_issuer(request.epoch) is None:
            raise RefusedError(f"tokens for epoch {request.epoch} are not issued now")
        return request

    def _get_issuer(self, epoch: int) -> Issuer | None:
        """Return the issuer that the current manifest names for an epoch."""
        manifest, issuer = self._manifest, self._issuers.get(epoch)
        if manifest is None or issuer is None or issuer.public_key != manifest.next_token_key:
            return None
        return issuer

    def issue_tokens(self, requests: Sequence[TokenRequest]) -> list[bytes | SottovoceError]:
        """Return for each request the answer, or why it is refused, in one transaction."""
        answers: list[bytes | SottovoceError] = []
        try:
            with self._store.write() as tables:
                for request in requests:
                    try:
                        answers.append(self._issue_token(request, tables))
                    except (RefusedError, ProtocolError) as error:
                        answers.append(error)
        except StoreError as error:
            return [error] * len(requests)
        return answers

    def _issue_token(self, request: TokenRequest, tables: Tables) -> bytes:
        manifest, issuer = self._manifest, self._get_issuer(request.epoch)
        if manifest is None or issuer is None:
            raise RefusedError(f"tokens for epoch {request.epoch} are no longer issued")
        training, pseudonym = manifest.terms.training, request.attestation.pseudonym
        turns, epoch, blinded = tables.get_account(training, pseudonym)
        # A device that did not receive the answer asks again with the same element.
        is_repeated = epoch == request.epoch and blinded == request.blinded
        if not is_repeated and (epoch >= request.epoch or turns >= manifest.terms.epochs):
            raise RefusedError(
                f"this account has had its token of epoch {request.epoch}, or all of its tokens"
            )
        # Before the turn is stored: a malformed element must not use it up.
        answer = issuer.evaluate(request.blinded)
        if not is_repeated:
            tables.set_account(training, pseudonym, turns + 1, request.epoch, request.blinded)
            tables.add_issued(request.epoch)
        return answer

    def check_token(self, batch: Batch) -> None:
        """Raise a `RefusedError` unless the batch has a token of its epoch.

        Whether the token was spent before is seen when the batch is stored: another batch with the
        token's id is refused.
        """
        issuer = self._issuers.get(batch.epoch)
        if issuer is None:
            raise RefusedError("tokens of this epoch cannot be redeemed here")
        issuer.check(batch.token)
