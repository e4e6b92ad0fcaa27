"""What travels between one client and the proxy in one epoch: the bytes of the real encodings."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.data import Interactions
from sottovoce.protocol import (
    Batch,
    Catalogue,
    Item,
    Manifest,
    SignedManifest,
    Terms,
    encode_items,
    new_epoch_key,
    public_key_of,
    seal_reports,
)
from sottovoce.protocol.terms import TRAINING
from sottovoce.training import Participation, Settings, first_items

UNSEALED = 4
"""Bytes of one report before it is sealed."""
_OPENS, _DAY = 1_800_000_000, 86_400


def count_bytes(data: Interactions, reports: int, factors: int) -> dict[str, Any]:
    """Encode one epoch of this catalogue for one client and measure it.

    HTTP's headers are not counted. The catalogue travels once, not every epoch.
    """
    settings = Settings.preset("loudest", reports=reports, factors=factors)
    catalogue = Catalogue.of(Item(*each) for each in data.described())
    model = encode_items(first_items(settings, len(catalogue.items)))
    signed = _signed(settings, catalogue, sha256(model).digest())
    assert signed.manifest.public_key is not None
    plain = np.zeros(reports, np.uint32)
    sealed = seal_reports(plain, signed.manifest.public_key, signed.hash)
    batch = Batch(signed.manifest.epoch, signed.hash, bytes(16), sealed).encode()
    return {
        "items": len(catalogue.items),
        "reports": reports,
        "factors": factors,
        "model": len(model),
        "manifest": len(signed.encode()),
        "catalogue_once": len(catalogue.raw),
        "batch_sealed": len(batch),
        "reports_unsealed": UNSEALED * reports,
    }


def _signed(settings: Settings, catalogue: Catalogue, model: bytes) -> SignedManifest:
    """A manifest in the middle of a training; keys of this moment, sizes of any."""
    items, asked = len(catalogue.items), Participation(least_clients=1000)
    manifest = Manifest(
        epoch=10,
        terms=Terms.of(os.urandom(TRAINING), settings, asked, items),
        items=items,
        alpha=settings.alpha,
        regularization=settings.regularization,
        model=model,
        catalogue=catalogue.hash,
        catalogue_version=1,
        public_key=public_key_of(new_epoch_key()),
        opens=_OPENS,
        closes=_OPENS + _DAY,
        epochs_left=10,
        reports_behind=50_000 * settings.reports,
    )
    return SignedManifest.make(manifest, Ed25519PrivateKey.generate())
