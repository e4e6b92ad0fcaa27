"""The manifest: everything that a device must know of one epoch, signed by the server."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core import MECHANISMS, Mechanism, Shape
from sottovoce.core.bounds import LEAST_RIDGE, MOST_ALPHA, MOST_ITEMS, MOST_RIDGE
from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.protocol import strict
from sottovoce.protocol.signing import KeyStatement, Signed
from sottovoce.protocol.terms import Terms
from sottovoce.training import Settings

VERSION = 2
SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM"
"""The only suite of version 2; named in full so that a reader can look it up in RFC 9180."""
MAX_MANIFEST = 16 * 1024
MAX_EPOCH = 2**32 - 1
LEAST_LOUD = 0.9
"""Of the share of loud directions that the terms state, where dummies hide people."""
_BYTES = ("model", "catalogue", "public_key", "token_key", "next_token_key")


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
    public_key: bytes | None
    """The X25519 key to which reports of this epoch are sealed. None: no reports are asked for."""
    token_key: bytes | None
    """The key that the tokens of this epoch were made with, where reports need tokens."""
    next_token_key: bytes | None
    """The one for tokens of the next epoch, which accounts may have from now on."""
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
        content = {**asdict(self), "terms": self.terms.as_dict()}
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
        keys = (self.token_key, self.next_token_key)
        if keys != (None, None) and not self.terms.accounts:
            raise ProtocolError("manifest: keys of tokens, and the terms know no accounts")
        if self.terms.accounts and self.public_key is not None and self.token_key is None:
            raise ProtocolError("manifest: reports are asked for, and nobody has a token for them")
        if self.token_key is not None and self.token_key == self.next_token_key:
            raise ProtocolError("manifest: the tokens of two epochs have one key")
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

    def key(name: str) -> bytes | None:
        return None if given[name] is None else digest(name)

    return {
        "epoch": whole("epoch", 1, MAX_EPOCH),
        "terms": Terms.read(given["terms"]),
        "items": whole("items", 1, MOST_ITEMS),
        "alpha": real("alpha", 0, MOST_ALPHA),
        "regularization": real("regularization", LEAST_RIDGE, MOST_RIDGE),
        "model": digest("model"),
        "catalogue": digest("catalogue"),
        "public_key": key("public_key"),
        "token_key": key("token_key"),
        "next_token_key": key("next_token_key"),
        "opens": whole("opens", 0),
        "closes": whole("closes", 0),
        "epochs_left": whole("epochs_left", 0),
        "reports_behind": whole("reports_behind", 0),
    }


class SignedManifest(Signed):
    """The manifest as it is served. A reader trusts the key that signed it from then on."""

    what: ClassVar = "manifest"
    magic: ClassVar = b"SVM2"
    label: ClassVar = b"sottovoce manifest 2\x00"
    most: ClassVar = MAX_MANIFEST

    def __post_init__(self) -> None:
        self.manifest  # noqa: B018 - read now, kept for later

    @cached_property
    def manifest(self) -> Manifest:
        """Its hash, that of these bytes alone, names the epoch everywhere."""
        return Manifest.decode(self.raw)

    @classmethod
    def make(
        cls, manifest: Manifest, key: Ed25519PrivateKey, statements: tuple[KeyStatement, ...] = ()
    ) -> Self:
        return cls.sign(manifest.encode(), key, statements)


def short_name(manifest_hash: bytes) -> str:
    """Of a manifest, for logs and messages: nothing that anybody takes for a verification key."""
    return f"manifest {manifest_hash.hex()[:12]}..."
