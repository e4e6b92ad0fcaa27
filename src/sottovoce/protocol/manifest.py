"""The manifest: everything that a device must know about an epoch, signed by the server."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core import MECHANISMS, Mechanism, Shape
from sottovoce.core.bounds import MAX_ALPHA, MAX_ITEMS, MAX_RIDGE, MIN_RIDGE
from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.privacy.events import MIN_LOUD_RATIO
from sottovoce.protocol import strict
from sottovoce.protocol.signing import KeyStatement, Signed
from sottovoce.protocol.terms import Terms
from sottovoce.training import Settings

# The only version of the format that is read.
MANIFEST_VERSION = 2
# The only suite of version 2, by its name in RFC 9180.
SUITE_NAME = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM"
MAX_MANIFEST_BYTES = 16 * 1024
# Epochs are unsigned 32-bit numbers in batches and chunks.
MAX_EPOCH = 2**32 - 1
# Fields that are bytes here and hexadecimal in JSON.
_BYTES_FIELDS = ("model", "catalogue", "public_key", "token_key", "next_token_key")


@dataclass(frozen=True)
class Manifest:
    """The description of an epoch; its fields are the keys of the JSON."""

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
    public_key: bytes | None
    """The X25519 key to which reports of this epoch are sealed. None: no reports are asked for."""
    token_key: bytes | None
    """The key of this epoch's tokens, if reports need tokens."""
    next_token_key: bytes | None
    """The key of the next epoch's tokens, which accounts may request from now on."""
    opens: int
    """The Unix second from which reports are taken."""
    closes: int
    """The Unix second until which reports are always taken. After it the epoch ends as soon as its
    crowd is there, at the latest at `ends`."""
    epochs_left: int
    """Epochs of the training still to come, this one included. 0: without end, or it is over."""
    reports_behind: int
    """Reports counted in the last epoch that changed the model; 0 before the first."""

    @property
    def ends(self) -> int:
        """The Unix second from which reports of the epoch no longer count."""
        return self.closes + self.terms.hold

    def build(self) -> Mechanism:
        """Create the mechanism that all devices report with.

        Raises:
            ProtocolError: The manifest describes no mechanism that works.
        """
        terms = self.terms
        try:
            shape = Shape(self.items, terms.factors, self.alpha)
            kind = MECHANISMS[terms.mechanism]
            return kind.from_manifest(shape, terms.epsilon, terms.parameters)
        except SettingsError as error:
            raise ProtocolError(f"manifest: {error}") from error

    def training(self, defaults: Settings) -> Settings:
        """Return the settings of the training; fields that it does not state are the defaults."""
        # Without `regularization`: a server computes it from its own setting and from the model
        # (`Settings.compute_user_ridge`), so it is not the setting.
        terms = self.terms
        kind = MECHANISMS[terms.mechanism]
        return defaults.copy_with(
            mechanism=terms.mechanism,
            epsilon=terms.epsilon,
            reports=terms.reports,
            dummies=terms.dummies,
            factors=terms.factors,
            alpha=self.alpha,
            seed=terms.parameters.get("directions_seed", defaults.seed),
            **{name: terms.parameters[name] for name in kind.options()},
        )

    def asks_for_reports(self, now: float) -> bool:
        """Return whether devices may report now."""
        return self.public_key is not None and self.opens <= now < self.ends

    def encode(self) -> bytes:
        """Return the bytes that are hashed and signed."""
        content = {**asdict(self), "terms": self.terms.as_dict()}
        for name in _BYTES_FIELDS:
            content[name] = None if content[name] is None else content[name].hex()
        return json.dumps(
            {"version": MANIFEST_VERSION, "suite": SUITE_NAME, **content},
            separators=(",", ":"),
            allow_nan=False,
        ).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Parse a manifest.

        Raises:
            ProtocolError: The bytes are not a manifest that devices can report with.
        """
        content = strict.parse_object(raw, max_bytes=MAX_MANIFEST_BYTES, what="manifest")
        version, suite = content.pop("version", None), content.pop("suite", None)
        if type(version) is not int or version != MANIFEST_VERSION or suite != SUITE_NAME:
            raise ProtocolError(
                f"manifest: version {strict.format_value(version)} with suite "
                f"{strict.format_value(suite)}; this program speaks version {MANIFEST_VERSION} "
                f"with {SUITE_NAME}"
            )
        strict.check_keys(content, set(cls.__dataclass_fields__), "manifest")
        manifest = cls(**_parse_fields(content))
        manifest._check_together()
        return manifest

    def _check_together(self) -> None:
        """Raise a `ProtocolError` unless the fields fit together, so that devices can report."""
        if self.opens >= self.closes:
            raise ProtocolError("manifest: the epoch closes before it opens")
        if self.items > self.terms.most_items:
            raise ProtocolError(
                f"manifest: {self.items} items, but the terms allow {self.terms.most_items}"
            )
        keys = (self.token_key, self.next_token_key)
        if keys != (None, None) and not self.terms.accounts:
            raise ProtocolError("manifest: it has token keys, but the terms have no accounts")
        if self.terms.accounts and self.public_key is not None and self.token_key is None:
            raise ProtocolError("manifest: it asks for reports, but has no token key for them")
        if self.token_key is not None and self.token_key == self.next_token_key:
            raise ProtocolError("manifest: the tokens of two epochs have the same key")
        mechanism, max_fraction = self.build(), self.terms.loud_fraction
        if mechanism.loud_fraction > max_fraction:
            raise ProtocolError("manifest: more directions are loud than the terms allow")
        # Fewer loud directions hide better in a crowd, but worse among dummies. There they must be
        # those of the terms, rounded down. Promises include the loss by this rounding.
        one_more = mechanism.loud_fraction + 0.5 / mechanism.n_directions
        min_fraction = MIN_LOUD_RATIO * max_fraction
        too_few = one_more <= max_fraction or mechanism.loud_fraction < min_fraction
        if self.terms.dummies and too_few:
            raise ProtocolError("manifest: fewer directions are loud than the terms require")


def _parse_fields(content: dict[str, Any]) -> dict[str, Any]:
    def integer(name: str, low: int, high: int = strict.MAX_INTEGER) -> int:
        return strict.parse_int(
            content[name], min_value=low, max_value=high, what=f"manifest: {name}"
        )

    def real(name: str, low: float, high: float) -> float:
        return strict.parse_float(
            content[name], min_value=low, max_value=high, what=f"manifest: {name}"
        )

    def digest(name: str) -> bytes:
        return strict.parse_hex(content[name], what=f"manifest: {name}")

    def key(name: str) -> bytes | None:
        return None if content[name] is None else digest(name)

    return {
        "epoch": integer("epoch", 1, MAX_EPOCH),
        "terms": Terms.from_json(content["terms"]),
        "items": integer("items", 1, MAX_ITEMS),
        "alpha": real("alpha", 0, MAX_ALPHA),
        "regularization": real("regularization", MIN_RIDGE, MAX_RIDGE),
        "model": digest("model"),
        "catalogue": digest("catalogue"),
        "public_key": key("public_key"),
        "token_key": key("token_key"),
        "next_token_key": key("next_token_key"),
        "opens": integer("opens", 0),
        "closes": integer("closes", 0),
        "epochs_left": integer("epochs_left", 0),
        "reports_behind": integer("reports_behind", 0),
    }


class SignedManifest(Signed):
    """The manifest as it is served. Its reader trusts the signing key from then on."""

    what: ClassVar = "manifest"
    magic: ClassVar = b"SVM2"
    label: ClassVar = b"sottovoce manifest 2\x00"
    max_content_bytes: ClassVar = MAX_MANIFEST_BYTES

    def __post_init__(self) -> None:
        self.manifest  # noqa: B018 - parsed now, and cached

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest. The hash of its bytes identifies the epoch everywhere."""
        return Manifest.decode(self.raw)

    @classmethod
    def make(
        cls, manifest: Manifest, key: Ed25519PrivateKey, statements: tuple[KeyStatement, ...] = ()
    ) -> Self:
        """Encode and sign a manifest."""
        return cls.sign(manifest.encode(), key, statements)


def format_manifest_hash(manifest_hash: bytes) -> str:
    """Format the hash of a manifest for logs and messages."""
    # Shortened and labelled, so that nobody mistakes it for a verification key.
    return f"manifest {manifest_hash.hex()[:12]}..."
