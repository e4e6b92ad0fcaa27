"""Tokens for accounts: at most one for each account and epoch, made blindly, and spent once.

The key of an epoch's tokens is drawn here and announced to the server, which names it in a manifest
for the epoch after: all devices see the same one. When that epoch is over the key is forgotten.
That a token was spent is known by its batch, which has the token's id.
Tokens of an epoch that can have no crowd take no turn.
"""

from collections.abc import Callable, Sequence

from sottovoce.errors import ProtocolError, RefusedError, SottovoceError, StoreError
from sottovoce.protocol import Batch, Manifest, SignedManifest
from sottovoce.protocol.tokens import Issuer, TokenRequest, draw_seed
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.store import ProxyStore, Tables

ANOTHER = "this account has had its token of epoch {epoch}, or all of its tokens"


class Accounts:
    def __init__(self, store: ProxyStore, settings: ProxySettings, clock: Callable[[], float]):
        self._store = store
        self._settings = settings
        self._attester = settings.attester
        self._service = settings.key
        self._clock = clock
        self._issuers: dict[int | None, Issuer] = {}
        """By epoch; None: no manifest has named it yet."""
        self._manifest: Manifest | None = None
        self.problem: str | None = None
        """Why no token can be redeemed in the epoch that is shown."""
        self._most: int | None = None
        """Tokens that were given for it: no more people can report. None: anybody can."""

    def follow(self, signed: SignedManifest) -> None:
        """Learn from a manifest which keys are for which epoch, and have one for the next."""
        manifest = signed.manifest
        if not manifest.terms.accounts:
            self._manifest = self.problem = self._most = None
            return
        with self._store.write() as tables:
            tables.forget_token_keys(manifest.epoch)
            for seed, epoch in tables.token_keys().items():
                # Once: a key for two epochs would give an account two tokens in one of them.
                if epoch is None and Issuer(seed).public_key == manifest.next_token_key:
                    tables.set_token_epoch(seed, manifest.epoch + 1)
            if None not in tables.token_keys().values():
                tables.add_token_key(draw_seed())
            issuers = {epoch: Issuer(seed) for seed, epoch in tables.token_keys().items()}
            if tables.issued(manifest.epoch) < self._settings.least_for(manifest.terms):
                tables.give_back(manifest.epoch)  # nobody can spend them
            self._most = tables.issued(manifest.epoch)
        self._issuers, self._manifest = issuers, manifest
        self.problem = self._problem(manifest)

    def _problem(self, manifest: Manifest) -> str | None:
        if self._attester is None:
            return "the terms ask for accounts: accounts_key must name the backend's key"
        epoch, key = manifest.epoch, manifest.token_key
        if key is None or (epoch in self._issuers and self._issuers[epoch].public_key == key):
            return None
        return (
            f"the key of epoch {epoch}'s tokens is not in this proxy's folder, as in a backup; "
            "it goes on by itself, two epochs later at most"
        )

    def are_fewer(self, least: int) -> bool:
        """Than so many: then the epoch can have no crowd, and nobody shall pay for it."""
        return self._most is not None and self._most < least

    @property
    def announced(self) -> bytes | None:
        """The public key that the next manifest may name."""
        issuer = self._issuers.get(None)
        return None if issuer is None or self._attester is None else issuer.public_key

    def check(self, data: bytes) -> TokenRequest:
        """What a device asks for, if an account does: before anything is read from the disk."""
        request = TokenRequest.decode(data)
        if self._manifest is None or self._attester is None:
            raise RefusedError("this service knows no accounts")
        request.attestation.check(self._attester, self._service, self._clock())
        if request.epoch != self._manifest.epoch + 1 or self._issuer_of(request.epoch) is None:
            raise RefusedError(f"no tokens for epoch {request.epoch} are given now")
        return request

    def _issuer_of(self, epoch: int) -> Issuer | None:
        """The one that the signed manifest names for it."""
        manifest, issuer = self._manifest, self._issuers.get(epoch)
        if manifest is None or issuer is None or issuer.public_key != manifest.next_token_key:
            return None
        return issuer

    def issue(self, requests: Sequence[TokenRequest]) -> list[bytes | SottovoceError]:
        """All in one transaction; for each what its device gets, or why it gets nothing."""
        answers: list[bytes | SottovoceError] = []
        try:
            with self._store.write() as tables:
                for request in requests:
                    try:
                        answers.append(self._answer(request, tables))
                    except (RefusedError, ProtocolError) as error:
                        answers.append(error)
        except StoreError as error:
            return [error] * len(requests)
        return answers

    def _answer(self, request: TokenRequest, tables: Tables) -> bytes:
        """The same again for the same element: whoever did not hear the answer asks again."""
        manifest, issuer = self._manifest, self._issuer_of(request.epoch)
        if manifest is None or issuer is None:
            raise RefusedError(f"no tokens for epoch {request.epoch} are given any more")
        training, whose = manifest.terms.training, request.attestation.pseudonym
        turns, epoch, blinded = tables.account(training, whose)
        is_known = epoch == request.epoch and blinded == request.blinded
        if not is_known and (epoch >= request.epoch or turns >= manifest.terms.epochs):
            raise RefusedError(ANOTHER.format(epoch=request.epoch))
        answer = issuer.evaluate(request.blinded)  # first: what is no element takes no turn
        if not is_known:
            tables.set_account(training, whose, turns + 1, request.epoch, request.blinded)
            tables.add_issued(request.epoch)
        return answer

    def redeem(self, batch: Batch) -> None:
        """`RefusedError` unless its token is one of this epoch; whether it is spent, is seen later.

        That is when the batch is stored: another one with its id is refused.
        """
        issuer = self._issuers.get(batch.epoch)
        if issuer is None:
            raise RefusedError("no token of this epoch can be redeemed here")
        issuer.check(batch.token)
