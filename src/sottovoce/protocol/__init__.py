"""What travels between client, proxy and server: every byte, once. See docs/protocol.md."""

from sottovoce.protocol.batch import MAX_CHUNK_REPORTS, Batch, Chunk, batch_size
from sottovoce.protocol.catalogue import Catalogue, Item
from sottovoce.protocol.manifest import (
    MAX_SIGNED_MANIFEST,
    Files,
    KeyStatement,
    Manifest,
    Newest,
    PublishedSource,
    Release,
    SignedManifest,
    fetch_manifest,
    fetch_release,
    verified,
)
from sottovoce.protocol.model import decode_items, encode_items, model_size
from sottovoce.protocol.sealing import (
    SEALED,
    Opened,
    key_prefixes,
    new_epoch_key,
    open_reports,
    public_key_of,
    seal_reports,
)
from sottovoce.protocol.terms import Terms

__all__ = [
    "MAX_CHUNK_REPORTS",
    "MAX_SIGNED_MANIFEST",
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
    "SignedManifest",
    "Terms",
    "batch_size",
    "decode_items",
    "encode_items",
    "fetch_manifest",
    "fetch_release",
    "key_prefixes",
    "model_size",
    "new_epoch_key",
    "open_reports",
    "public_key_of",
    "seal_reports",
    "verified",
]
