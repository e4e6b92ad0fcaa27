"""Labelled bytes that every implementation must accept: a reader can be too strict."""

import json
from itertools import pairwise
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from sottovoce.protocol import KeyStatement, SignedManifest, encode_items
from tests.protocol.examples import manifest

SIGNER_KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(1, 35)]
PUBLIC_KEYS = [item.public_key().public_bytes_raw() for item in SIGNER_KEYS]


def signed_manifests() -> list[dict[str, str]]:
    """Return signed manifests, each with the key trusted before and the key trusted after it."""

    def chain(*keys: int) -> bytes:
        named = tuple(
            KeyStatement.make(SIGNER_KEYS[old], PUBLIC_KEYS[new]) for old, new in pairwise(keys)
        )
        return SignedManifest.make(manifest(), SIGNER_KEYS[keys[-1]], named).encode()

    cases = {
        "no statement": (chain(0), 0, 0),
        "one statement, from the first key": (chain(0, 1), 0, 1),
        "three statements, from a key in the middle": (chain(0, 1, 2, 3), 1, 3),
        "three statements, from the last key": (chain(0, 1, 2, 3), 3, 3),
        "back to an earlier key, and on": (chain(0, 1, 0, 2), 0, 2),
        "32 statements": (chain(*range(33)), 0, 32),
    }
    return [
        {
            "label": label,
            "bytes": data.hex(),
            "trusted": PUBLIC_KEYS[old].hex(),
            "then": PUBLIC_KEYS[new].hex(),
        }
        for label, (data, old, new) in cases.items()
    ]


def manifests(raw: bytes) -> dict[str, bytes]:
    content = json.loads(raw)

    def written(**changes: Any) -> bytes:
        return json.dumps(content | changes).encode()

    backwards = dict(reversed(content.items()))
    start = {"name": "A", "people": 2**53 - 1, "last_date": None, "licence": "-"}
    # The longest texts, each character in twelve bytes.
    longest = {"name": "\U0001f600" * 128, "licence": "\U0001f600" * 512}
    return {
        "no start": written(start=None),
        "a start without a date": written(start=start),
        "a start with the longest texts": written(start=start | longest),
        "a day that no month has": written(start=start | {"last_date": "2026-02-31"}),
        "another order of keys": json.dumps(backwards).encode(),
        "white space everywhere": b" \t\n" + json.dumps(content, indent=3).encode() + b"\r\n",
        "a key written with escapes": raw.replace(b'"version"', b'"v\\u0065rsion"'),
        "alpha as a whole number": written(alpha=1),
        "alpha -0.0": written(alpha=-0.0),
        "the ends of their ranges": written(alpha=1024, regularization=1e-12, epoch=2**32 - 1),
        "without end": written(epochs_left=0),
        "more epochs left than anybody counts": written(epochs_left=2**53 - 1),
        "accounts": written(terms=content["terms"] | {"accounts": True}, token_key="ab" * 32),
        "accounts, and tokens for the next epoch": written(
            terms=content["terms"] | {"accounts": True},
            token_key="ab" * 32,
            next_token_key="cd" * 32,
        ),
        "accounts, before anybody has a token": written(
            terms=content["terms"] | {"accounts": True}, public_key=None, next_token_key="cd" * 32
        ),
        "exactly 16384 bytes": raw + b" " * (16_384 - len(raw)),
    }


def make_end_items() -> NDArray[np.float32]:
    """Return an item matrix, 5 x 2, with the ends of what an entry may be."""
    ends = [2.0**-60, -(2.0**-60), 2.0**20, -(2.0**20), 0.0, -0.0, 1.0, 2.0 - 2.0**-7, 3.0, 4.0]
    return np.array(ends, np.float32).reshape(5, 2)


def models(data: bytes) -> dict[str, bytes]:
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]

    def with_header(text: bytes) -> bytes:
        return len(text).to_bytes(8, "little") + text + body

    deep: Any = {"a": [1, {"b": "c"}]}
    return {
        "metadata": with_header(json.dumps({"__metadata__": deep, **header}).encode()),
        "a header that is not padded": with_header(json.dumps(header).encode()),
        "a header of 4096 bytes": with_header(json.dumps(header).encode().ljust(4096)),
        "the ends of what an entry may be": encode_items(make_end_items()),
    }


def catalogues() -> dict[str, bytes]:
    def listed(**changes: Any) -> bytes:
        one = {"id": "a", "title": "A", "tags": {}} | changes
        content = {"items": [one], "version": 2}
        return json.dumps(content, ensure_ascii=False).encode()

    return {
        "512 characters beyond 16 bits": listed(title="\U0001f600" * 512),
        "beside the control characters": listed(
            title=" ~\u00a0\u00ad\u061c\u200d\u200e\u200f\u2027\u202f\u2065\u206a\ufeff"
        ),
        "escapes of a surrogate pair": listed().replace(b'"A"', b'"\\ud83d\\ude00"'),
        "many labels": listed(tags={"genre": [f"x{n}" for n in range(64)]}),
        "the same label of two kinds": listed(tags={"genre": ["x"], "brand": ["x"]}),
        "numbers": listed(tags={"year": 1927, "price": 9.99, "none": 0, "most": 2**53 - 1}),
        "many kinds": listed(tags={f"k{n}": n for n in range(32)}),
        "no label": listed(tags={"genre": []}),
        "the longest kind": listed(tags={"a" + "_9z" * 10 + "z": ["x"]}),
    }
