"""Model files and checkpoints: safetensors, with everything else as JSON in its header.

A file is replaced in one step, so that an interruption leaves either the old file or the new one.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sottovoce.core import Histories
from sottovoce.core.bounds import is_within_bounds
from sottovoce.errors import CheckpointError
from sottovoce.settings import Setting
from sottovoce.storage.files import write_atomically
from sottovoce.training import Settings
from sottovoce.training.start import HEADER_NAME, ITEM_MATRIX_NAME

# Written into the header; a file of another format is refused.
MODEL_FORMAT = "sottovoce-model-2"
_EPOCHS_DONE = Setting("epochs_done", int, min_value=0)


@dataclass(frozen=True, eq=False)
class ModelFile:
    """The content of a model file."""

    V: NDArray[np.float32]
    settings: Settings
    epochs_done: int
    extra: dict[str, Any] = field(default_factory=dict)
    """Values that JSON can hold. A checkpoint keeps the hash of its data here, and a record of each
    epoch with its metrics."""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Arrays that are too long for JSON, by name."""


def write_model(path: Path, model: ModelFile) -> None:
    """Write a model file in one step."""
    write_atomically(path, encode_model(model))


def encode_model(model: ModelFile) -> bytes:
    """Return the bytes of a model file."""
    about = {
        "settings": model.settings.as_dict(),
        "epochs_done": model.epochs_done,
        "extra": model.extra,
    }
    header = {"format": MODEL_FORMAT, HEADER_NAME: json.dumps(about)}
    arrays = {**model.arrays, ITEM_MATRIX_NAME: np.ascontiguousarray(model.V)}
    return save(arrays, metadata=header)


def read_model(path: Path) -> ModelFile:
    """Read a model file.

    Raises:
        CheckpointError: The file is not a model file of this version, or its item matrix is
            invalid.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            if header.get("format") != MODEL_FORMAT:
                raise CheckpointError(
                    f"{path}: must be a model file of this version ({MODEL_FORMAT})"
                )
            V = file.get_tensor(ITEM_MATRIX_NAME)
            about = json.loads(header[HEADER_NAME])
            names = [name for name in file.keys() if name != ITEM_MATRIX_NAME]  # noqa: SIM118 - not a dict
            model = ModelFile(
                V,
                Settings.from_dict(about["settings"]),
                _EPOCHS_DONE.check_value(about["epochs_done"]),
                {**about["extra"]},
                {name: file.get_tensor(name) for name in names},
            )
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read as a model file: {error}") from error
    # The file may be damaged or forged: only what `write_model` can write is accepted.
    if V.dtype != np.float32 or V.ndim != 2 or V.shape[1] != model.settings.factors:
        raise CheckpointError(f"{path}: the item matrix must be M x F of float32, not {V.shape}")
    if not is_within_bounds(V):
        raise CheckpointError(f"{path}: the item matrix must have entries that devices accept")
    return model


def compute_fingerprint(histories: Histories, *more: NDArray[np.integer]) -> str:
    """Return a hash of training data and further arrays.

    A run continues from a checkpoint only if the hash is the same.
    """
    digest = hashlib.sha256()
    # `indptr` ends with the length of `indices`, and other arrays come after their lengths. So
    # different arrays never give the same bytes.
    digest.update(histories.n_items.to_bytes(8, "little"))
    digest.update(np.ascontiguousarray(histories.indptr).data)
    digest.update(np.ascontiguousarray(histories.indices).data)
    for array in more:
        digest.update(len(array).to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(array, np.int64).data)
    return digest.hexdigest()
