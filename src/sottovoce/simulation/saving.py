"""What a saved `FederatedMF` holds beside its item matrix: its parameters, and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from sottovoce.errors import CheckpointError, SettingsError
from sottovoce.model.tags import Tag, Tags
from sottovoce.simulation.files import ModelFile
from sottovoce.simulation.parameters import plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from sottovoce.simulation.parameters import Parameters
    from sottovoce.training import Settings

PARAMETERS, TAGS = "parameters", "tags"
STARTS, COLUMNS = "tag_starts", "tag_columns"


def as_file(
    V: NDArray[np.float32],
    settings: Settings,
    epochs_done: int,
    parameters: Mapping[str, Any],
    tags: Tags | None,
) -> ModelFile:
    extra: dict[str, Any] = {PARAMETERS: plain(parameters)}
    arrays: dict[str, NDArray[Any]] = {}
    if tags is not None:
        extra[TAGS] = [[tag.kind, tag.name] for tag in tags.names]
        arrays = {
            STARTS: tags.table.indptr.astype(np.int64),
            COLUMNS: tags.table.indices.astype(np.int32),
        }
    return ModelFile(V, settings, epochs_done, extra, arrays)


def tags_saved(saved: ModelFile, path: Path) -> Tags | None:
    """None of a model that had none, and of a checkpoint."""
    if TAGS not in saved.extra:
        return None
    try:
        names = tuple(Tag(str(kind), str(name)) for kind, name in saved.extra[TAGS])
        starts, columns = saved.arrays[STARTS], saved.arrays[COLUMNS]
        shape = (len(saved.V), len(names))
        table = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)
        table.check_format(full_check=True)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: its tags cannot be read: {error}") from error
    return Tags(names, table)


def parameters_saved(saved: ModelFile, path: Path, kind: type[Parameters]) -> dict[str, Any]:
    """Those of the model that was saved; of a checkpoint none."""
    parameters = saved.extra.get(PARAMETERS, {})
    try:
        kind(**parameters)
    except (TypeError, SettingsError) as error:
        raise CheckpointError(f"{path}: its parameters cannot be read: {error}") from error
    return dict(parameters)


def parameters_of(settings: Settings) -> dict[str, Any]:
    """With which a model is trained by these very settings."""
    named, options = settings.as_dict(), dict(settings.options)
    training = {name: value for name, value in named.items() if name not in options}
    return {**training, "options": options or None}
