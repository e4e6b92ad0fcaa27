"""How many bytes one client sends and receives, counted on the real encodings."""

from __future__ import annotations

import os
from hashlib import sha256
from itertools import product
from typing import TYPE_CHECKING, Any

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
    derive_public_key,
    encode_items,
    generate_epoch_key,
    seal_reports,
)
from sottovoce.protocol.terms import TRAINING_ID_BYTES
from sottovoce.training import Participation, Settings, make_first_items
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.paper_numbers import BYTES_PER_REPORT, DOWNLOAD_BYTES
from sottovoce_lab.paper.plots import draw_bars
from sottovoce_lab.paper.tables import Experiment, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# The number of factors of the model that is sent.
MODEL_FACTORS = 5
# Bytes of one report before it is sealed.
UNSEALED_REPORT_BYTES = 4
# When the epoch opens, in seconds since 1970, and how long it lasts; the values change no size.
OPENING_TIME = 1_800_000_000
EPOCH_SECONDS = 86_400
BAR_COLOURS = ["#1b6ca8", "#4f9d69", "#cccccc"]
ENCODING_NOTE = (
    "Lengths of the real encodings. Down in every epoch: model file and signed manifest; the "
    "catalogue once. Up: one batch, every report sealed alone (52 bytes each); the paper counts "
    "reports of 4 bytes that nobody has sealed. HTTP's headers are not counted."
)


class Communication(Experiment):
    """Bytes that one client sends and fetches in an epoch, counted on real messages."""

    name = "cost"
    title = "Communication of one client"
    figure_size = (8.0, 3.5)

    def list_cells(self) -> list[Cell]:
        """Return one cell for each size: nothing is random, so one seed is enough."""
        return [
            Cell.from_parameters("cost", Size(None, items), 0, reports=k, factors=MODEL_FACTORS)
            for items, k in self._list_grid()
        ]

    def build_tables(self) -> list[Table]:
        """Build a table with a row for each size and number of reports."""
        results, rows = self._read_results(), []
        for k, sizes in results:
            download = DOWNLOAD_BYTES.get(sizes["items"])
            rows.append(
                (
                    f"{sizes['items']:,}", str(k), "-" if download is None else f"~{download:,}",
                    f"{sizes['model'] + sizes['manifest']:,}", f"{sizes['catalogue_once']:,}",
                    f"~{BYTES_PER_REPORT * k:,}", f"{sizes['reports_unsealed']:,}",
                    f"{sizes['batch_sealed']:,}",
                )
            )  # fmt: skip
        headings = (
            "items", "k", "paper: down", "down", "catalogue, once", "paper: up",
            "reports, unsealed", "up, sealed",
        )  # fmt: skip
        records = [sizes for _, sizes in results]
        title = f"{self.title}: bytes in one epoch"
        return [Table(self.name, title, headings, rows, records, [ENCODING_NOTE])]

    def draw(self, figure: Figure) -> None:
        """Draw a bar for each size and direction."""
        results = self._read_results()
        series = {
            "down": [float(sizes["model"] + sizes["manifest"]) for _, sizes in results],
            "up, sealed": [float(sizes["batch_sealed"]) for _, sizes in results],
            "reports, unsealed": [float(sizes["reports_unsealed"]) for _, sizes in results],
        }
        axes = figure.subplots()
        labels = [f"{sizes['items']:,} items, k {k}" for k, sizes in results]
        draw_bars(axes, labels, series, BAR_COLOURS)
        axes.set(xscale="log", xlabel="bytes of one client in one epoch")
        axes.legend(fontsize=8)

    def _list_grid(self) -> list[tuple[int | None, int]]:
        items = dict.fromkeys((self.grid.items[0], self.grid.items[-1]))
        return list(product(items, self.grid.full_reports))

    def _read_results(self) -> list[tuple[int, dict[str, Any]]]:
        return [
            (k, result)
            for (_, k), cell in zip(self._list_grid(), self.list_cells(), strict=True)
            if (result := self.store.get(cell)) is not None
        ]


def measure_message_bytes(data: Interactions, reports: int, factors: int) -> dict[str, Any]:
    """Encode what one client sends and receives in an epoch, and return the sizes in bytes."""
    settings = Settings.preset("loudest", reports=reports, factors=factors)
    catalogue = Catalogue.from_items(Item(*fields) for fields in data.list_items())
    model = encode_items(make_first_items(settings, len(catalogue.items)))
    signed = _sign_manifest(settings, catalogue, sha256(model).digest())
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
        # The catalogue is fetched once, not in every epoch.
        "catalogue_once": len(catalogue.raw),
        "batch_sealed": len(batch),
        "reports_unsealed": UNSEALED_REPORT_BYTES * reports,
    }


def _sign_manifest(settings: Settings, catalogue: Catalogue, model: bytes) -> SignedManifest:
    """Return a manifest in the middle of a training, signed by a new key."""
    items, participation = len(catalogue.items), Participation(min_clients=1000)
    manifest = Manifest(
        epoch=10,
        terms=Terms.from_settings(os.urandom(TRAINING_ID_BYTES), settings, participation, items),
        items=items,
        alpha=settings.alpha,
        regularization=settings.regularization,
        model=model,
        catalogue=catalogue.hash,
        public_key=derive_public_key(generate_epoch_key()),
        token_key=None,
        next_token_key=None,
        opens=OPENING_TIME,
        closes=OPENING_TIME + EPOCH_SECONDS,
        epochs_left=10,
        reports_behind=50_000 * settings.reports,
        start=None,
    )
    return SignedManifest.make(manifest, Ed25519PrivateKey.generate())
