"""The shelf, which is the server's signed statement of its newest catalogue.

Reports are made for the epoch's catalogue, which does not change before the epoch ends. But
recommendations must follow changes at once: a withdrawn item must no longer be recommended, and a
new item can be recommended by its tags. So the server signs a shelf, which is the hash of the new
catalogue and the time, as soon as its catalogue changes. Devices recommend items of this catalogue.
They refuse a shelf that is older than the last one that they accepted.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.protocol import strict
from sottovoce.protocol.signing import KeyStatement, Signed

# The version of the format. No other version is read.
SHELF_VERSION = 2


@dataclass(frozen=True)
class Shelf:
    """The content of a shelf."""

    published: int
    """The Unix second of signing. It is always later than that of the previous shelf, even if the
    server's clock was set back."""
    catalogue: bytes
    """SHA-256 of the catalogue file."""
    patch: bytes | None = None
    """SHA-256 of a patch that makes this file from earlier catalogues; None if there is none."""

    def encode(self) -> bytes:
        content = {
            "version": SHELF_VERSION,
            "published": self.published,
            "catalogue": self.catalogue.hex(),
            "patch": None if self.patch is None else self.patch.hex(),
        }
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Parse a shelf; raise a `ProtocolError` if it is malformed."""
        content = strict.parse_object(raw, max_bytes=SignedShelf.max_content_bytes, what="shelf")
        strict.check_keys(content, {"version", "published", "catalogue", "patch"}, "shelf")
        strict.parse_int(
            content["version"],
            min_value=SHELF_VERSION,
            max_value=SHELF_VERSION,
            what="shelf: version",
        )
        published = strict.parse_int(
            content["published"], min_value=0, max_value=strict.MAX_INTEGER, what="shelf: published"
        )
        catalogue = strict.parse_hex(content["catalogue"], what="shelf: catalogue")
        patch = content["patch"]
        if patch is not None:
            patch = strict.parse_hex(patch, what="shelf: patch")
        return cls(published, catalogue, patch)


class SignedShelf(Signed):
    """A signed shelf."""

    what: ClassVar = "shelf"
    magic: ClassVar = b"SVS2"
    label: ClassVar = b"sottovoce shelf 2\x00"
    max_content_bytes: ClassVar = 1024

    def __post_init__(self) -> None:
        self.shelf  # noqa: B018 - parsed now, and cached

    @cached_property
    def shelf(self) -> Shelf:
        return Shelf.decode(self.raw)

    @classmethod
    def make(
        cls, shelf: Shelf, key: Ed25519PrivateKey, statements: tuple[KeyStatement, ...] = ()
    ) -> Self:
        return cls.sign(shelf.encode(), key, statements)
