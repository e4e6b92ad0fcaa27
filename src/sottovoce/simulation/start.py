"""The public start of a training: learnt from a table, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.data import Interactions
from sottovoce.data.split import select_entries
from sottovoce.errors import CheckpointError, DataError, ProtocolError, get_reason
from sottovoce.protocol.manifest import decode_start
from sottovoce.simulation.files import ModelFile, encode_model
from sottovoce.simulation.inputs import Labels, parse_rows
from sottovoce.training import Settings
from sottovoce.training.start import (
    IDS_NAME,
    PROVENANCE_NAME,
    START_ALPHA,
    Provenance,
    Start,
    learn_start,
)

Float32 = NDArray[np.float32]

# Suffix of the files that `sottovoce start` writes.
START_SUFFIX = ".safetensors"


def learn_table_start(
    table: Interactions,
    catalogue: Mapping[str, int],
    name: str,
    licence: str,
    factors: int | None = None,
) -> Start:
    """Learn a start for a catalogue from a public table, whose items are matched by their ids.

    Args:
        table: The public table.
        catalogue: The row of each item of the catalogue, by id.
        name: Name of the table, as devices show it.
        licence: Licence of the table, or another reason why it may be used.
        factors: Number of factors; None: the usual one for this number of people.

    Raises:
        DataError: The table has no item of the catalogue, or its times are not in seconds.
    """
    matched = table.match_items(catalogue)
    histories = drop_empty(matched.histories)
    last_date = None
    if matched.timestamps is not None:
        last_date = format_date(int(matched.timestamps.max()), name)
    provenance = Provenance(name, histories.n_users, last_date, licence)
    return Start(learn_start(histories, factors), tuple(catalogue), provenance)


def format_date(timestamp: int, name: str) -> str:
    """Format the date of the last time of a table as YYYY-MM-DD."""
    try:
        return datetime.fromtimestamp(timestamp, UTC).date().isoformat()
    except (OverflowError, OSError, ValueError) as error:
        raise DataError(
            f"{name}: its last time, {timestamp}, is not in the years 1 to 9999: times must be in "
            "Unix seconds (divide milliseconds by 1,000)"
        ) from error


def encode_start(start: Start) -> bytes:
    """Encode a start as a model file, which `FederatedMF.load` can read, too."""
    settings = Settings(factors=start.V.shape[1], alpha=START_ALPHA)
    extra = {PROVENANCE_NAME: asdict(start.provenance), IDS_NAME: start.item_ids}
    return encode_model(ModelFile(start.V, settings, 0, extra))


def read_start(path: Path) -> Start:
    """Read a start that `sottovoce start` has written.

    Raises:
        CheckpointError: The file cannot be read, or is not a start.
    """
    try:
        return decode_start(path.read_bytes())
    except (OSError, CheckpointError, ProtocolError) as error:
        raise CheckpointError(f"{path}: {get_reason(error)}") from error


def make_start(raw: Any, items: Labels, before: int | None = None) -> Float32:
    """Return the item matrix of a start for these items.

    Args:
        raw: The path of a file of `sottovoce start`, or public interactions in a form that
            `FederatedMF.fit` takes.
        items: The items of the training.
        before: Only interactions before this time are used, if the table has times.
    """
    if isinstance(raw, str | Path):
        return read_start(Path(raw)).select_matching_items(items.ids.tolist())
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
