"""Manifest and terms, model and catalogue, sealed reports and batch: all that a client reads."""

import json
import re
import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from numpy.typing import NDArray

from tests.outsider.mechanisms import Terms, build, pinned
from tests.outsider.strict import LAST, Refused, hexadecimal, keyed, need, ranged, strict_json, text

SUITE = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM"
HPKE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
# Most bytes that a reader takes.
CATALOGUE_CAP = 64 * 2**20
HEADER_CAP = 4096
MANIFEST_CAP = 16384
PATCH_CAP = 2**22
SHELF_CAP = 1024
SIGNED_CAP = 5 + 96 * 32 + 64

TERMS: dict[str, tuple[type, float, float, str]] = {
    "epsilon": (float, 1e-6, 40, "other"),
    "loud_fraction": (float, 0, 0.5, "other"),
    "reports": (int, 1, 10000, "other"),
    "epochs": (int, 1, LAST, "more"),
    "share": (float, 2.0**-32, 1, "more"),
    "min_clients": (int, 1, 10**7, "less"),
    "hold": (int, 0, LAST, "more"),
    "dummies": (int, 0, 10**7, "less"),
    "factors": (int, 1, 256, "more"),
    "max_items": (int, 1, 2**24, "more"),
}
"""Fields of the terms that are numbers: kind, least, most, and what is worse."""
MANIFEST: dict[str, tuple[type, float, float]] = {
    "version": (int, 2, 2),
    "epoch": (int, 1, 2**32 - 1),
    "items": (int, 1, 2**24),
    "alpha": (float, 0, 1024),
    "regularization": (float, 1e-12, 1e6),
    "opens": (int, 0, LAST),
    "closes": (int, 0, LAST),
    "epochs_left": (int, 0, LAST),
    "reports_behind": (int, 0, LAST),
}


class Manifest(NamedTuple):
    """What was signed: all fields are within their ranges."""

    hash: str
    key: bytes
    fields: dict[str, Any]
    terms: Terms

    @property
    def epoch(self) -> int:
        return int(self.fields["epoch"])

    @property
    def end(self) -> int:
        """From here on no batch is taken."""
        return int(self.fields["closes"] + self.terms["hold"])


def open_manifest(signed: bytes, trusted: bytes) -> Manifest:
    return parse_manifest(*open_signed(signed, trusted, b"SVM2", b"manifest", MANIFEST_CAP))


class Shelf(NamedTuple):
    hash: str
    published: int
    catalogue: str
    patch: str | None


def open_shelf(signed: bytes, trusted: bytes) -> Shelf:
    """Return the shelf, which names the catalogue of the lists."""
    body, _ = open_signed(signed, trusted, b"SVS2", b"shelf", SHELF_CAP)
    fields = keyed(strict_json(body, SHELF_CAP), {"version", "published", "catalogue", "patch"})
    ranged(fields["version"], int, 2, 2)
    ranged(fields["published"], int, 0, LAST)
    hexadecimal(fields["catalogue"], 64)
    if fields["patch"] is not None:
        hexadecimal(fields["patch"], 64)
    name = sha256(body).hexdigest()
    return Shelf(name, fields["published"], fields["catalogue"], fields["patch"])


def open_signed(
    signed: bytes, trusted: bytes, magic: bytes, what: bytes, cap: int
) -> tuple[bytes, bytes]:
    """Check every signature from the trusted key on: what they cover, and the last key."""
    need(len(signed) >= 5 and signed[:4] == magic and signed[4] <= 32, "another magic")
    start = 5 + 96 * signed[4]
    need(start + 64 < len(signed) <= start + 64 + cap, "it has a wrong size")
    statements = [(signed[at : at + 32], signed[at + 32 : at + 96]) for at in range(5, start, 96)]
    named = [place for place, (key, _) in enumerate(statements) if key == trusted]
    key, body = trusted, signed[start + 64 :]
    for following, signature in statements[named[-1] + 1 if named else 0 :]:
        _verify(key, signature, b"sottovoce key 2\0" + key + following)
        key = following
    _verify(key, signed[start : start + 64], b"sottovoce " + what + b" 2\0" + body)
    return body, key


def _verify(key: bytes, signature: bytes, data: bytes) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, data)
    except (InvalidSignature, ValueError) as error:
        raise Refused("a signature does not hold") from error


DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
KEYS = ("public_key", "token_key", "next_token_key")
PATCHES = ("model_patch", "catalogue_patch")
FLAGS = ("accounts", "trial")


def parse_manifest(data: bytes, key: bytes) -> Manifest:
    names = {*MANIFEST, "suite", "terms", "model", "catalogue", "start", *KEYS, *PATCHES}
    fields = keyed(strict_json(data, MANIFEST_CAP), names)
    for name, limits in MANIFEST.items():
        ranged(fields[name], *limits)
    for name in ("model", "catalogue"):
        hexadecimal(fields[name], 64)
    if fields["start"] is not None:
        start = keyed(fields["start"], {"name", "people", "last_date", "licence"})
        text(start["name"], 128)
        text(start["licence"])
        ranged(start["people"], int, 1, LAST)
        if start["last_date"] is not None:
            text(start["last_date"], 10)
            need(re.fullmatch(DATE, start["last_date"]), "YYYY-MM-DD is wanted")
    public, token, following = (fields[name] for name in KEYS)
    for name in (*KEYS, *PATCHES):
        if fields[name] is not None:
            hexadecimal(fields[name], 64)
    need(fields["suite"] == SUITE, "an unknown suite")
    need(fields["opens"] < fields["closes"], "closes before it opens")
    check_terms(fields["terms"], fields["items"])
    if fields["terms"]["accounts"]:
        need(public is None or token is not None, "reports without tokens")
        need(token is None or token != following, "one token key for two epochs")
    else:
        need(token is None and following is None, "token keys without accounts")
    return Manifest(sha256(data).hexdigest(), key, fields, fields["terms"])


def check_terms(value: Any, items: int) -> None:
    """Check every range of the terms, in a manifest with this many items."""
    terms = keyed(value, {*TERMS, "training", "mechanism", "parameters", *FLAGS})
    for name in FLAGS:
        need(isinstance(terms[name], bool), f"{name} is true or false")
    for name, (kind, low, high, _) in TERMS.items():
        ranged(terms[name], kind, low, high)
    hexadecimal(terms["training"], 32)
    factors = terms["factors"]
    built, stated = build(terms, items), terms["loud_fraction"]
    loud = built.loud_fraction
    need(stated >= loud, "louder than loud_fraction says")
    if terms["dummies"]:
        more = loud + 0.5 / built.n_directions
        need(more > stated and loud >= 0.9 * stated, "less loud than loud_fraction says")
    need(items <= terms["max_items"], "more items than the terms allow")
    need(items * factors <= 2**26 and items * factors**2 <= 2**32, "a model that is too large")


def worse(terms: Terms, accepted: Terms) -> set[str]:
    """Fields that are worse than what was accepted."""
    same = ("training", "mechanism", *FLAGS)
    names = {name for name in same if terms[name] != accepted[name]}
    if "mechanism" not in names and pinned(terms) != pinned(accepted):
        names.add("parameters")
    for name, (*_, direction) in TERMS.items():
        new, old = terms[name], accepted[name]
        if new != old and direction in ("other", "more" if new > old else "less"):
            names.add(name)
    if terms["min_clients"] > 10 * accepted["min_clients"]:
        names.add("min_clients")
    return names


def parse_model(data: bytes, items: int, factors: int) -> NDArray[np.float32]:
    size = int.from_bytes(data[:8], "little")
    need(len(data) >= 8 and size <= HEADER_CAP, "the header of the model is too long")
    header = strict_json(data[8 : 8 + size], HEADER_CAP)
    header.pop("__metadata__", None)
    n_bytes = 2 * items * factors
    tensor = {"dtype": "BF16", "shape": [factors, items], "data_offsets": [0, n_bytes]}
    # As text: 5.0 and true are not whole numbers, though Python finds them equal to 5 and 1.
    need(_canonical(header) == _canonical({"item_matrix": tensor}), "another tensor")
    need(len(data) == 8 + size + n_bytes, "the model has a wrong size")
    halves = [bytes(2) + half for (half,) in struct.iter_unpack("2s", data[8 + size :])]
    matrix = np.frombuffer(b"".join(halves), "<f4").reshape(factors, items).T.copy()
    sizes = np.abs(matrix)
    is_usable = (sizes == 0) | ((sizes >= 2.0**-60) & (sizes <= 2.0**20))
    need(np.all(is_usable), "an entry of the model is out of range")
    return matrix


def patch(data: bytes, stored: Mapping[str, bytes], cap: int) -> bytes:
    """Make the new file from the first stored base."""
    need(data[:4] == b"SVP2" and len(data) <= PATCH_CAP, "another magic")
    try:
        (n_bases,) = struct.unpack_from("<I", data, 4)
        at, bases = 8, {}
        for _ in range(n_bases):
            name, n_slices = data[at : at + 32].hex(), struct.unpack_from("<I", data, at + 32)[0]
            bases[name] = struct.unpack_from(f"<{2 * n_slices}I", data, at + 36)
            at += 36 + 8 * n_slices
    except struct.error as error:
        raise Refused("a patch that is cut short") from error
    base = next((name for name in bases if name in stored), None)
    need(base is not None, "no base")
    numbers, source = bases[str(base)], stored[str(base)] + data[at:]
    slices = list(zip(numbers[::2], numbers[1::2], strict=True))
    need(sum(length for _, length in slices) <= cap, "too long")
    need(all(start + length <= len(source) for start, length in slices), "beyond the end")
    return b"".join(source[start : start + length] for start, length in slices)


def _canonical(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)


def parse_catalogue(data: bytes) -> dict[str, int]:
    """Return the row of every id."""
    value = keyed(strict_json(data, CATALOGUE_CAP), ["version", "items"])
    ranged(value["version"], int, 2, 2)
    items = value["items"]
    need(isinstance(items, list) and items, "no list of items")
    rows = {_id_of(item): row for row, item in enumerate(items)}
    need(len(rows) == len(items), "an id is there twice")
    kinds = {(kind, isinstance(tag, list)) for item in items for kind, tag in item["tags"].items()}
    need(len(kinds) == len(dict(kinds)), "a kind has labels and numbers")
    need(len(kinds) <= 32, "more than 32 kinds")
    return rows


def _id_of(value: Any) -> str:
    item = keyed(value, ["id", "title", "tags"])
    need(isinstance(item["tags"], dict), "tags are no object")
    labels = []
    for kind, tag in item["tags"].items():
        need(re.fullmatch("[a-z][a-z0-9_]{0,31}", kind), "no name of a kind")
        if isinstance(tag, list):
            need(len({*map(str, tag)}) == len(tag), "a label is there twice")
            labels += tag
        else:
            ranged(tag, float, 0, LAST)
    need(len(labels) <= 64, "more than 64 labels")
    for value in (item["id"], item["title"], *labels):
        text(value)
    return str(item["id"])


def recipient(public_key: str) -> X25519PublicKey:
    """Return the key that reports are sealed to, checked by a multiplication."""
    key = X25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
    try:
        X25519PrivateKey.generate().exchange(key)
    except ValueError as error:
        raise Refused("public_key is of small order") from error
    return key


def seal(report: int, key: X25519PublicKey, manifest_hash: str) -> bytes:
    info = b"sottovoce report 2\0" + bytes.fromhex(manifest_hash)
    return HPKE.encrypt(report.to_bytes(4, "little"), key, info=info)


def encode_batch(epoch: int, manifest_hash: str, batch_id: bytes, sealed: Sequence[bytes]) -> bytes:
    head = b"SVB2" + epoch.to_bytes(4, "little") + bytes.fromhex(manifest_hash)
    return head + batch_id + b"".join(sealed)
