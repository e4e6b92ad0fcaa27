"""The formats of all data that client, proxy and server exchange. See docs/protocol.md."""

from sottovoce.protocol.batch import MAX_CHUNK_REPORTS, Batch, Chunk, batch_size
from sottovoce.protocol.catalogue import Catalogue, Item, move_rows
from sottovoce.protocol.manifest import Manifest, SignedManifest
from sottovoce.protocol.model import decode_items, encode_items, model_size
from sottovoce.protocol.patch import MAX_PATCH_BASES, make_patch
from sottovoce.protocol.release import (
    Files,
    Newest,
    PublishedSource,
    Release,
    fetch_manifest,
    fetch_patches,
    fetch_release,
    fetch_shelf,
    select_listed_catalogue,
    verify_release,
)
from sottovoce.protocol.sealing import (
    SEALED_BYTES,
    OpenedReports,
    derive_public_key,
    generate_epoch_key,
    open_reports,
    read_key_prefixes,
    seal_reports,
)
from sottovoce.protocol.shelf import Shelf, SignedShelf
from sottovoce.protocol.signing import KeyStatement
from sottovoce.protocol.terms import Terms

__all__ = [
    "MAX_CHUNK_REPORTS",
    "MAX_PATCH_BASES",
    "SEALED_BYTES",
    "Batch",
    "Catalogue",
    "Chunk",
    "Files",
    "Item",
    "KeyStatement",
    "Manifest",
    "Newest",
    "OpenedReports",
    "PublishedSource",
    "Release",
    "Shelf",
    "SignedManifest",
    "SignedShelf",
    "Terms",
    "batch_size",
    "decode_items",
    "derive_public_key",
    "encode_items",
    "fetch_manifest",
    "fetch_patches",
    "fetch_release",
    "fetch_shelf",
    "generate_epoch_key",
    "make_patch",
    "model_size",
    "move_rows",
    "open_reports",
    "read_key_prefixes",
    "seal_reports",
    "select_listed_catalogue",
    "verify_release",
]
