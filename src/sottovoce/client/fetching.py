"""Fetching the files that the server publishes, verifying and storing them."""

from contextlib import suppress

from sottovoce.client.http import ProxyApi
from sottovoce.client.store import ClientStore, TrustState
from sottovoce.errors import ProtocolError, UntrustedError
from sottovoce.protocol import (
    Catalogue,
    Manifest,
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
    """The server asks for worse terms than the owner accepted.

    No batch is made unless the owner accepts the new terms. A batch that was made earlier, under
    the accepted terms, is still sent.
    """

    def __init__(self, worse: list[str], asked: Terms):
        super().__init__(
            f"the server changed its terms: {'; '.join(worse)}. No batch is made until you accept "
            "them: `sottovoce client terms` shows them, and how to accept them"
        )
        self.worse = worse
        """One sentence for the owner about each term that would be worse."""
        self.asked = asked
        """The new terms. If the owner agrees, pass exactly these to `Client.accept`."""


def check_terms(accepted: Terms | None, asked: Terms) -> None:
    """Raise a `TermsError` if a term that the server asks for is worse than the accepted one.

    Any terms pass while the owner has accepted none (`accepted` is None).
    """
    worse = [] if accepted is None else accepted.list_worse_terms(asked)
    if worse:
        raise TermsError(worse, asked)


def refresh(store: ClientStore, api: ProxyApi, trusted: TrustState, now: float) -> Release:
    """Fetch, verify and store the current release, and return it.

    If this raises an error, the release is not stored. After a `TermsError` the store has the name
    of the worse terms, and possibly a newer shelf with its catalogue.

    Args:
        store: The client's store.
        api: The connection to the proxy.
        trusted: `store.trusted`. The caller reads it in advance, so that the first request does not
            have to wait for a database.
        now: The time of day, in Unix seconds.
    """
    signed = fetch_manifest(api, trusted.key, trusted.newest)
    try:
        check_terms(store.terms, signed.manifest.terms)
    except TermsError as error:
        store.set_pending_terms(error.asked.name)
        # Withdrawn items must disappear although the owner has not accepted the terms. But the
        # owner must hear of the terms even if something is wrong with the shelf.
        with suppress(ProtocolError):
            _refresh_shelf(store, api, trusted, now)
        raise
    # Fetch the shelf before the files are read and decoded, so that the time of this request does
    # not reveal how long that takes.
    raw = api.shelf()
    use_patches = store.has_files
    release, files = fetch_release(signed, api, store.get_file, use_patches=use_patches)
    shelf, shelf_files = fetch_shelf(
        signed,
        raw,
        api,
        lambda name: files.get(name) or store.get_file(name),
        trusted.shelf,
        now,
        use_patches=use_patches,
    )
    store.save_release(signed, shelf, files | shelf_files)
    return release


def _refresh_shelf(store: ClientStore, api: ProxyApi, trusted: TrustState, now: float) -> None:
    """Fetch and store the current shelf for the last accepted manifest, if there is one."""
    data = store.get_signed_manifest()
    if data is not None:
        signed = SignedManifest.open(data, trusted.key)
        shelf, files = fetch_shelf(
            signed,
            api.shelf(),
            api,
            store.get_file,
            trusted.shelf,
            now,
            any_size=True,
            use_patches=store.has_files,
        )
        store.save_shelf(signed.manifest, shelf, files)


def peek_manifest(store: ClientStore, api: ProxyApi) -> Manifest:
    """Fetch the manifest of the current epoch without storing anything."""
    trusted = store.trusted
    return fetch_manifest(api, trusted.key, trusted.newest).manifest


def load_release(store: ClientStore) -> Release | None:
    """Load the last accepted release from the store and verify it.

    Returns:
        The release with the newest catalogue. None if there was no sync yet, if a file is missing,
        or if the newest catalogue exceeds the terms and has no item of the model.
    """
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
