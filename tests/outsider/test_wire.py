"""The independent client reads and writes the bytes of tests/vectors/protocol.json."""

from collections.abc import Callable
from hashlib import sha256

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tests.outsider.strict import Refused, need
from tests.outsider.vectors import KEY, MANIFEST, PROTOCOL, SIGNED, cases
from tests.outsider.wire import (
    HPKE,
    encode_batch,
    open_manifest,
    open_shelf,
    parse_catalogue,
    parse_manifest,
    parse_model,
    patch,
    recipient,
    seal,
)

PRIVATE = X25519PrivateKey.from_private_bytes(bytes.fromhex(PROTOCOL["sealing"]["private_key"]))
INFO = bytes.fromhex(PROTOCOL["sealing"]["info"])
ITEMS = MANIFEST.fields["items"]
FACTORS = MANIFEST.terms["factors"]

READERS: dict[str, Callable[[bytes], object]] = {
    "manifest": lambda data: parse_manifest(data, KEY),
    "catalogue": parse_catalogue,
    "model": lambda data: parse_model(data, ITEMS, FACTORS),
    "signed_manifest": lambda data: open_manifest(data, KEY),
    "signed_shelf": lambda data: open_shelf(data, KEY),
    "public_key": lambda data: recipient(data.hex()),
    "patch": lambda data: apply_patch(data, 0),
}


def apply_patch(data: bytes, base: int) -> None:
    """Require that a patch makes its file from this base."""
    stored = bytes.fromhex(PROTOCOL["patch"]["bases"][base])
    wanted = bytes.fromhex(PROTOCOL["patch"]["file"])
    result = patch(data, {sha256(stored).hexdigest(): stored}, len(wanted))
    need(result == wanted, "another file")


def test_patch_makes_its_file_from_each_base() -> None:
    for base in range(2):
        apply_patch(bytes.fromhex(PROTOCOL["patch"]["bytes"]), base)


def test_smallest_and_largest_numbers_are_exact() -> None:
    ends = PROTOCOL["model_ends"]
    values = parse_model(bytes.fromhex(ends["bytes"]), ITEMS, FACTORS).ravel().tolist()
    assert [value.hex() for value in values] == ends["values"]


def make_cases(verdict: str, *kinds: str) -> list[object]:
    return [pytest.param(kind, *case.values, id=f"{kind}: {case.id}")
            for kind in kinds for case in cases(verdict, kind)]  # fmt: skip


@pytest.mark.parametrize(("kind", "data"), make_cases("accepted", "manifest", "catalogue", "model"))
def test_well_formed_bytes_are_accepted(kind: str, data: bytes) -> None:
    READERS[kind](data)


@pytest.mark.parametrize(("kind", "data"), make_cases("refused", *READERS))
def test_malformed_bytes_are_refused(kind: str, data: bytes) -> None:
    with pytest.raises(Refused):
        READERS[kind](data)


@pytest.mark.parametrize(
    "case", PROTOCOL["accepted"]["signed_manifest"], ids=lambda case: str(case["label"])
)
def test_statements_lead_from_a_trusted_key_to_the_last(case: dict[str, str]) -> None:
    manifest = open_manifest(bytes.fromhex(case["bytes"]), bytes.fromhex(case["trusted"]))
    assert manifest.key.hex() == case["then"]


def test_statements_never_lead_to_an_older_key() -> None:
    signed = bytes.fromhex(PROTOCOL["finished_manifest"]["signed"])
    assert open_manifest(SIGNED, KEY) == open_manifest(SIGNED, MANIFEST.key) == MANIFEST
    with pytest.raises(Refused):
        open_manifest(signed, MANIFEST.key)


def test_sealed_reports_open() -> None:
    key = recipient(PROTOCOL["sealing"]["public_key"])
    for report, sealed in zip(
        PROTOCOL["reports"]["values"], PROTOCOL["sealing"]["sealed"], strict=True
    ):
        own = seal(report, key, MANIFEST.hash)
        assert len(own) == 52
        for data in (own, bytes.fromhex(sealed)):
            assert HPKE.decrypt(data, PRIVATE, info=INFO) == report.to_bytes(4, "little")


@pytest.mark.parametrize("data", cases("refused", "sealed"))
def test_unsealed_bytes_do_not_open(data: bytes) -> None:
    try:
        report = int.from_bytes(HPKE.decrypt(data, PRIVATE, info=INFO), "little")
    except (InvalidTag, ValueError):
        return
    assert report >> 1 >= PROTOCOL["manifest"]["directions"]


def test_batch_equals_the_vectors() -> None:
    sealed = [bytes.fromhex(value) for value in PROTOCOL["sealing"]["sealed"]]
    batch_id = bytes.fromhex(PROTOCOL["batch"]["id"])
    batch = encode_batch(MANIFEST.epoch, MANIFEST.hash, batch_id, sealed)
    assert batch.hex() == PROTOCOL["batch"]["bytes"]
    assert len(batch) == PROTOCOL["manifest"]["batch_size"]
    assert sha256(batch).hexdigest() == PROTOCOL["batch"]["sha256"]
