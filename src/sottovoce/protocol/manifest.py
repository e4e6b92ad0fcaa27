"""The manifest: the description of an epoch, signed by the server."""

import json
import re
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
from sottovoce.training.start import Provenance, Start

# The version of the format. No other version is read.
MANIFEST_VERSION = 2
# The HPKE cipher suite of version 2, named as in RFC 9180.
SUITE_NAME = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM"
MAX_MANIFEST_BYTES = 16 * 1024
# The largest epoch: batches and chunks store it as an unsigned 32-bit number.
MAX_EPOCH = 2**32 - 1
# The largest number of characters of the name and the licence of a start. JSON may need 12 bytes
# for a character, so both together take at most 7,680 of the manifest's bytes. A name must fit into
# a sentence on a page, and a licence may be a sentence or an address.
MAX_START_NAME_LENGTH = 128
MAX_LICENCE_LENGTH = 512
# The pattern of the last date of a start. Nothing is computed from it, so every month may have 31
# days.
_DATE_PATTERN = re.compile("[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
# Fields that are bytes in `Manifest` and hexadecimal in its JSON.
_BYTES_FIELDS = (
    *("model", "model_patch", "catalogue", "catalogue_patch"),
    *("public_key", "token_key", "next_token_key"),
)


@dataclass(frozen=True)
class Manifest:
    """Everything that a device must know about an epoch. The fields are the keys of the JSON."""

    epoch: int
    """The number of the epoch. A service counts its epochs from 1, and goes on counting when a new
    training begins."""
    terms: Terms
    """The terms that a device's owner must have accepted."""
    items: int
    """M: the number of items of the catalogue, which is the number of rows of the item matrix."""
    alpha: float
    """The additional weight of touched items: they have weight 1 + alpha, and others weight 1."""
    regularization: float
    """lambda: the ridge with which a device computes its user vector from this model."""
    model: bytes
    """SHA-256 of the model file, which has the item matrix."""
    catalogue: bytes
    """SHA-256 of the catalogue file, which names the item of each row of the item matrix."""
    public_key: bytes | None
    """The X25519 key to which reports of this epoch are sealed. None if the server asks for no
    reports."""
    token_key: bytes | None
    """The public key of this epoch's tokens; None if reports need no tokens."""
    next_token_key: bytes | None
    """The public key of the next epoch's tokens, which accounts may already request; None if they
    may not."""
    opens: int
    """The Unix second from which reports are accepted."""
    closes: int
    """The Unix second until which the epoch stays open in any case. After this second it ends as
    soon as its crowd is large enough, at the latest at `ends`."""
    epochs_left: int
    """The number of epochs that are left in the training, including this one. 0 if the training has
    no planned end, or if it is over."""
    reports_behind: int
    """Number of reports that were counted in the last epoch that changed the model. 0 if no epoch
    has changed it yet."""
    start: Provenance | None
    """The public table that the first model was learnt from; None if it is none, or if nothing of
    it is in the model any more."""
    model_patch: bytes | None = None
    """SHA-256 of a patch that makes the model file from those of earlier epochs, or None."""
    catalogue_patch: bytes | None = None
    """SHA-256 of a patch that makes the catalogue file from earlier catalogues, or None."""

    @property
    def patches(self) -> tuple[bytes, ...]:
        """SHA-256 of each patch of this epoch."""
        return tuple(p for p in (self.model_patch, self.catalogue_patch) if p is not None)

    @property
    def has_model(self) -> bool:
        """Whether lists can use the item matrix, which is else only noise or zeros."""
        return self.reports_behind > 0 or self.start is not None

    @property
    def ends(self) -> int:
        """The Unix second from which reports of the epoch are no longer counted."""
        return self.closes + self.terms.hold

    def build(self) -> Mechanism:
        """Create the mechanism that all devices make reports with.

        Raises:
            ProtocolError: The terms and the number of items do not fit the mechanism.
        """
        terms = self.terms
        try:
            shape = Shape(self.items, terms.factors, self.alpha)
            kind = MECHANISMS[terms.mechanism]
            return kind.from_manifest(shape, terms.epsilon, terms.parameters)
        except SettingsError as error:
            raise ProtocolError(f"manifest: {error}") from error

    def training(self, defaults: Settings) -> Settings:
        """Return the settings of the training, as far as the manifest states them.

        Args:
            defaults: The source of all settings that the manifest does not state.
        """
        # `self.regularization` is not the setting of this name: the server computes it from the
        # setting and from the model (`Settings.compute_user_ridge`).
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

    @property
    def needs_consent(self) -> bool:
        """Whether something may leave a device for this epoch, so that its owner must be asked.

        It may be reports, or the request for a token of the next epoch.
        """
        return self.public_key is not None or self.next_token_key is not None

    def asks_for_reports(self, now: float) -> bool:
        """Return whether devices may report at `now`, in Unix seconds."""
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
            ProtocolError: The manifest is malformed, or its fields do not fit together.
        """
        content = strict.parse_object(raw, max_bytes=MAX_MANIFEST_BYTES, what="manifest")
        version, suite = content.pop("version", None), content.pop("suite", None)
        if type(version) is not int or version != MANIFEST_VERSION or suite != SUITE_NAME:
            raise ProtocolError(
                f"manifest: it has version {strict.format_value(version)} and suite "
                f"{strict.format_value(suite)}; this program speaks version {MANIFEST_VERSION} "
                f"with {SUITE_NAME}"
            )
        strict.check_keys(content, set(cls.__dataclass_fields__), "manifest")
        manifest = cls(**_parse_fields(content))
        manifest._check_together()
        return manifest

    def _check_together(self) -> None:
        """Raise a `ProtocolError` if two fields contradict each other."""
        if self.opens >= self.closes:
            raise ProtocolError("manifest: the epoch closes before it opens")
        if self.items > self.terms.max_items:
            raise ProtocolError(
                f"manifest: it has {self.items} items, but the terms allow {self.terms.max_items}"
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
        # Fewer loud directions hide a report better in a crowd, but worse among dummies. So, with
        # dummies, the number of loud directions must be exactly the one that the fraction in the
        # terms gives, rounded down. Promises include the loss by this rounding.
        one_more = mechanism.loud_fraction + 1 / (2 * mechanism.n_directions)
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

    def optional(name: str) -> bytes | None:
        return None if content[name] is None else digest(name)

    return {
        "epoch": integer("epoch", 1, MAX_EPOCH),
        "terms": Terms.from_json(content["terms"]),
        "items": integer("items", 1, MAX_ITEMS),
        "alpha": real("alpha", 0, MAX_ALPHA),
        "regularization": real("regularization", MIN_RIDGE, MAX_RIDGE),
        "model": digest("model"),
        "model_patch": optional("model_patch"),
        "catalogue": digest("catalogue"),
        "catalogue_patch": optional("catalogue_patch"),
        "public_key": optional("public_key"),
        "token_key": optional("token_key"),
        "next_token_key": optional("next_token_key"),
        "opens": integer("opens", 0),
        "closes": integer("closes", 0),
        "epochs_left": integer("epochs_left", 0),
        "reports_behind": integer("reports_behind", 0),
        "start": None if content["start"] is None else parse_provenance(content["start"]),
    }


def parse_provenance(content: object) -> Provenance:
    """Parse the provenance of a start, whose keys are the fields of `Provenance`.

    Raises:
        ProtocolError: A value is malformed, too long, or has a character that no page may show.
    """
    if not isinstance(content, dict):
        raise ProtocolError(
            f"start: must be null or a JSON object, not {strict.format_value(content)}"
        )
    strict.check_keys(content, set(Provenance.__dataclass_fields__), "start")
    date, what = content["last_date"], "start: last_date"
    if date is not None:
        date = strict.parse_text(date, max_length=len("YYYY-MM-DD"), what=what)
        if not _DATE_PATTERN.fullmatch(date):
            raise ProtocolError(f"{what}: must be null or YYYY-MM-DD, not {date!r}")
    return Provenance(
        strict.parse_text(content["name"], max_length=MAX_START_NAME_LENGTH, what="start: name"),
        strict.parse_int(
            content["people"], min_value=1, max_value=strict.MAX_INTEGER, what="start: people"
        ),
        date,
        strict.parse_text(content["licence"], max_length=MAX_LICENCE_LENGTH, what="start: licence"),
    )


def decode_start(raw: bytes) -> Start:
    """Decode a file of `sottovoce start`, and check its provenance.

    Raises:
        CheckpointError: The bytes are not a start.
        ProtocolError: No manifest could have its provenance.
    """
    start = Start.decode(raw)
    # Commands print the provenance, and a terminal might obey control characters in it.
    parse_provenance(asdict(start.provenance))
    return start


class SignedManifest(Signed):
    """A signed manifest. A reader that accepts it then trusts only the key that signed it."""

    what: ClassVar = "manifest"
    magic: ClassVar = b"SVM2"
    label: ClassVar = b"sottovoce manifest 2\x00"
    max_content_bytes: ClassVar = MAX_MANIFEST_BYTES

    def __post_init__(self) -> None:
        self.manifest  # noqa: B018 - parsed now, and cached

    @cached_property
    def manifest(self) -> Manifest:
        """The parsed manifest. The hash of its bytes identifies the epoch."""
        return Manifest.decode(self.raw)

    @classmethod
    def make(
        cls, manifest: Manifest, key: Ed25519PrivateKey, statements: tuple[KeyStatement, ...] = ()
    ) -> Self:
        """Encode and sign a manifest.

        Args:
            manifest: The manifest.
            key: The key to sign it with.
            statements: The key statements that lead from the service's first key to this key.
        """
        return cls.sign(manifest.encode(), key, statements)


def format_manifest_hash(manifest_hash: bytes) -> str:
    """Format the hash of a manifest for logs and messages."""
    # Shortened and labelled, so that nobody mistakes it for a verification key.
    return f"manifest {manifest_hash.hex()[:12]}..."
