"""The shelf: which catalogue holds now, signed, whatever the epoch.

Reports are made for an epoch's catalogue, which stays as it is until the epoch is over. Lists are
not: an article that is withdrawn must be gone at once, and a new one can be recommended by its
tags. So the server signs the hash of its newest catalogue as soon as that changes, with the time,
and a device makes its lists from that catalogue. Nobody can go back to an older one.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.protocol import strict
from sottovoce.protocol.signing import KeyStatement, Signed

VERSION = 2


@dataclass(frozen=True)
class Shelf:
    published: int
    """The Unix second of signing, or the one after that of the shelf before: it always grows."""
    catalogue: bytes
    """SHA-256 of the catalogue file."""

    def encode(self) -> bytes:
        content = {
            "version": VERSION,
            "published": self.published,
            "catalogue": self.catalogue.hex(),
        }
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Any bytes give a shelf or a `ProtocolError`."""
        given = strict.read_object(raw, most=SignedShelf.most, what="shelf")
        strict.exact_keys(given, {"version", "published", "catalogue"}, "shelf")
        strict.whole(given["version"], least=VERSION, most=VERSION, what="shelf: version")
        published = strict.whole(
            given["published"], least=0, most=strict.MOST, what="shelf: published"
        )
        return cls(published, strict.hexadecimal(given["catalogue"], what="shelf: catalogue"))


class SignedShelf(Signed):
    what: ClassVar = "shelf"
    magic: ClassVar = b"SVS2"
    label: ClassVar = b"sottovoce shelf 2\x00"
    most: ClassVar = 1024

    def __post_init__(self) -> None:
        self.shelf  # noqa: B018 - read now, kept for later

    @cached_property
    def shelf(self) -> Shelf:
        return Shelf.decode(self.raw)

    @classmethod
    def make(
        cls, shelf: Shelf, key: Ed25519PrivateKey, statements: tuple[KeyStatement, ...] = ()
    ) -> Self:
        return cls.sign(shelf.encode(), key, statements)
