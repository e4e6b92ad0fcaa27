"""Bytes that every implementation must refuse, with a label each: the end of protocol.json.

Nothing here needs a reader to tell `1` from `1.0`, which a browser's `JSON.parse` cannot.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sottovoce.protocol.manifest import SIGNED
from tests.protocol.examples import SMALL_ORDER, changed, nested, signing_key

if TYPE_CHECKING:
    from sottovoce.protocol import Batch, Chunk, SignedManifest

Labelled = dict[str, bytes]


def of_json(raw: bytes) -> Labelled:
    """What is wrong with any JSON object of the protocol."""
    return {
        "empty": b"",
        "cut": raw[:-1],
        "more after the end": raw + b"{}",
        "byte order mark": b"\xef\xbb\xbf" + raw,
        "not UTF-8": raw.replace(b'"version"', b'"vers\xffon"'),
        "UTF-16": raw.decode().encode("utf-16-le"),
        "not an object": b"[" + raw + b"]",
        "deep nesting": nested(5_000).encode(),
        "unknown key": changed(raw, more=1),
        "missing version": changed(raw, version=...),
        "version 2": changed(raw, version=2),
        "version true": changed(raw, version=True),
        "repeated key": raw[:-1] + b',"version":1}',
        "repeated key, escaped": raw[:-1] + b',"v\\u0065rsion":1}',
        "comma before the end": raw[:-1] + b",}",
    }


MANIFEST_VALUES: dict[str, dict[str, Any]] = {
    "another suite": {"suite": "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM"},
    "epoch 0": {"epoch": 0},
    "epoch 2^32": {"epoch": 2**32},
    "epoch as text": {"epoch": "3"},
    "epoch true": {"epoch": True},
    "epoch 3.5": {"epoch": 3.5},
    "items 0": {"items": 0},
    "items 2^24 + 1": {"items": 2**24 + 1},
    "factors 1025": {"factors": 1025},
    "directions that fit no report": {"items": 2**24, "factors": 1024},
    "unknown mechanism": {"mechanism": "loud"},
    "seed 2^53": {"directions_seed": 2**53},
    "negative seed": {"directions_seed": -1},
    "loudest without loud": {"loud": 0},
    "more loud rows than half": {"loud": 9},
    "loud for hadamard": {"mechanism": "hadamard"},
    "seed for coordinate": {"mechanism": "coordinate", "loud": 0},
    "epsilon 0": {"epsilon": 0},
    "epsilon 1e-7": {"epsilon": 1e-7},
    "epsilon 41": {"epsilon": 41},
    "epsilon as text": {"epsilon": "2.5"},
    "epsilon null": {"epsilon": None},
    "reports 0": {"reports": 0},
    "reports 10001": {"reports": 10_001},
    "negative alpha": {"alpha": -1},
    "negative regularization": {"regularization": -1e-9},
    "model in capitals": {"model": "AB" * 32},
    "model too short": {"model": "ab" * 31},
    "catalogue null": {"catalogue": None},
    "public key too long": {"public_key": "ab" * 33},
    "public key false": {"public_key": False},
    "least clients 0": {"least_clients": 0},
    "closes when it opens": {"opens": 1_800_086_400},
    "closes before it opens": {"closes": 1_799_999_999},
    "closes 2^53": {"closes": 2**53},
    "negative previous reports": {"previous_reports": -1},
    "missing loud": {"loud": ...},
}


def manifests(raw: bytes) -> Labelled:
    def swapped(old: bytes, new: bytes) -> bytes:
        assert raw.count(old) == 1
        return raw.replace(old, new)

    return (
        of_json(raw)
        | {label: changed(raw, **change) for label, change in MANIFEST_VALUES.items()}
        | {
            "epsilon NaN": swapped(b'"epsilon":2.5', b'"epsilon":NaN'),
            "epsilon Infinity": swapped(b'"epsilon":2.5', b'"epsilon":Infinity'),
            "epsilon 1e400": swapped(b'"epsilon":2.5', b'"epsilon":1e400'),
            "repeated epsilon": swapped(b'"epsilon":2.5', b'"epsilon":2.5,"epsilon":9'),
            "longer than 16320 bytes": raw + b" " * (16_321 - len(raw)),
        }
    )


def signed_manifests(signed: SignedManifest) -> Labelled:
    data, raw, key = signed.encode(), signed.raw, signing_key()
    broken = changed(raw, epoch=0)
    return {
        "empty": b"",
        "signature alone": data[:64],
        "longer than 16384 bytes": data + b" " * (16_385 - len(data)),
        "first bit of the signature": bytes([data[0] ^ 1]) + data[1:],
        "last bit of the signature": data[:63] + bytes([data[63] ^ 0x80]) + data[64:],
        "a bit of the manifest": data[:200] + bytes([data[200] ^ 1]) + data[201:],
        "a space after the manifest": data + b" ",
        "signature of zeros": bytes(64) + raw,
        "signature after the manifest": raw + data[:64],
        "another key": signing_key(bytes(32)).sign(SIGNED + raw) + raw,
        "no domain separation": key.sign(raw) + raw,
        "another domain": key.sign(b"sottovoce manifest 2\x00" + raw) + raw,
        "signed, but epoch 0": key.sign(SIGNED + broken) + broken,
        "signed, but no JSON": key.sign(SIGNED + b"manifest") + b"manifest",
    }


def catalogues(raw: bytes) -> Labelled:
    one = {"id": "a", "title": "A", "tags": []}
    values: dict[str, Any] = {
        "no items": [],
        "items as an object": {},
        "items null": None,
        "an item that is a number": [1],
        "an item without tags": [{"id": "a", "title": "A"}],
        "an item with more": [one | {"year": 1927}],
        "the same id twice": [one, one],
        "id as a number": [one | {"id": 1}],
        "empty id": [one | {"id": ""}],
        "empty title": [one | {"title": ""}],
        "title of 513 characters": [one | {"title": "x" * 513}],
        "half of a surrogate pair": [one | {"title": "\ud83d"}],
        "tags as text": [one | {"tags": "silent"}],
        "empty tag": [one | {"tags": [""]}],
        "a tag that is null": [one | {"tags": [None]}],
    }
    return of_json(raw) | {label: changed(raw, items=items) for label, items in values.items()}


def models(data: bytes) -> Labelled:
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    tensor = header["item_matrix"]

    def with_header(content: object, values: bytes = body) -> bytes:
        written = content if isinstance(content, bytes) else json.dumps(content).encode()
        return len(written).to_bytes(8, "little") + written + values

    def with_tensor(**changes: object) -> bytes:
        return with_header({"item_matrix": tensor | changes})

    return {
        "empty": b"",
        "cut": data[:-1],
        "one byte more": data + b"\0",
        "header cut": data[:20],
        "header of 2^64 - 1 bytes": b"\xff" * 8 + data[8:],
        "header of 4097 bytes": with_header(json.dumps(header).encode().ljust(4097)),
        "header no JSON": with_header(b"{"),
        "header a list": with_header([header]),
        "no tensor": with_header({}),
        "another name": with_header({"items": tensor}),
        "two tensors": with_header({**header, "user_matrix": tensor}),
        "repeated tensor": with_header(json.dumps(header).encode()[:-1] + b',"item_matrix":1}'),
        "float16": with_tensor(dtype="F16"),
        "transposed": with_tensor(shape=tensor["shape"][::-1]),
        "flat": with_tensor(shape=[tensor["shape"][0] * tensor["shape"][1]]),
        "other offsets": with_tensor(data_offsets=[4, 44]),
        "unknown key": with_tensor(more=1),
        "NaN": data[:-4] + bytes.fromhex("0000c07f"),
        "infinity": data[:-4] + bytes.fromhex("0000807f"),
        "minus infinity": data[:-4] + bytes.fromhex("000080ff"),
    }


def batches(batch: Batch) -> Labelled:
    data = batch.encode()
    return {
        "empty": b"",
        "header alone": data[:56],
        "one byte less": data[:-1],
        "one byte more": data + b"\0",
        "one report less": data[:-52],
        "one report more": data + bytes(52),
        "begins as a chunk": b"SVC1" + data[4:],
        "version 2": b"SVB2" + data[4:],
    }


def chunks(chunk: Chunk) -> Labelled:
    data = chunk.encode()

    def counted(count: int) -> bytes:
        return data[:40] + count.to_bytes(4, "little") + data[44:]

    return {
        "empty": b"",
        "header cut": data[:43],
        "no reports": counted(0)[:44],
        "one byte less": data[:-1],
        "one byte more": data + b"\0",
        "count too small": counted(chunk.reports - 1),
        "count too large": counted(chunk.reports + 1),
        "count big endian": data[:40] + chunk.reports.to_bytes(4, "big") + data[44:],
        "count 2^32 - 1": counted(2**32 - 1),
        "begins as a batch": b"SVB1" + data[4:],
    }


def sealed_reports(one: bytes, out_of_range: bytes) -> Labelled:
    """Each is counted as undecodable, and the reports beside it are not disturbed."""
    return {
        "zeros": bytes(52),
        "a bit of enc": bytes([one[0] ^ 1]) + one[1:],
        "the bit of enc that X25519 passes over": one[:31] + bytes([one[31] ^ 0x80]) + one[32:],
        "a bit of the report": one[:32] + bytes([one[32] ^ 1]) + one[33:],
        "a bit of the tag": one[:51] + bytes([one[51] ^ 1]),
        "enc of small order": bytes.fromhex(SMALL_ORDER[2]) + one[32:],
        "a direction that is not there": out_of_range,
    }


def public_keys() -> Labelled:
    """Nothing may be sealed to these."""
    return {f"of small order, {n}": bytes.fromhex(key) for n, key in enumerate(SMALL_ORDER)}
