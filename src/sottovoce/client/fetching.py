"""Fetching what the server publishes: verified, compared with the accepted terms, and stored."""

from contextlib import suppress

from sottovoce.client.http import ProxyApi
from sottovoce.client.store import ClientStore, TrustState
from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol import (
    Catalogue,
    Release,
    SignedManifest,
    SignedShelf,
    Terms,
    fetch_manifest,
    fetch_release,
    fetch_shelf,
    select_listed_catalogue,
    verify_release,
)


class TermsError(UntrustedError):
    """The server asks for more than the owner accepted. No batch is made unless they accept it.

    A batch that was made before, under the accepted terms, still leaves.
    """

    def __init__(self, worse: list[str], asked: Terms):
        super().__init__(
            f"the server changed its terms: {'; '.join(worse)}. No batch is made until you accept "
            "them: `sottovoce client terms` shows them, and how to accept them"
        )
        self.worse = worse
        """In plain words, everything that would be worse."""
        self.asked = asked
        """The terms for `Client.accept` if the owner agrees: exactly these, no later ones."""


def check_terms(accepted: Terms | None, asked: Terms) -> None:
    """Raise a `TermsError` if a term is worse than the accepted one.

    An owner who has accepted nothing yet was promised nothing, so nothing can be worse.
    """
    worse = [] if accepted is None else accepted.list_worse_terms(asked)
    if worse:
        raise TermsError(worse, asked)


def refresh(store: ClientStore, api: ProxyApi, trusted: TrustState, now: float) -> Release:
    """Fetch, verify and store the current release, and return it.

    After an error nothing of it is stored, except that worse terms wait for an answer.

    Args:
        store: The client's store.
        api: The proxy.
        trusted: Read from the store by the caller, so that nothing is read here before the first
            request.
        now: The time of day.
    """
    signed = fetch_manifest(api, trusted.key, trusted.newest)
    try:
        check_terms(store.terms, signed.manifest.terms)
    except TermsError as error:
        store.set_pending_terms(error.asked.name)
        # The owner must hear of the terms, whatever is wrong with the shelf.
        with suppress(ProtocolError):
            _refresh_shelf(store, api, trusted, now)
        raise
    # Fetched at once: how long files are read and decoded must not show.
    raw = api.shelf()
    release, files = fetch_release(signed, api, store.get_file)
    shelf, shelf_files = fetch_shelf(
        signed, raw, api, lambda name: files.get(name) or store.get_file(name), trusted.shelf, now
    )
    store.save_release(signed, shelf, files | shelf_files)
    return release


def _refresh_shelf(store: ClientStore, api: ProxyApi, trusted: TrustState, now: float) -> None:
    """Remove withdrawn items from lists, although the owner has not accepted the terms."""
    data = store.get_signed_manifest()
    if data is not None:
        signed = SignedManifest.open(data, trusted.key)
        shelf, files = fetch_shelf(
            signed, api.shelf(), api, store.get_file, trusted.shelf, now, any_size=True
        )
        store.save_shelf(signed.manifest, shelf, files)


def fetch_terms(store: ClientStore, api: ProxyApi) -> Terms:
    """Fetch the terms that the server asks for now, to show them; store nothing."""
    trusted = store.trusted
    return fetch_manifest(api, trusted.key, trusted.newest).manifest.terms


def load_release(store: ClientStore) -> Release | None:
    """Load and verify the last accepted release without a request, or return None."""
    with store.snapshot():
        data, key = store.get_signed_manifest(), store.trusted.key
        shelf_data = store.get_signed_shelf()
        if data is None or shelf_data is None:
            return None
        signed = SignedManifest.open(data, key)
        shelf = SignedShelf.open(shelf_data, key).shelf
        manifest = signed.manifest
        model, catalogue = store.get_file(manifest.model), store.get_file(manifest.catalogue)
        listed = store.get_file(select_listed_catalogue(manifest, shelf))
    if model is None or catalogue is None or listed is None:
        return None
    release = verify_release(signed, model, catalogue)
    return release if listed == catalogue else release.with_catalogue(Catalogue.decode(listed))
