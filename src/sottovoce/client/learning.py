"""Taking in what the server published: believed only if everything about it holds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.client.terms import Terms, agreed
from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol import Catalogue, SignedManifest, decode_items, model_size

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.client.api import ProxyApi
    from sottovoce.client.store import ClientStore
    from sottovoce.protocol import Manifest


@dataclass(frozen=True, eq=False)
class Edition:
    """One epoch as it was published: the manifest, the item matrix, the names of its rows."""

    signed: SignedManifest
    V: NDArray[np.float32]
    catalogue: Catalogue

    @property
    def manifest(self) -> Manifest:
        """What was signed."""
        return self.signed.manifest

    def rows_of(self, items: list[str]) -> list[int]:
        """The rows of those items that the catalogue knows, ascending."""
        return sorted(
            self.catalogue.numbers[item] for item in items if item in self.catalogue.numbers
        )


def learn(store: ClientStore, api: ProxyApi, *, accept_new_terms: bool) -> Edition:
    """Fetch what is current; an error means that nothing was stored."""
    signed = SignedManifest.open(api.manifest(), store.verification_key)
    _check_order(store.newest, signed)
    terms = agreed(store.terms, Terms.of(signed.manifest), accept_new=accept_new_terms)
    model = _fetched(store, signed.manifest.model, lambda sha: _fetch_model(api, signed, sha))
    catalogue = _fetched(store, signed.manifest.catalogue, api.catalogue)
    edition = _decoded(signed, model, catalogue)
    files = {signed.manifest.model: model, signed.manifest.catalogue: catalogue}
    store.accept(signed, files, terms)
    return edition


def held(store: ClientStore) -> Edition | None:
    """What was accepted last, without asking anybody; None if there is nothing."""
    data = store.signed_manifest()
    if data is None:
        return None
    signed = SignedManifest.open(data, store.verification_key)
    model, catalogue = store.file(signed.manifest.model), store.file(signed.manifest.catalogue)
    if model is None or catalogue is None:
        return None
    return _decoded(signed, model, catalogue)


def _check_order(newest: tuple[int, bytes] | None, signed: SignedManifest) -> None:
    """Epochs never go back, and everybody is told the same about each."""
    if newest is None:
        return
    epoch, known_hash = newest
    if signed.manifest.epoch < epoch:
        raise UntrustedError(
            f"this manifest is of epoch {signed.manifest.epoch}, but epoch {epoch} was seen "
            "already; somebody serves old ones. Nothing is sent"
        )
    if signed.manifest.epoch == epoch and signed.hash != known_hash:
        raise UntrustedError(
            f"there are two different manifests of epoch {epoch}, both signed: the server does "
            "not tell everybody the same. Nothing is sent"
        )


def _fetch_model(api: ProxyApi, signed: SignedManifest, sha256: bytes) -> bytes:
    return api.model(sha256, model_size(signed.manifest.items, signed.manifest.factors))


def _fetched(store: ClientStore, sha256: bytes, fetch: Callable[[bytes], bytes]) -> bytes:
    """From the store if it is there, and the very bytes that the manifest names if it is not."""
    known = store.file(sha256)
    if known is not None:
        return known
    return genuine(fetch(sha256), sha256)


def genuine(content: bytes, sha256: bytes) -> bytes:
    """The bytes that a proxy gave, if they are the file that the manifest names."""
    if hashlib.sha256(content).digest() != sha256:
        raise UntrustedError(
            f"the proxy gave other bytes than the file {sha256.hex()} that the server signed; "
            "nothing is sent"
        )
    return content


def _decoded(signed: SignedManifest, model: bytes, catalogue: bytes) -> Edition:
    manifest = signed.manifest
    V = decode_items(model, manifest.items, manifest.factors)
    names = Catalogue.decode(catalogue)
    if len(names.items) != manifest.items:
        raise ProtocolError(
            f"the catalogue has {len(names.items)} items, the model {manifest.items}"
        )
    return Edition(signed, V, names)
