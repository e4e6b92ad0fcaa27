"""`tests/vectors/protocol.json`: one epoch's bytes, which every implementation must read alike.

Everything but the sealed reports follows from the constants in `examples.py`. Sealing draws a fresh
key for every report, so those bytes were made once and are kept: an implementation opens them, and
proves its own sealing by a round trip. The file changes only when the protocol does. To write it
again, with the sealed reports kept as long as they open: `python -m tests.protocol.test_vectors`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.core import Histories, solve_user_vectors, sum_signs
from sottovoce.core.bounds import round_items
from sottovoce.errors import ProtocolError
from sottovoce.protocol import (
    Batch,
    Catalogue,
    Chunk,
    Item,
    KeyStatement,
    Manifest,
    Shelf,
    SignedManifest,
    SignedShelf,
    batch_size,
    decode_items,
    derive_public_key,
    encode_items,
    make_patch,
    open_reports,
    seal_reports,
)
from sottovoce.protocol.patch import Patch
from sottovoce.protocol.sealing import HPKE_INFO_PREFIX
from sottovoce.protocol.tokens import (
    TOKEN_INPUT_PREFIX,
    Attestation,
    Issuer,
    TokenRequest,
    blind_token,
)
from tests.cases import format_cases
from tests.protocol import malformed, wellformed
from tests.protocol.examples import (
    EPOCH_KEY,
    NEXT_SEED,
    SIGNING_SEED,
    as_json,
    catalogue,
    changed,
    manifest,
    refuses,
    signing_key,
)

VECTOR_FILE = Path(__file__).parents[1] / "vectors" / "protocol.json"

V = round_items(np.array([[0.5, -0.25], [0.125, 0.75], [-0.5, 0.0625], [0.1, 0.2], [0.0, -1.0]]))

TOUCHED_ROWS = [1, 3]
RANDOM_WORDS = np.random.default_rng(6).integers(0, 2**64, (1, 5, 4), dtype=np.uint64)
BATCH_ID = bytes(range(200, 216))
SHUFFLED_ORDER = [2, 0, 3, 1]
TOKEN_SEED = bytes(range(1, 33))
BACKEND_SEED = bytes(range(100, 132))
PSEUDONYM_32 = bytes(range(50, 82))
EXPIRY_TIME = 1_800_000_000
# Any blinded element: this one is from RFC 9497, A.1.2.
BLINDED_ELEMENT = bytes.fromhex("863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945")


def make_versions() -> list[bytes]:
    """Return versions of a catalogue, the latest first: what a patch starts from and leads to."""
    titles = [f"Film {number}" for number in range(24)]
    versions = [titles, [*titles[:3], "Häxan", *titles[4:]]]
    versions += [[*versions[1][:8], *versions[1][9:], "羅生門"]]
    return [
        Catalogue.from_items(Item(f"id-{title}", title, {"year": 1927}) for title in version).raw
        for version in reversed(versions)
    ]


@cache
def make_example_patch() -> bytes:
    target, *bases = make_versions()
    patch = make_patch(target, bases)
    assert patch is not None
    return patch


@cache
def signed() -> SignedManifest:
    """Sign the manifest with the key that the first key has named."""
    model = sha256(encode_items(V)).digest()
    patch = sha256(make_example_patch()).digest()
    one = manifest(model=model, catalogue=catalogue().hash, catalogue_patch=patch)
    key = signing_key(NEXT_SEED)
    statement = KeyStatement.make(signing_key(), key.public_key().public_bytes_raw())
    return SignedManifest.make(one, key, (statement,))


@cache
def sign_shelf() -> SignedShelf:
    """Sign the shelf like the manifest."""
    patch = sha256(make_example_patch()).digest()
    one = Shelf(signed().manifest.opens + 60, catalogue().hash, patch)
    return SignedShelf.make(one, signing_key(NEXT_SEED), signed().statements)


def make_history_reports() -> np.ndarray:
    """Return the reports of this history for these random words."""
    one = signed().manifest
    h = Histories.from_lists([TOUCHED_ROWS], one.items)
    X = solve_user_vectors(V, h, alpha=one.alpha, regularization=one.regularization)
    return one.build().reports(V, X, h, RANDOM_WORDS).ravel()


def seal_once() -> dict[str, Any]:
    """Seal the reports: the part of the file that differs in every run."""
    beyond = np.array([2 * signed().manifest.build().n_directions], np.uint32)
    public, name = derive_public_key(EPOCH_KEY), signed().hash
    sealed = seal_reports(make_history_reports(), public, name)
    return {
        "sealed": [sealed[at : at + 52].hex() for at in range(0, len(sealed), 52)],
        "out_of_range": seal_reports(beyond, public, name).hex(),
    }


def describe_token() -> dict[str, Any]:
    """Return the part of a token that is the same in every run."""
    issuer, asked = Issuer(TOKEN_SEED), request()
    element, finalize = blind_token(BATCH_ID)
    created = finalize(issuer.evaluate(element), issuer.public_key)
    return {
        "key": TOKEN_SEED.hex(),
        "public_key": issuer.public_key.hex(),
        "input": (TOKEN_INPUT_PREFIX + BATCH_ID).hex(),
        "output": created.output.hex(),
        "attestation": {
            "signing_key": BACKEND_SEED.hex(),
            "verification_key": signing_key(BACKEND_SEED).public_key().public_bytes_raw().hex(),
            "pseudonym": PSEUDONYM_32.hex(),
            "expiry": EXPIRY_TIME,
            "bytes": asked.attestation.encode().hex(),
        },
        "element": BLINDED_ELEMENT.hex(),
        "epoch": asked.epoch,
        "request": asked.encode().hex(),
    }


def request() -> TokenRequest:
    service = signing_key().public_key().public_bytes_raw()
    attestation = Attestation.make(signing_key(BACKEND_SEED), service, PSEUDONYM_32, EXPIRY_TIME)
    return TokenRequest(signed().manifest.epoch + 1, attestation, BLINDED_ELEMENT)


def to_hex_cases(cases: dict[str, bytes]) -> list[dict[str, str]]:
    return [{"label": label, "bytes": data.hex()} for label, data in cases.items()]


def make(frozen: dict[str, Any]) -> dict[str, Any]:
    """Return the whole file, given the sealed reports."""
    one, name = signed().manifest, signed().hash
    sealed = [bytes.fromhex(report) for report in frozen["sealed"]]
    batch = Batch(one.epoch, name, BATCH_ID, b"".join(sealed))
    spending = replace(batch, output=bytes.fromhex(describe_token()["output"]))
    chunk = Chunk(one.epoch, name, b"".join(sealed[number] for number in SHUFFLED_ORDER))
    finished = SignedManifest.make(manifest(public_key=None, epochs_left=0), signing_key())
    reports = make_history_reports()
    return {
        "signing_key": SIGNING_SEED.hex(),
        "verification_key": signing_key().public_key().public_bytes_raw().hex(),
        "manifest": {
            "signed": signed().encode().hex(),
            "next_key": signed().key.hex(),
            "statement": signed().statements[0].signature.hex(),
            "signature": signed().signature.hex(),
            "text": signed().raw.decode(),
            "hash": name.hex(),
            "fields": json.loads(one.encode()),
            "directions": one.build().n_directions,
            "batch_size": batch_size(one.terms.reports),
        },
        "shelf": {
            "signed": sign_shelf().encode().hex(),
            "text": sign_shelf().raw.decode(),
            "hash": sign_shelf().hash.hex(),
        },
        "finished_manifest": {"signed": finished.encode().hex(), "hash": finished.hash.hex()},
        "model": {
            "values": [float(value).hex() for value in V.ravel()],
            "bytes": encode_items(V).hex(),
            "sha256": signed().manifest.model.hex(),
        },
        # Subnormal and largest numbers, which a reader might round.
        "model_ends": {
            "values": [float(value).hex() for value in wellformed.make_end_items().ravel()],
            "bytes": encode_items(wellformed.make_end_items()).hex(),
        },
        "catalogue": {
            "items": [[item.id, item.title, as_json(item.tags)] for item in catalogue().items],
            "bytes": catalogue().raw.hex(),
            "sha256": catalogue().hash.hex(),
        },
        "patch": {
            "bases": [base.hex() for base in make_versions()[1:]],
            "file": make_versions()[0].hex(),
            "bytes": make_example_patch().hex(),
            "sha256": sha256(make_example_patch()).hexdigest(),
        },
        "reports": {
            "history": TOUCHED_ROWS,
            "words": [f"{int(word):016x}" for word in RANDOM_WORDS.ravel()],
            "values": reports.tolist(),
            "bytes": reports.astype("<u4").tobytes().hex(),
            "sums": sum_signs(reports, one.build().n_directions).tolist(),
        },
        "sealing": {
            "private_key": EPOCH_KEY.hex(),
            "public_key": derive_public_key(EPOCH_KEY).hex(),
            "info": (HPKE_INFO_PREFIX + name).hex(),
            **frozen,
        },
        "batch": {
            "id": BATCH_ID.hex(),
            "bytes": batch.encode().hex(),
            "sha256": sha256(batch.encode()).hexdigest(),
        },
        "token": describe_token(),
        "batch_with_token": {"bytes": spending.encode().hex()},
        "chunk": {"order": SHUFFLED_ORDER, "bytes": chunk.encode().hex(), "name": chunk.name},
        "accepted": {
            "manifest": to_hex_cases(wellformed.manifests(signed().raw)),
            "signed_manifest": wellformed.signed_manifests(),
            "catalogue": to_hex_cases(wellformed.catalogues()),
            "model": to_hex_cases(wellformed.models(encode_items(V))),
        },
        "refused": {
            "manifest": to_hex_cases(malformed.manifests(signed().raw)),
            "signed_manifest": to_hex_cases(
                malformed.signed_by(signed(), changed(signed().raw, epoch=0))
            ),
            "shelf": to_hex_cases(malformed.shelves(sign_shelf().raw)),
            "signed_shelf": to_hex_cases(
                malformed.signed_by(sign_shelf(), changed(sign_shelf().raw, published=-1))
            ),
            "catalogue": to_hex_cases(malformed.catalogues(catalogue().raw)),
            "model": to_hex_cases(malformed.models(encode_items(V))),
            "patch": to_hex_cases(malformed.patches(make_example_patch(), make_versions()[1])),
            "batch": to_hex_cases(malformed.batches(batch)),
            "batch_with_token": to_hex_cases(malformed.batches_with_tokens(spending)),
            "token_request": to_hex_cases(malformed.token_requests(request())),
            "chunk": to_hex_cases(malformed.chunks(chunk)),
            "sealed": to_hex_cases(
                malformed.sealed_reports(sealed[0], bytes.fromhex(frozen["out_of_range"]))
            ),
            "public_key": to_hex_cases(malformed.public_keys()),
        },
    }


def find_frozen(vectors: dict[str, Any]) -> dict[str, Any]:
    return {name: vectors["sealing"][name] for name in ("sealed", "out_of_range")}


@cache
def make_vectors() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(VECTOR_FILE.read_text())
    return content


def of(*path: str) -> bytes:
    value: Any = make_vectors()
    for name in path:
        value = value[name]
    return bytes.fromhex(value)


def apply_patch(data: bytes) -> None:
    """Apply a patch to its first base; raise a `ProtocolError` if that does not give the file."""
    expected = of("patch", "file")
    base = bytes.fromhex(make_vectors()["patch"]["bases"][0])
    if Patch.decode(data).apply(base, len(expected)) != expected:
        raise ProtocolError("another file")


def test_patch_gives_the_file_from_each_base() -> None:
    case, patch = make_vectors()["patch"], Patch.decode(of("patch", "bytes"))
    assert len(case["bases"]) == 2
    for base in map(bytes.fromhex, case["bases"]):
        assert patch.apply(base, len(of("patch", "file"))) == of("patch", "file")


def test_vectors_are_reproduced_except_sealed_reports() -> None:
    assert make(find_frozen(make_vectors())) == make_vectors()


def test_sealed_reports_of_the_vectors_open() -> None:
    case = make_vectors()["sealing"]
    sealed = b"".join(map(bytes.fromhex, case["sealed"]))
    directions = make_vectors()["manifest"]["directions"]
    result = open_reports(sealed, of("sealing", "private_key"), of("manifest", "hash"), directions)
    assert result.undecodable == 0
    assert (
        result.reports.tolist()
        == make_vectors()["reports"]["values"]
        == make_history_reports().tolist()
    )
    assert result.reports.astype("<u4").tobytes() == of("reports", "bytes")
    assert sum_signs(result.reports, directions).tolist() == make_vectors()["reports"]["sums"]
    assert derive_public_key(of("sealing", "private_key")) == of("sealing", "public_key")


DECODERS_BY_KIND: dict[str, Callable[[bytes], object]] = {
    "manifest": Manifest.decode,
    "signed_manifest": lambda data: SignedManifest.open(data, of("verification_key")),
    "shelf": Shelf.decode,
    "signed_shelf": lambda data: SignedShelf.open(data, of("verification_key")),
    "catalogue": Catalogue.decode,
    "model": lambda data: decode_items(data, *V.shape),
    "patch": apply_patch,
    "batch": lambda data: Batch.decode(data, manifest().terms.reports),
    "batch_with_token": lambda data: Batch.decode(data, manifest().terms.reports, accounts=True),
    "token_request": TokenRequest.decode,
    "chunk": Chunk.decode,
    "public_key": lambda data: seal_reports(np.zeros(1, np.uint32), data, of("manifest", "hash")),
}


@pytest.mark.parametrize("kind", ["manifest", "catalogue", "model"])
def test_well_formed_bytes_are_accepted(kind: str) -> None:
    cases = make_vectors()["accepted"][kind]
    assert cases
    for case in cases:
        assert not refuses(DECODERS_BY_KIND[kind], bytes.fromhex(case["bytes"])), case["label"]


def test_shelf_is_signed_by_a_successor_of_the_pinned_key() -> None:
    opened = SignedShelf.open(of("shelf", "signed"), of("verification_key"))
    assert (opened.key, opened.hash) == (signed().key, of("shelf", "hash"))
    assert opened.shelf.catalogue == of("catalogue", "sha256")


def test_key_statements_lead_to_the_last_key() -> None:
    for case in make_vectors()["accepted"]["signed_manifest"]:
        trusted = bytes.fromhex(case["trusted"])
        opened = SignedManifest.open(bytes.fromhex(case["bytes"]), trusted)
        assert opened.key.hex() == case["then"], case["label"]


@pytest.mark.parametrize("kind", DECODERS_BY_KIND)
def test_malformed_bytes_are_refused(kind: str) -> None:
    cases = make_vectors()["refused"][kind]
    assert cases
    for case in cases:
        assert refuses(DECODERS_BY_KIND[kind], bytes.fromhex(case["bytes"])), case["label"]


def test_unopened_reports_are_counted() -> None:
    good, key, name = (
        bytes.fromhex(make_vectors()["sealing"]["sealed"][0]),
        EPOCH_KEY,
        signed().hash,
    )
    for case in make_vectors()["refused"]["sealed"]:
        result = open_reports(bytes.fromhex(case["bytes"]) + good, key, name, 16)
        assert result.reports.tolist() == make_vectors()["reports"]["values"][:1], case["label"]
        assert result.undecodable == 1, case["label"]


def test_documentation_quotes_these_vectors() -> None:
    """Check that all bytes in docs/protocol.md are in the file."""
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
    mechanism: Any = signed().manifest.build()
    expected = VECTOR_FILE.read_text() + str(mechanism.blanket_below)
    quoted = re.findall(r"\b[0-9a-f]{16,}\b", page)
    assert len(quoted) > 8
    assert [run for run in quoted if run not in expected] == []


def find_kept_reports() -> dict[str, Any]:
    """Return the sealed reports of the current file if they still belong to its manifest."""
    if not VECTOR_FILE.exists():
        return seal_once()
    frozen = find_frozen(json.loads(VECTOR_FILE.read_text()))
    sealed = b"".join(map(bytes.fromhex, frozen["sealed"]))
    result = open_reports(sealed, EPOCH_KEY, signed().hash, 16)
    return frozen if result.reports.tolist() == make_history_reports().tolist() else seal_once()


def main() -> None:
    VECTOR_FILE.write_text(format_cases(make(find_kept_reports())) + "\n")


if __name__ == "__main__":
    main()
