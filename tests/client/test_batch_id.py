"""A batch's id is 16 bytes of the device's randomness, for this batch alone, and nothing else."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.client.reporting import make_batch
from sottovoce.core import os_words
from sottovoce.protocol import (
    Catalogue,
    Edition,
    Item,
    Manifest,
    SignedManifest,
    encode_items,
    new_epoch_key,
    public_key_of,
)
from sottovoce.protocol.terms import Terms
from sottovoce.training import Participation, Settings, first_items

AT, ITEMS = slice(40, 56), 8
BATCHES = 50


@pytest.fixture(scope="module")
def edition() -> Edition:
    settings = Settings.preset("loudest", epsilon=2.5, reports=2, factors=2)
    V = first_items(settings, ITEMS)
    catalogue = Catalogue.of(Item(f"item-{i}", f"Title {i}") for i in range(ITEMS))
    manifest = Manifest(
        epoch=3,
        terms=Terms.of(bytes(16), settings, Participation(), ITEMS),
        items=ITEMS,
        alpha=1.0,
        regularization=1e-3,
        model=hashlib.sha256(encode_items(V)).digest(),
        catalogue=catalogue.hash,
        catalogue_version=1,
        public_key=public_key_of(new_epoch_key()),
        opens=0,
        closes=1_000,
        epochs_left=0,
        reports_behind=0,
    )
    signed = SignedManifest.make(manifest, Ed25519PrivateKey.generate())
    return Edition(signed, V, catalogue)


def batch(edition: Edition, entropy: Callable[[int], bytes], rows: list[int]) -> bytes:
    return make_batch(edition, rows, 20.0, os_words, entropy).batch


@pytest.mark.parametrize("rows", [[], [1, 4]])
@pytest.mark.parametrize("given", [bytes(16), b"\xff" * 16, bytes(range(100, 116))])
def test_exactly_16_bytes_are_asked_for_and_stand_in_the_batch(
    edition: Edition, rows: list[int], given: bytes
) -> None:
    asked: list[int] = []

    def entropy(size: int) -> bytes:
        asked.append(size)
        return given

    made = batch(edition, entropy, rows)
    assert asked == [16]
    assert made[AT] == given
    assert len(made) == 56 + 52 * 2


def test_every_bit_of_the_id_varies(edition: Edition) -> None:
    """False alarm: 128 bits, each constant over 50 batches with 2^-49: below 1e-12."""
    ids = [int.from_bytes(batch(edition, os.urandom, [1, 4])[AT]) for _ in range(BATCHES)]
    always, ever = ids[0], ids[0]
    for each in ids:
        always, ever = always & each, ever | each
    assert always == 0
    assert ever == 2**128 - 1
