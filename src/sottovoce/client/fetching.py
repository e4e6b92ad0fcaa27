"""What the server published: fetched, verified, held against the owner's terms, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.client.terms import TermsError, check_terms
from sottovoce.protocol import SignedManifest, fetch_edition, fetch_manifest, verified

if TYPE_CHECKING:
    from sottovoce.client.api import ProxyApi
    from sottovoce.client.store import ClientStore, Trusted
    from sottovoce.protocol import Edition, Terms


def refresh(store: ClientStore, api: ProxyApi, trusted: Trusted) -> Edition:
    """What is current; an error means that none of it was stored, but for a question of terms.

    `trusted` is read by whoever calls: nothing is read here before the first request.
    """
    signed = fetch_manifest(api, *trusted)
    try:
        check_terms(store.terms, signed.manifest.terms)
    except TermsError as error:
        store.ask(error.asked.name)
        raise
    edition, files = fetch_edition(signed, api, store.file)
    store.keep_edition(signed, files)
    return edition


def asked_terms(store: ClientStore, api: ProxyApi) -> Terms:
    """What the server asks for now, to be shown to the owner; stores nothing."""
    return fetch_manifest(api, *store.trusted).manifest.terms


def held(store: ClientStore) -> Edition | None:
    """What was accepted last, without asking anybody; None if there is nothing."""
    with store.at_once():
        data = store.signed_manifest()
        if data is None:
            return None
        signed = SignedManifest.open(data, store.trusted.key)
        manifest = signed.manifest
        model, catalogue = store.file(manifest.model), store.file(manifest.catalogue)
    if model is None or catalogue is None:
        return None
    return verified(signed, model, catalogue)
