"""The manifest: everything that a device must know of one epoch, signed by the server.

The device pins the server's verification key. Whoever hands the manifest on (the proxy, a cache)
can withhold it, but not change it; and since the same bytes go to everybody and their hash is bound
into every sealed report, nobody can be given a manifest, a model or a key of their own unnoticed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sottovoce.errors import ProtocolError, SettingsError, UntrustedError
from sottovoce.mechanism import MECHANISMS, Mechanism, Shape
from sottovoce.protocol import strict
from sottovoce.protocol.model import MAX_MODEL, model_size
from sottovoce.settings import stated
from sottovoce.training import Settings

if TYPE_CHECKING:
    from typing import Any, Self

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VERSION = 1
SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM"
"""The only suite of version 1; named in full so that a reader can look it up in RFC 9180."""
SIGNED = b"sottovoce manifest 1\x00"
"""Stands before the bytes that are signed: a signature means a manifest and nothing else."""
SIGNATURE = 64
MAX_SIGNED_MANIFEST = 16 * 1024
MAX_EPOCH = 2**32 - 1
PARAMETERS = ("directions_seed", "loud")
"""What a mechanism may carry in version 1; 0 for those that a mechanism does not have."""
MAX_ITEMS, MAX_FACTORS, MAX_REPORTS = 2**24, 2**10, 10_000
LEAST_EPSILON = 1e-6
"""Far below it the threshold of `loudest` would be 2^64, which is no 64-bit word."""


@dataclass(frozen=True)
class Manifest:
    """One epoch, as its JSON has it; hashes and keys are bytes here and hexadecimal there."""

    epoch: int
    """Counts from 1 and never goes back under one verification key."""
    items: int
    """M."""
    factors: int
    """F."""
    mechanism: str
    directions_seed: int
    """Of the public signs of the rotation; 0 where a mechanism has none."""
    loud: int
    """L; 0 where a mechanism has none."""
    epsilon: float
    """Budget of one report."""
    reports: int
    """k: exactly so many reports in every batch."""
    alpha: float
    regularization: float
    model: bytes
    """SHA-256 of the model file."""
    catalogue: bytes
    """SHA-256 of the catalogue file, which says what item number i is."""
    public_key: bytes | None
    """X25519, for this epoch alone. None: a finished model, no reports are asked for."""
    least_clients: int
    """A proxy forwards the reports of at least so many, or of nobody."""
    opens: int
    """Unix time in seconds: reports are taken from here"""
    closes: int
    """to here, this second not included."""
    previous_reports: int
    """How many reports the last epoch counted: what stands behind this model; 0 for the first."""

    def build(self) -> Mechanism:
        """The mechanism that everybody reports with, or a `ProtocolError`."""
        kind, public = MECHANISMS[self.mechanism], {}
        for name in PARAMETERS:
            if name in kind.public_names():
                public[name] = getattr(self, name)
            elif getattr(self, name):
                raise ProtocolError(f"manifest: {self.mechanism} has no {name}; it must be 0")
        try:
            shape = Shape(self.items, self.factors, self.alpha)
            return kind.from_manifest(shape, self.epsilon, public)
        except SettingsError as error:
            raise ProtocolError(f"manifest: {error}") from error

    @classmethod
    def for_training(cls, training: Settings, items: int, **epoch: Any) -> Self:
        """What a training says in every epoch, with what this epoch adds."""
        shared = {name: getattr(training, name) for name in _shared()}
        published = training.build(items).published()
        if not set(published) <= set(PARAMETERS):
            raise SettingsError(
                f"protocol {VERSION} carries {', '.join(PARAMETERS)} of a mechanism; "
                f"{training.mechanism} has {', '.join(published)}"
            )
        own = dict.fromkeys(PARAMETERS, 0) | published
        return cls(items=items, **shared, **own, **epoch)

    def training(self, known: Settings) -> Settings:
        """The settings behind it; what it does not say is as in `known`."""
        said = {name: getattr(self, name) for name in _shared()}
        kind = MECHANISMS[self.mechanism]
        own = {name: getattr(self, name) for name in kind.settings()}
        seeded = "directions_seed" in kind.public_names()
        seed = self.directions_seed if seeded else known.seed
        return known.changed(**said, **own, seed=seed)

    def asks_for_reports(self, now: float) -> bool:
        return self.public_key is not None and self.opens <= now < self.closes

    def encode(self) -> bytes:
        """The bytes that are hashed and signed."""
        fields = asdict(self)
        for name in ("model", "catalogue", "public_key"):
            fields[name] = None if fields[name] is None else fields[name].hex()
        return json.dumps(
            {"version": VERSION, "suite": SUITE, **fields}, separators=(",", ":"), allow_nan=False
        ).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Any bytes give a manifest that can work, or a `ProtocolError`."""
        given = strict.read_object(raw, most=MAX_SIGNED_MANIFEST - SIGNATURE, what="manifest")
        version, suite = given.pop("version", None), given.pop("suite", None)
        if type(version) is not int or version != VERSION or suite != SUITE:
            raise ProtocolError(
                f"manifest: version {strict.shown(version)} with suite {strict.shown(suite)}; "
                f"this program speaks version {VERSION} with {SUITE}"
            )
        strict.exact_keys(given, set(cls.__dataclass_fields__), "manifest")
        manifest = cls(**_checked(given))
        if manifest.opens >= manifest.closes:
            raise ProtocolError("manifest: the epoch closes before it opens")
        largest = model_size(manifest.items, manifest.factors)
        if largest > MAX_MODEL:
            raise ProtocolError(f"manifest: its model may be {largest} bytes, beyond {MAX_MODEL}")
        manifest.build()  # one that no device could report with is refused by all alike
        return manifest


def _shared() -> list[str]:
    """The settings of a training that devices must know."""
    return [name for name in stated(Settings) if name in Manifest.__dataclass_fields__]


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    def whole(name: str, least: int, most: int) -> int:
        return strict.whole(given[name], least=least, most=most, what=f"manifest: {name}")

    def real(name: str, least: float) -> float:
        return strict.number(given[name], least=least, what=f"manifest: {name}")

    mechanism = given["mechanism"]
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        raise ProtocolError(f"manifest: no mechanism {strict.shown(mechanism)}")
    key = given["public_key"]
    return {
        "epoch": whole("epoch", 1, MAX_EPOCH),
        "items": whole("items", 1, MAX_ITEMS),
        "factors": whole("factors", 1, MAX_FACTORS),
        "mechanism": mechanism,
        "directions_seed": whole("directions_seed", 0, strict.MOST),
        "loud": whole("loud", 0, strict.MOST),
        "epsilon": real("epsilon", LEAST_EPSILON),
        "reports": whole("reports", 1, MAX_REPORTS),
        "alpha": real("alpha", 0),
        "regularization": real("regularization", 0),
        "model": strict.hexadecimal(given["model"], what="manifest: model"),
        "catalogue": strict.hexadecimal(given["catalogue"], what="manifest: catalogue"),
        "public_key": None if key is None else strict.hexadecimal(key, what="manifest: public_key"),
        "least_clients": whole("least_clients", 1, strict.MOST),
        "opens": whole("opens", 0, strict.MOST),
        "closes": whole("closes", 0, strict.MOST),
        "previous_reports": whole("previous_reports", 0, strict.MOST),
    }


@dataclass(frozen=True)
class SignedManifest:
    """What is served: 64 bytes of signature (Ed25519), then the manifest's bytes."""

    signature: bytes
    raw: bytes
    manifest: Manifest

    @classmethod
    def make(cls, manifest: Manifest, key: Ed25519PrivateKey) -> Self:
        raw = manifest.encode()
        return cls(key.sign(SIGNED + raw), raw, Manifest.decode(raw))

    @classmethod
    def open(cls, data: bytes, verification_key: bytes) -> Self:
        """Check the signature first; nothing of an unsigned manifest is ever looked at."""
        if not SIGNATURE < len(data) <= MAX_SIGNED_MANIFEST:
            raise ProtocolError(f"signed manifest: {len(data)} bytes cannot be one")
        signature, raw = data[:SIGNATURE], data[SIGNATURE:]
        try:
            Ed25519PublicKey.from_public_bytes(verification_key).verify(signature, SIGNED + raw)
        except (InvalidSignature, ValueError) as error:
            raise UntrustedError(
                "the manifest is not signed with the pinned verification key of the server"
            ) from error
        return cls(signature, raw, Manifest.decode(raw))

    def encode(self) -> bytes:
        return self.signature + self.raw

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of the manifest's bytes, without the signature: names the epoch everywhere."""
        return hashlib.sha256(self.raw).digest()
