"""What travels between client, proxy and server: every byte, once. See docs/protocol.md."""

from sottovoce.protocol.batch import MAX_CHUNK_REPORTS, Batch, Chunk, batch_size
from sottovoce.protocol.catalogue import Catalogue, Item, moved_rows
from sottovoce.protocol.manifest import Manifest, SignedManifest
from sottovoce.protocol.model import decode_items, encode_items, model_size
from sottovoce.protocol.release import (
    Files,
    Newest,
    PublishedSource,
    Release,
    fetch_manifest,
    fetch_release,
    fetch_shelf,
    listed_catalogue,
    verified,
)
from sottovoce.protocol.sealing import (
    SEALED,
    Opened,
    key_prefixes,
    new_epoch_key,
    open_reports,
    public_key_of,
    seal_reports,
)
from sottovoce.protocol.shelf import Shelf, SignedShelf
from sottovoce.protocol.signing import KeyStatement
from sottovoce.protocol.terms import Terms

__all__ = [
    "MAX_CHUNK_REPORTS",
    "SEALED",
    "Batch",
    "Catalogue",
    "Chunk",
    "Files",
    "Item",
    "KeyStatement",
    "Manifest",
    "Newest",
    "Opened",
    "PublishedSource",
    "Release",
    "Shelf",
    "SignedManifest",
    "SignedShelf",
    "Terms",
    "batch_size",
    "decode_items",
    "encode_items",
    "fetch_manifest",
    "fetch_release",
    "fetch_shelf",
    "key_prefixes",
    "listed_catalogue",
    "model_size",
    "moved_rows",
    "new_epoch_key",
    "open_reports",
    "public_key_of",
    "seal_reports",
    "verified",
]
