"""The public start of a training: learnt from a table, or read from a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.data import Interactions
from sottovoce.data.interactions import to_id_array
from sottovoce.data.split import select_entries
from sottovoce.errors import CheckpointError, DataError
from sottovoce.simulation.files import ModelFile, read_model, write_model
from sottovoce.simulation.inputs import Labels, parse_rows
from sottovoce.training import Settings
from sottovoce.training.start import START_ALPHA, learn_start

Float32 = NDArray[np.float32]

# Name of the provenance in the header of the file of a start.
PROVENANCE_NAME = "start"


@dataclass(frozen=True)
class Provenance:
    """Where a start comes from, as every device shows it."""

    name: str
    """Name of the public table."""
    people: int
    """Number of people in the table who touched an item of the catalogue."""
    last_date: str | None
    """Date of the latest interaction (ISO 8601); None if the table has no times."""
    licence: str
    """Licence of the table, or another reason why it may be used."""


@dataclass(frozen=True, eq=False)
class Start:
    """An item matrix learnt from a public table, with the ids of its rows."""

    V: Float32
    item_ids: NDArray[Any]
    provenance: Provenance

    def save(self, path: Path) -> None:
        """Write the start as a model file, which `FederatedMF.load` can read, too."""
        settings = Settings(factors=self.V.shape[1], alpha=START_ALPHA)
        extra = {
            PROVENANCE_NAME: asdict(self.provenance),
            "item_ids": [str(item) for item in self.item_ids.tolist()],
        }
        write_model(path, ModelFile(self.V, settings, 0, extra))

    @classmethod
    def load(cls, path: Path) -> Start:
        """Read a start.

        Raises:
            CheckpointError: The file is not a start that `save` wrote.
        """
        saved = read_model(path)
        try:
            provenance = Provenance(**saved.extra[PROVENANCE_NAME])
            ids = to_id_array(saved.extra["item_ids"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{path}: it is not a start: `sottovoce start` writes one ({error})"
            ) from error
        if len(ids) != len(saved.V):
            raise CheckpointError(
                f"{path}: it has {len(ids)} ids for {len(saved.V)} items: learn it again, with "
                "`sottovoce start`"
            )
        return cls(saved.V, ids, provenance)

    def select_items(self, item_ids: NDArray[Any]) -> Float32:
        """Return the rows of these items; an item that the start does not have gets zeros.

        Raises:
            DataError: The start has none of the items.
        """
        # Ids in a file are text, even if the ids of a data set are integers.
        rows = {str(item): row for row, item in enumerate(self.item_ids.tolist())}
        numbers = np.array([rows.get(str(item), -1) for item in item_ids.tolist()], np.int64)
        is_known = numbers >= 0
        if not self.V[numbers[is_known]].any():
            raise DataError(
                f"the start {self.provenance.name} has none of the {len(item_ids):,} items: "
                "its ids must be those of the catalogue"
            )
        return np.where(is_known[:, None], self.V[numbers], np.float32(0))


def make_start(raw: Any, items: Labels, before: int | None = None) -> Float32:
    """Return the item matrix of a start for these items.

    Args:
        raw: The path of a file of `sottovoce start`, or public interactions in a form that
            `FederatedMF.fit` takes.
        items: The items of the training.
        before: Only interactions before this time are used, if the table has times.
    """
    if isinstance(raw, str | Path):
        return Start.load(Path(raw)).select_items(items.ids)
    if isinstance(raw, Interactions) and before is not None:
        raw = select_before(raw, before)
    histories, *_ = parse_rows(raw, items, "start")
    return learn_start(drop_empty(histories))


def select_before(data: Interactions, before: int) -> Interactions:
    """Return the interactions before a time; all of them if the data has no times."""
    if data.timestamps is None:
        return data
    is_older = data.timestamps < before
    histories = select_entries(data.histories, is_older)
    return replace(data, histories=histories, timestamps=data.timestamps[is_older])


def drop_empty(histories: Histories) -> Histories:
    """Return the histories of the people who touched anything."""
    return histories.take(np.flatnonzero(np.diff(histories.indptr)))
