"""Blind tokens for accounts: an account gets at most one for each epoch, and can spend it once.

The proxy draws the key of an epoch's tokens and announces the public key to the server. The server
names it in the manifest of the previous epoch, so all devices see the same key. The proxy deletes
the key when the epoch of its tokens is over.

A batch has the id of its token, so a second batch with the same token is recognised by its id. If
too few tokens were issued for a crowd in an epoch, accounts get back the turns that they used.
"""

from collections.abc import Callable, Sequence

from sottovoce.errors import ProtocolError, RefusedError, SottovoceError, StoreError
from sottovoce.protocol import Batch, Manifest, SignedManifest
from sottovoce.protocol.tokens import Issuer, TokenRequest, draw_seed
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.store import ProxyStore, Tables


class Accounts:
    """Issues tokens to devices and checks the tokens of batches.

    Args:
        store: The store of the keys and of the accounts' turns.
        settings: The settings of the proxy.
        clock: Returns Unix seconds.
    """

    def __init__(self, store: ProxyStore, settings: ProxySettings, clock: Callable[[], float]):
        self._store = store
        self._settings = settings
        self._attester = settings.attester
        self._service = settings.key
        self._clock = clock
        self._issuers: dict[int | None, Issuer] = {}
        """Issuers by epoch. The issuer that no manifest has named yet has the key None."""
        self._manifest: Manifest | None = None
        self.problem: str | None = None
        """Why no token of the current epoch can be redeemed; None if tokens can be."""
        self._n_issued: int | None = None
        """Tokens issued for the current epoch; None if batches need no token."""

    def follow(self, signed: SignedManifest) -> None:
        """Assign keys to epochs as the manifest names them, and draw a new key if necessary."""
        manifest = signed.manifest
        if not manifest.terms.accounts:
            self._manifest = self.problem = self._n_issued = None
            return
        with self._store.write() as tables:
            tables.delete_token_keys(manifest.epoch)
            for seed, epoch in tables.get_token_keys().items():
                # Never assign a key twice: an account could get two tokens for one of the epochs.
                if epoch is None and Issuer(seed).public_key == manifest.next_token_key:
                    tables.set_token_epoch(seed, manifest.epoch + 1)
            if None not in tables.get_token_keys().values():
                tables.add_token_key(draw_seed())
            issuers = {epoch: Issuer(seed) for seed, epoch in tables.get_token_keys().items()}
            if tables.count_issued(manifest.epoch) < self._settings.compute_min_crowd(
                manifest.terms
            ):
                tables.give_back(manifest.epoch)  # no crowd: the tokens cannot be spent
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
        """Return whether too few tokens were issued for a crowd in the current epoch.

        Devices should then not pay for a batch.
        """
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
        # Issue tokens only for the next epoch, whose key the current manifest names.
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
        """Issue tokens in one transaction.

        Returns:
            For each request the encoded answer, or the error with which it is refused.
        """
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
        # Evaluate before the turn is stored: a malformed element must not use up a turn.
        answer = issuer.evaluate(request.blinded)
        if not is_repeated:
            tables.set_account(training, pseudonym, turns + 1, request.epoch, request.blinded)
            tables.add_issued(request.epoch)
        return answer

    def check_token(self, batch: Batch) -> None:
        """Raise a `RefusedError` unless the batch has a valid token of its epoch.

        This does not check whether the token was spent before. Storing the batch does: a second
        batch with the id of the token is refused.
        """
        issuer = self._issuers.get(batch.epoch)
        if issuer is None:
            raise RefusedError("tokens of this epoch cannot be redeemed here")
        issuer.check(batch.token)
