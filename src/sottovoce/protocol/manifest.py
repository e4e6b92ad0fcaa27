"""The manifest: everything that a device must know of one epoch, signed by the server.

Whoever hands the manifest on (the proxy, a cache) can withhold it, but not change it; and since the
same bytes go to everybody and their hash is bound into every sealed report, nobody can be given a
manifest, a model or a key of their own unnoticed.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from sottovoce.core import MECHANISMS, Mechanism, Shape
from sottovoce.core.bounds import LEAST_RIDGE, MOST_ALPHA, MOST_ITEMS, MOST_RIDGE
from sottovoce.errors import ProtocolError, SettingsError, UntrustedError
from sottovoce.protocol import strict
from sottovoce.protocol.catalogue import Catalogue
from sottovoce.protocol.model import decode_items, model_size
from sottovoce.protocol.sealing import check_public_key
from sottovoce.protocol.terms import Terms
from sottovoce.training import Settings

VERSION = 2
SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM"
"""The only suite of version 2; named in full so that a reader can look it up in RFC 9180."""
MAX_MANIFEST = 16 * 1024
MAX_EPOCH = 2**32 - 1
LEAST_LOUD = 0.9
"""Of the share of loud directions that the terms state, where dummies hide people."""
_BYTES = ("model", "catalogue", "public_key")


@dataclass(frozen=True)
class Manifest:
    """One epoch, as its JSON has it; hashes and keys are bytes here and hexadecimal there."""

    epoch: int
    """The epoch's number: counts from 1 over all trainings of a service, and never goes back."""
    terms: Terms
    """What devices are asked for."""
    items: int
    """M: the number of items of the catalogue, which are the rows of the item matrix."""
    alpha: float
    """How much more an item counts that was touched: 1 + alpha against 1."""
    regularization: float
    """lambda: the ridge with which a device computes its user vector from this model."""
    model: bytes
    """SHA-256 of the model file."""
    catalogue: bytes
    """SHA-256 of the catalogue file, which says what each row of the item matrix is."""
    catalogue_version: int
    """Counts the catalogues of a service from 1, for people; never goes back."""
    public_key: bytes | None
    """The X25519 key to which reports of this epoch are sealed. None: no reports are asked for."""
    opens: int
    """The Unix second from which reports are taken."""
    closes: int
    """The Unix second until which reports are taken in any case. From then on the epoch ends as
    soon as its crowd is there, at the latest at `ends`."""
    epochs_left: int
    """Epochs of the training still to come, this one included. 0: without end, or it is over."""
    reports_behind: int
    """Reports counted in the last epoch that changed the model; 0 before the first."""

    @property
    def ends(self) -> int:
        """From this second on no report of the epoch is of use."""
        return self.closes + self.terms.hold

    def build(self) -> Mechanism:
        """The mechanism that everybody reports with, or a `ProtocolError`."""
        terms = self.terms
        try:
            shape = Shape(self.items, terms.factors, self.alpha)
            kind = MECHANISMS[terms.mechanism]
            return kind.from_manifest(shape, terms.epsilon, terms.parameters)
        except SettingsError as error:
            raise ProtocolError(f"manifest: {error}") from error

    def training(self, known: Settings) -> Settings:
        """The settings behind it; what it does not say is as in `known`.

        Its `regularization` is not among them: that is lambda for one model, of which a server has
        made its own setting and a share of the model itself (`Settings.user_ridge`).
        """
        terms = self.terms
        kind = MECHANISMS[terms.mechanism]
        return known.changed(
            mechanism=terms.mechanism,
            epsilon=terms.epsilon,
            reports=terms.reports,
            dummies=terms.dummies,
            factors=terms.factors,
            alpha=self.alpha,
            seed=terms.parameters.get("directions_seed", known.seed),
            **{name: terms.parameters[name] for name in kind.options()},
        )

    def asks_for_reports(self, now: float) -> bool:
        return self.public_key is not None and self.opens <= now < self.ends

    def encode(self) -> bytes:
        """The bytes that are hashed and signed."""
        content = {**asdict(self), "terms": self.terms.as_dict(), "token_key": None}
        for name in _BYTES:
            content[name] = None if content[name] is None else content[name].hex()
        return json.dumps(
            {"version": VERSION, "suite": SUITE, **content}, separators=(",", ":"), allow_nan=False
        ).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Any bytes give a manifest that can work, or a `ProtocolError`."""
        given = strict.read_object(raw, most=MAX_MANIFEST, what="manifest")
        version, suite = given.pop("version", None), given.pop("suite", None)
        if type(version) is not int or version != VERSION or suite != SUITE:
            raise ProtocolError(
                f"manifest: version {strict.shown(version)} with suite {strict.shown(suite)}; "
                f"this program speaks version {VERSION} with {SUITE}"
            )
        if given.pop("token_key", "missing") is not None:
            raise ProtocolError("manifest: token_key must be null; tokens are not in use yet")
        strict.exact_keys(given, set(cls.__dataclass_fields__), "manifest")
        manifest = cls(**_checked(given))
        manifest._check_together()
        return manifest

    def _check_together(self) -> None:
        """A manifest that no device could report with is refused by all of them alike."""
        if self.opens >= self.closes:
            raise ProtocolError("manifest: the epoch closes before it opens")
        if self.items > self.terms.most_items:
            raise ProtocolError(
                f"manifest: {self.items} items, the terms allow {self.terms.most_items}"
            )
        mechanism, stated = self.build(), self.terms.loud_fraction
        if mechanism.loud_fraction > stated:
            raise ProtocolError("manifest: more directions are loud than the terms allow")
        # Rounding aside. In a crowd fewer hide better, but not among dummies. Of few directions one
        # is a large part: then it may cost no more than a device's bound is above the exact figure.
        one_more = mechanism.loud_fraction + 0.5 / mechanism.n_directions
        too_few = one_more <= stated or mechanism.loud_fraction < LEAST_LOUD * stated
        if self.terms.dummies and too_few:
            raise ProtocolError("manifest: fewer directions are loud than the terms say")


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    def whole(name: str, least: int, most: int = strict.MOST) -> int:
        return strict.whole(given[name], least=least, most=most, what=f"manifest: {name}")

    def real(name: str, least: float, most: float) -> float:
        return strict.number(given[name], least=least, most=most, what=f"manifest: {name}")

    def digest(name: str) -> bytes:
        return strict.hexadecimal(given[name], what=f"manifest: {name}")

    return {
        "epoch": whole("epoch", 1, MAX_EPOCH),
        "terms": Terms.read(given["terms"]),
        "items": whole("items", 1, MOST_ITEMS),
        "alpha": real("alpha", 0, MOST_ALPHA),
        "regularization": real("regularization", LEAST_RIDGE, MOST_RIDGE),
        "model": digest("model"),
        "catalogue": digest("catalogue"),
        "catalogue_version": whole("catalogue_version", 1),
        "public_key": None if given["public_key"] is None else digest("public_key"),
        "opens": whole("opens", 0),
        "closes": whole("closes", 0),
        "epochs_left": whole("epochs_left", 0),
        "reports_behind": whole("reports_behind", 0),
    }


MAGIC = b"SVM2"
SIGNED_MANIFEST = b"sottovoce manifest 2\x00"
SIGNED_KEY = b"sottovoce key 2\x00"
"""Before the key that signs and the next one."""
KEY, SIGNATURE = 32, 64
STATEMENT = KEY + SIGNATURE
MOST_STATEMENTS = 32
_HEADER = len(MAGIC) + 1
MAX_SIGNED_MANIFEST = _HEADER + MOST_STATEMENTS * STATEMENT + SIGNATURE + MAX_MANIFEST


@dataclass(frozen=True)
class KeyStatement:
    """The owner of one verification key names the next."""

    key: bytes
    """The next one."""
    signature: bytes

    @classmethod
    def make(cls, old: Ed25519PrivateKey, key: bytes) -> Self:
        before = old.public_key().public_bytes_raw()
        return cls(key, old.sign(SIGNED_KEY + before + key))

    def follows(self, key: bytes) -> bool:
        return _is_signed(key, self.signature, SIGNED_KEY + key + self.key)


@dataclass(frozen=True)
class SignedManifest:
    """The manifest as it is served, with the statements that lead to the signing key.

    0     4  "SVM2"
    4     1  number n of key statements, 0..32
    5   96n  statements: the next verification key (32), signed by the key before it (64)
    .    64  signature of the manifest by the last key
    .     .  the manifest

    Every signature is Ed25519, over a text that says what it means, a zero byte, and what is
    signed. A reader follows the statements from the key that it trusts, and trusts the last one
    from then on: never back.
    """

    statements: tuple[KeyStatement, ...]
    """From the service's first key on."""
    signature: bytes
    raw: bytes
    manifest: Manifest
    key: bytes
    """The verification key that signed it: what a reader trusts from now on."""

    @classmethod
    def make(
        cls, manifest: Manifest, key: Ed25519PrivateKey, statements: tuple[KeyStatement, ...] = ()
    ) -> Self:
        raw = manifest.encode()
        signature = key.sign(SIGNED_MANIFEST + raw)
        public = key.public_key().public_bytes_raw()
        return cls(statements, signature, raw, Manifest.decode(raw), public)

    @classmethod
    def open(cls, data: bytes, verification_key: bytes) -> Self:
        """Check the signature first; nothing of an unsigned manifest is ever looked at."""
        statements, signature, raw = _split(data)
        key = _last_key(verification_key, statements)
        if not _is_signed(key, signature, SIGNED_MANIFEST + raw):
            raise UntrustedError(
                "signed manifest: not by the pinned verification key of the server, nor by one "
                "that this key has named; compare it with the key that the server's "
                "operator states"
            )
        return cls(statements, signature, raw, Manifest.decode(raw), key)

    def encode(self) -> bytes:
        chain = b"".join(each.key + each.signature for each in self.statements)
        return MAGIC + bytes([len(self.statements)]) + chain + self.signature + self.raw

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of the manifest's bytes alone: names the epoch everywhere."""
        return hashlib.sha256(self.raw).digest()


def _split(data: bytes) -> tuple[tuple[KeyStatement, ...], bytes, bytes]:
    if data[: len(MAGIC)] != MAGIC or len(data) <= _HEADER:
        raise ProtocolError(f"signed manifest: bad magic or too short, expected {MAGIC.decode()}")
    count = data[len(MAGIC)]
    at = _HEADER + count * STATEMENT
    if count > MOST_STATEMENTS or not at + SIGNATURE < len(data) <= MAX_SIGNED_MANIFEST:
        raise ProtocolError(f"signed manifest: {len(data)} bytes cannot have {count} statements")
    chain = data[_HEADER:at]
    statements = tuple(
        KeyStatement(chain[i : i + KEY], chain[i + KEY : i + STATEMENT])
        for i in range(0, len(chain), STATEMENT)
    )
    return statements, data[at : at + SIGNATURE], data[at + SIGNATURE :]


def _last_key(trusted: bytes, statements: tuple[KeyStatement, ...]) -> bytes:
    """From the trusted key along the statements; those before it are not looked at."""
    named = [each.key for each in statements]
    start = len(named) - named[::-1].index(trusted) if trusted in named else 0
    key = trusted
    for statement in statements[start:]:
        if not statement.follows(key):
            raise UntrustedError("signed manifest: a key statement is not by the trusted key")
        key = statement.key
    return key


def _is_signed(key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


Files = dict[bytes, bytes]
"""Model and catalogue file of an epoch, each by its SHA-256."""
Newest = tuple[int, bytes]
"""Epoch and hash of the newest manifest that a reader has accepted."""
Held = Callable[[bytes], bytes | None]
"""The file with this SHA-256 that a reader has already; None: fetch it."""


class PublishedSource(Protocol):
    """Where published files come from: a client's proxy, a proxy's server. It is not trusted.

    Each call raises `UnavailableError` when the same may work later, `RefusedError` when not.
    """

    def manifest(self) -> bytes:
        """The signed manifest of the present epoch."""

    def model(self, sha256: bytes, most: int) -> bytes:
        """The model file with this hash; a longer one than `most` is a `ProtocolError`."""

    def catalogue(self, sha256: bytes) -> bytes:
        """The catalogue file with this hash; one beyond `MAX_CATALOGUE` is a `ProtocolError`."""


@dataclass(frozen=True, eq=False)
class Release:
    """One epoch as published: the manifest, the item matrix, the names of its rows."""

    signed: SignedManifest
    V: NDArray[np.float32]
    catalogue: Catalogue

    @property
    def manifest(self) -> Manifest:
        return self.signed.manifest

    def rows_of(self, items: list[str]) -> list[int]:
        """The rows of those items that the catalogue knows, ascending."""
        return sorted(
            self.catalogue.numbers[item] for item in items if item in self.catalogue.numbers
        )


def fetch_manifest(source: PublishedSource, key: bytes, newest: Newest | None) -> SignedManifest:
    """The present manifest; `UntrustedError` if signature or order of epochs do not hold."""
    signed = SignedManifest.open(source.manifest(), key)
    epoch = signed.manifest.epoch
    if newest is None:
        return signed
    if epoch < newest[0]:
        raise UntrustedError(
            f"manifest of epoch {epoch} after that of epoch {newest[0]}: epochs never go back"
        )
    if epoch == newest[0] and signed.hash != newest[1]:
        raise UntrustedError(
            f"two different manifests of epoch {epoch}, both signed: "
            f"{short_name(signed.hash)} after {short_name(newest[1])}"
        )
    return signed


def short_name(manifest_hash: bytes) -> str:
    """Of a manifest, for logs and messages: nothing that anybody takes for a verification key."""
    return f"manifest {manifest_hash.hex()[:12]}..."


def fetch_release(
    signed: SignedManifest, source: PublishedSource, held: Held
) -> tuple[Release, Files]:
    """The epoch of a verified manifest, and its files; only what is not held is fetched."""
    manifest = signed.manifest
    most = model_size(manifest.items, manifest.terms.factors)
    model = _intact(held, manifest.model) or source.model(manifest.model, most)
    catalogue = _intact(held, manifest.catalogue) or source.catalogue(manifest.catalogue)
    files = {manifest.model: model, manifest.catalogue: catalogue}
    return verified(signed, model, catalogue), files


def verified(signed: SignedManifest, model: bytes, catalogue: bytes) -> Release:
    """The epoch of a verified manifest and these files: the one place that decides it for all.

    Nothing is used before all of it holds. `fetch_manifest` has looked at signature and order:
    whoever could choose between two manifests of an epoch could tell their readers apart.
    """
    manifest = signed.manifest
    if manifest.public_key is not None:
        check_public_key(manifest.public_key)
    _check_hash(model, manifest.model, "model")
    _check_hash(catalogue, manifest.catalogue, "catalogue")
    V = decode_items(model, manifest.items, manifest.terms.factors)
    names = Catalogue.decode(catalogue)
    if len(names.items) != manifest.items:
        raise ProtocolError(
            f"the catalogue has {len(names.items)} items, the manifest says {manifest.items}"
        )
    return Release(signed, V, names)


def _intact(held: Held, sha256: bytes) -> bytes | None:
    """One that the disk has damaged is as good as none."""
    content = held(sha256)
    return content if content is not None and _hash(content) == sha256 else None


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _check_hash(content: bytes, sha256: bytes, what: str) -> None:
    if _hash(content) != sha256:
        raise UntrustedError(f"the {what} file is not the one that the manifest names")
