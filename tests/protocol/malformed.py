"""Bytes that every implementation must refuse, with a label each: the end of protocol.json.

Nothing here needs a reader to tell `1` from `1.0`, which a browser's `JSON.parse` cannot.
"""

import json
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.protocol import Batch, Chunk, KeyStatement
from sottovoce.protocol.signing import STATEMENT_BYTES, Signed
from sottovoce.protocol.tokens import TokenRequest
from tests.protocol.examples import NEXT_SEED, SMALL_ORDER, changed, nested, signing_key

Labelled = dict[str, bytes]
# Bytes of a patch before the number of slices of its first base.
PATCH_HEADER_BYTES = 40


def of_json(raw: bytes) -> Labelled:
    """Return malformed variants that every JSON object of the protocol has."""
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
        "version 3": changed(raw, version=3),
        "version true": changed(raw, version=True),
        "repeated key": raw[:-1] + b',"version":2}',
        "repeated key, escaped": raw[:-1] + b',"v\\u0065rsion":2}',
        "comma before the end": raw[:-1] + b",}",
    }


MANIFEST_VALUES: dict[str, dict[str, Any]] = {
    "another suite": {"suite": "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM"},
    "epoch 0": {"epoch": 0},
    "epoch 2^32": {"epoch": 2**32},
    "epoch as text": {"epoch": "3"},
    "epoch true": {"epoch": True},
    "epoch 3.5": {"epoch": 3.5},
    "terms null": {"terms": None},
    "terms a list": {"terms": []},
    "items 0": {"items": 0},
    "items beyond the terms": {"items": 9},
    "items 2^24 + 1": {"items": 2**24 + 1},
    "negative alpha": {"alpha": -1},
    "alpha 1025": {"alpha": 1025},
    "regularization 0": {"regularization": 0},
    "regularization 1e-13": {"regularization": 1e-13},
    "regularization 1e7": {"regularization": 1e7},
    "model in capitals": {"model": "AB" * 32},
    "model too short": {"model": "ab" * 31},
    "catalogue null": {"catalogue": None},
    "model patch in capitals": {"model_patch": "AB" * 32},
    "missing model patch": {"model_patch": ...},
    "catalogue patch too short": {"catalogue_patch": "ab" * 31},
    "missing catalogue patch": {"catalogue_patch": ...},
    "public key too long": {"public_key": "ab" * 33},
    "public key false": {"public_key": False},
    "a token key without accounts": {"token_key": "ab" * 32},
    "a next token key without accounts": {"next_token_key": "ab" * 32},
    "missing token key": {"token_key": ...},
    "missing next token key": {"next_token_key": ...},
    "reports without tokens": {"accounts": True},
    "one token key for two epochs": {
        "accounts": True,
        **dict.fromkeys(("token_key", "next_token_key"), "ab" * 32),
    },
    "closes when it opens": {"opens": 1_800_086_400},
    "closes before it opens": {"closes": 1_799_999_999},
    "closes 2^53": {"closes": 2**53},
    "negative epochs left": {"epochs_left": -1},
    "epochs left 2^53": {"epochs_left": 2**53},
    "half an epoch left": {"epochs_left": 0.5},
    "epochs left null": {"epochs_left": None},
    "missing epochs left": {"epochs_left": ...},
    "negative reports behind": {"reports_behind": -1},
    "missing start": {"start": ...},
}
START = {"name": "A", "people": 1, "last_date": None, "licence": "CC0"}
# The ends of each range, and those that do most harm.
CONTROL_CHARACTERS = (
    0x00, 0x0A, 0x1B, 0x1F, 0x7F, 0x9B, 0x9F, 0x2028, 0x2029, 0x202A, 0x202E, 0x2066, 0x2069,
)  # fmt: skip
WRONG_START_VALUES: dict[str, tuple[Any, ...]] = {
    "name": ("", None, 1, ["A"], "x" * 129, "\ud83d"),
    "people": (0, -1, 0.5, None, True, "1", 2**53),
    "last_date": (
        *("", 0, 20260131, "2026-1-31", "20260131", "2026-00-10", "2026-13-01"),
        *("2026-01-00", "2026-01-32", "2026-01-31T00:00", "2026-01-31\n", " 2026-01-31"),
        *("+2026-01-31", "٢٠٢٦-01-31", "yesterday"),
    ),
    "licence": ("", None, {}, "x" * 513),
}
START_VALUES: dict[str, Any] = {
    "a start that is a text": "A",
    "a start that is a list": [START],
    "a start that is true": True,
    "an empty start": {},
    "a start without a licence": {name: START[name] for name in ("name", "people", "last_date")},
    "a start with a key more": START | {"more": 1},
    "a start with a name that fills the manifest": START | {"name": "x" * 14_000},
    **{
        f"{name} of a start is {value!r:.20}": START | {name: value}
        for name, values in WRONG_START_VALUES.items()
        for value in values
    },
    **{
        f"U+{point:04X} in the {name} of a start": START | {name: f"a{chr(point)}b"}
        for point in CONTROL_CHARACTERS
        for name in ("name", "licence")
    },
}
OWN_SET = {"directions_seed": 7, "block": 4, "loud": 6}
TERMS_VALUES: dict[str, dict[str, Any]] = {
    "training too short": {"training": "ab" * 15},
    "training in capitals": {"training": "AB" * 16},
    "unknown mechanism": {"mechanism": "loud"},
    "parameters null": {"parameters": None},
    "parameters of another mechanism": {"mechanism": "coordinate"},
    "missing block": {"parameters": {"directions_seed": 7, "loud": 6}},
    "missing loud": {"parameters": {"directions_seed": 7, "block": 4}},
    "one parameter more": {"parameters": {**OWN_SET, "more": 1}},
    "seed 2^53": {"parameters": {**OWN_SET, "directions_seed": 2**53}},
    "negative seed": {"parameters": {**OWN_SET, "directions_seed": -1}},
    "block 0": {"parameters": {**OWN_SET, "block": 0}},
    "block 3": {"parameters": {**OWN_SET, "block": 3}},
    "block 12": {"parameters": {**OWN_SET, "block": 12}},
    "block 2048": {"parameters": {**OWN_SET, "block": 2048}},
    "block 2^32": {"parameters": {**OWN_SET, "block": 2**32}},
    "negative block": {"parameters": {**OWN_SET, "block": -4}},
    "block true": {"parameters": {**OWN_SET, "block": True}},
    "block as text": {"parameters": {**OWN_SET, "block": "4"}},
    "loud 0": {"parameters": {**OWN_SET, "loud": 0}},
    "loud true": {"parameters": {**OWN_SET, "loud": True}},
    "more loud directions than half": {
        "parameters": {**OWN_SET, "loud": 17},
        "loud_fraction": 0.5,
    },
    "fewer loud directions than the fraction": {"parameters": {**OWN_SET, "loud": 5}},
    "a large part of few loud directions missing": {
        "parameters": {**OWN_SET, "loud": 1},
        "loud_fraction": 1.9 / 32,
    },
    "more loud directions than the fraction": {"parameters": {**OWN_SET, "loud": 7}},
    "loud directions 1% above the fraction": {"loud_fraction": 0.1875 / 1.01},
    "loud directions a bit above the fraction": {"loud_fraction": 0.18749999999999997},
    "a block with which they are more than the fraction": {"parameters": {**OWN_SET, "block": 1}},
    "epsilon 0": {"epsilon": 0},
    "epsilon 1e-7": {"epsilon": 1e-7},
    "epsilon 41": {"epsilon": 41},
    "epsilon as text": {"epsilon": "2.5"},
    "epsilon null": {"epsilon": None},
    "loud fraction 0.6": {"loud_fraction": 0.6},
    "reports 0": {"reports": 0},
    "reports 10001": {"reports": 10_001},
    "no epochs": {"epochs": 0},
    "share 0": {"share": 0},
    "share 1.1": {"share": 1.1},
    "least clients 0": {"min_clients": 0},
    "least clients 10^7 + 1": {"min_clients": 10**7 + 1},
    "dummies -1": {"dummies": -1},
    "dummies 10^7 + 1": {"dummies": 10**7 + 1},
    "a negative hold": {"hold": -1},
    "factors 0": {"factors": 0},
    "factors 257": {"factors": 257},
    "most items 2^24 + 1": {"max_items": 2**24 + 1},
    "accounts 1": {"accounts": 1},
    "trial 1": {"trial": 1},
    "trial null": {"trial": None},
    "missing share": {"share": ...},
}
TOO_LARGE: dict[str, dict[str, Any]] = {
    "a model of too many entries": {"items": 2**24, "max_items": 2**24, "factors": 5},
    "a model of too many products": {"items": 2**17, "max_items": 2**17, "factors": 256},
}


def manifests(raw: bytes) -> Labelled:
    def swapped(old: bytes, new: bytes) -> bytes:
        assert raw.count(old) == 1
        return raw.replace(old, new)

    values = MANIFEST_VALUES | TERMS_VALUES | TOO_LARGE
    values |= {label: {"start": start} for label, start in START_VALUES.items()}
    return (
        of_json(raw)
        | {label: changed(raw, **change) for label, change in values.items()}
        | {
            "epsilon NaN": swapped(b'"epsilon":2.5', b'"epsilon":NaN'),
            "epsilon Infinity": swapped(b'"epsilon":2.5', b'"epsilon":Infinity'),
            "epsilon 1e400": swapped(b'"epsilon":2.5', b'"epsilon":1e400'),
            "repeated epsilon": swapped(b'"epsilon":2.5', b'"epsilon":2.5,"epsilon":9'),
            "a key more in the terms": swapped(b'"epsilon":2.5', b'"epsilon":2.5,"more":9'),
            "longer than 16384 bytes": raw + b" " * (16_385 - len(raw)),
        }
    )


def shelves(raw: bytes) -> Labelled:
    values: dict[str, dict[str, Any]] = {
        "version 1": {"version": 1},
        "a negative second": {"published": -1},
        "a second beyond 2^53": {"published": 2**53},
        "half a second": {"published": 0.5},
        "a short hash": {"catalogue": "00"},
        "no hash": {"catalogue": None},
        "no catalogue": {"catalogue": ...},
        "a short hash of a patch": {"patch": "00"},
        "a patch that is false": {"patch": False},
        "no patch": {"patch": ...},
        "a key more": {"more": 1},
    }
    created = {label: changed(raw, **change) for label, change in values.items()}
    return of_json(raw) | created | {"longer than 1024 bytes": raw + b" " * (1_025 - len(raw))}


def signed_by(signed: Signed, broken: bytes) -> Labelled:
    """Return malformed variants of a signed file with one key statement; `broken` is no content."""
    data, raw, magic, label = signed.encode(), signed.raw, signed.magic, signed.label
    before, signature = data[: 5 + STATEMENT_BYTES], 5 + STATEMENT_BYTES
    key, old, other = signing_key(NEXT_SEED), signing_key(), signing_key(bytes(32))
    named = key.public_key().public_bytes_raw()
    elsewhere = KeyStatement.make(old, other.public_key().public_bytes_raw())
    forged = KeyStatement.make(other, named)

    def flipped(at: int, bit: int = 1) -> bytes:
        return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]

    def by(signer: Ed25519PrivateKey, content: bytes, start: bytes = before) -> bytes:
        return start + signer.sign(label + content) + content

    def after(statement: KeyStatement) -> bytes:
        return magic + b"\x01" + statement.key + statement.signature

    return {
        "empty": b"",
        "magic alone": data[:4],
        "another magic": magic[:3] + b"1" + data[4:],
        "the magic of another kind": (b"SVS2" if magic == b"SVM2" else b"SVM2") + data[4:],
        "signature alone": data[: signature + 64],
        "33 statements": magic + b"\x21" + data[5:signature] * 33 + data[signature:],
        "a statement that is not there": magic + b"\x02" + data[5:],
        "a statement that is not counted": magic + b"\x00" + data[5:],
        "a bit of the next key": flipped(5),
        "a bit of the statement's signature": flipped(5 + 32),
        "a statement by another key": by(key, raw, after(forged)),
        "a statement that leads elsewhere": by(key, raw, after(elsewhere)),
        "the same statement twice": by(key, raw, magic + b"\x02" + data[5:signature] * 2),
        "without its statement": by(key, raw, magic + b"\x00"),
        "signed by the old key": by(old, raw),
        "signed by another key": by(other, raw),
        "longer than it may be": data
        + b" " * (69 + 96 * 32 + signed.max_content_bytes + 1 - len(data)),
        "first bit of the signature": flipped(signature),
        "last bit of the signature": flipped(signature + 63, 0x80),
        "a bit of what is signed": flipped(signature + 80),
        "a space after it": data + b" ",
        "signature of zeros": before + bytes(64) + raw,
        "no domain separation": before + key.sign(raw) + raw,
        "another domain": before + key.sign(label.replace(b"2", b"1") + raw) + raw,
        "signed, but wrong": by(key, broken),
        "signed, but no JSON": by(key, b"manifest"),
    }


def _with(character: str) -> dict[str, dict[str, Any]]:
    return {
        "id": {"id": f"a{character}b"},
        "title": {"title": f"A{character}B"},
        "label": {"tags": {"genre": [f"a{character}b"]}},
    }


def catalogues(raw: bytes) -> Labelled:
    one = {"id": "a", "title": "A", "tags": {}}

    def tagged(**tags: Any) -> list[Any]:
        return [one | {"tags": tags}]

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
        **{
            f"U+{point:04X} in the {place}": [one | content]
            for point in CONTROL_CHARACTERS
            for place, content in _with(chr(point)).items()
        },
        "tags as text": [one | {"tags": "silent"}],
        "tags as a list": [one | {"tags": ["silent"]}],
        "tags null": [one | {"tags": None}],
        "an empty kind": [one | {"tags": {"": 1}}],
        "a kind in capitals": tagged(Genre=["silent"]),
        "a kind with a space": [one | {"tags": {"a b": ["silent"]}}],
        "a kind that begins with a digit": [one | {"tags": {"1": ["silent"]}}],
        "a kind of 33 letters": [one | {"tags": {"x" * 33: ["silent"]}}],
        "a kind with a line end": [one | {"tags": {"genre\n": ["silent"]}}],
        "a label as text": tagged(genre="silent"),
        "an empty label": tagged(genre=[""]),
        "a label that is null": tagged(genre=[None]),
        "a label that is a number": tagged(year=[1927]),
        "a label of 513 characters": tagged(genre=["x" * 513]),
        "the same label twice": tagged(genre=["silent", "long", "silent"]),
        "a tag that is null": tagged(year=None),
        "a tag that is true": tagged(year=True),
        "a tag that is an object": tagged(year={}),
        "65 labels": tagged(genre=[f"x{n}" for n in range(40)], brand=[f"x{n}" for n in range(25)]),
        "33 kinds": [
            one | {"tags": {f"k{n}": n for n in range(20)}},
            one | {"id": "b", "tags": {f"k{n}": n for n in range(13, 33)}},
        ],
        "a number below 0": tagged(year=-1),
        "a number above 2^53 - 1": tagged(year=2**53),
        "labels for one item, a number for another": [
            one | {"tags": {"year": 1927}},
            one | {"id": "b", "tags": {"year": ["1927"]}},
        ],
        "labels, none of them, for one item, a number for another": [
            one | {"tags": {"year": 1927}},
            one | {"id": "b", "tags": {"year": []}},
        ],
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
        "float32": with_tensor(dtype="F32"),
        "float16": with_tensor(dtype="F16"),
        "transposed": with_tensor(shape=tensor["shape"][::-1]),
        "flat": with_tensor(shape=[tensor["shape"][0] * tensor["shape"][1]]),
        "other offsets": with_tensor(data_offsets=[2, 22]),
        "unknown key": with_tensor(more=1),
        "NaN": data[:-2] + bytes.fromhex("c07f"),
        "a signalling NaN": data[:-2] + bytes.fromhex("81ff"),
        "infinity": data[:-2] + bytes.fromhex("807f"),
        "minus infinity": data[:-2] + bytes.fromhex("80ff"),
        "just above 2^20": data[:-2] + bytes.fromhex("8149"),
        "just below 2^-60": data[:-2] + bytes.fromhex("7f21"),
        "subnormal": data[:-2] + bytes.fromhex("0100"),
    }


def patches(data: bytes, base: bytes) -> Labelled:
    """Return variants of a patch that do not give its file, if `base` is its first base."""
    first = PATCH_HEADER_BYTES
    literals = first + 4 + 8 * int.from_bytes(data[first : first + 4], "little")

    def with_number(at: int, number: int) -> bytes:
        return data[:at] + number.to_bytes(4, "little") + data[at + 4 :]

    def with_slices(*slices: tuple[int, int]) -> bytes:
        numbers = b"".join(n.to_bytes(4, "little") for pair in slices for n in pair)
        head = data[:4] + (1).to_bytes(4, "little") + data[8:first]
        return head + len(slices).to_bytes(4, "little") + numbers

    return {
        "empty": b"",
        "magic alone": data[:4],
        "another magic": b"SVP1" + data[4:],
        "no base": data[:4] + bytes(4) + data[8:],
        "more bases than there are": with_number(4, 2**32 - 1),
        "another base": data[:8] + bytes(32) + data[40:],
        "more slices than there are": with_number(first, 2**32 - 1),
        "cut in the first base": data[: first - 1],
        "cut in the slices": data[: first + 11],
        "without its literals": data[:literals],
        "a slice that begins beyond the end": with_slices((2**32 - 1, 1)),
        "a slice that ends beyond the end": with_slices((0, len(base) + 1)),
        "an offset and a length that exceed 32 bits together": with_slices((2**32 - 1, 2**32 - 1)),
        "slices of more than a file may have": with_slices(*[(0, len(base))] * 200),
        "slices that make another file": with_slices((0, len(base))),
        "no slice": with_slices(),
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
        "begins as a chunk": b"SVC2" + data[4:],
        "version 1": b"SVB1" + data[4:],
    }


def batches_with_tokens(batch: Batch) -> Labelled:
    without = replace(batch, output=b"").encode()
    return {**batches(batch), "no output": without, "half of it": without[:56] + bytes(32)}


def token_requests(request: TokenRequest) -> Labelled:
    data = request.encode()
    return {
        "empty": b"",
        "no element": data[:-32],
        "one byte less": data[:-1],
        "one byte more": data + b"\0",
        "begins as a batch": b"SVB2" + data[4:],
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
        "begins as a batch": b"SVB2" + data[4:],
    }


def sealed_reports(one: bytes, out_of_range: bytes) -> Labelled:
    """Return sealed reports that count as undecodable and do not affect their neighbours."""
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
    """Return public keys to which nothing may be sealed."""
    return {f"of small order, {n}": bytes.fromhex(key) for n, key in enumerate(SMALL_ORDER)}
