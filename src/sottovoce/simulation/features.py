"""What `FederatedMF` is told beside who touched what: features of the items, and times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from sottovoce.errors import DataError
from sottovoce.evaluation import wide_vectors
from sottovoce.model.tags import Tag, Tags, tags_of
from sottovoce.simulation.lists import matrix_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sottovoce.model import Histories
    from sottovoce.model.tags import Traits
    from sottovoce.model.wide import WideModel
    from sottovoce.protocol import Catalogue

    Matrix = sparse.csr_matrix | sparse.csr_array
    ItemFeatures = Matrix | Catalogue | Sequence[Mapping[str, Any]]
    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]


WANTED = "a Catalogue, a mapping for each item or a sparse matrix"


def tags_from(item_features: ItemFeatures, n_items: int) -> Tags:
    """Columns of a catalogue, of a list of mappings, or of a matrix as it is."""
    known = getattr(item_features, "tags", None)  # of a catalogue, which needs cryptography
    if isinstance(known, Tags):
        tags = known
    elif hasattr(item_features, "tocsr"):
        matrix = matrix_from(item_features, "item_features")
        table = sparse.csr_array(matrix.astype(bool).astype(np.float64))
        names = (Tag("column", str(number)) for number in range(matrix.shape[1]))
        tags = Tags(tuple(names), table)
    else:
        tags = tags_of([_traits(row, given) for row, given in enumerate(_items(item_features))])
    if tags.n_items != n_items:
        raise DataError(f"item_features describe {tags.n_items} items, the model has {n_items}")
    return tags


def _items(item_features: Any) -> list[Any]:
    if hasattr(item_features, "columns") or isinstance(item_features, Mapping):
        raise DataError(
            f"item_features must be {WANTED}; a {type(item_features).__name__} is not taken. "
            "Make a list of its rows, as [{'genre': ['Horror'], 'year': 1979}, ...]"
        )
    try:
        return list(item_features)
    except TypeError as error:
        raise DataError(
            f"item_features must be {WANTED}; got {type(item_features).__name__}"
        ) from error


def _traits(row: int, given: Any) -> Traits:
    """Of one item, as `tags_of` needs them: labels in a tuple, each once, or a finite number."""
    if not isinstance(given, Mapping):
        raise DataError(f"item_features must be {WANTED}; item {row} is {type(given).__name__}")
    traits: dict[str, tuple[str, ...] | float] = {}
    for kind, value in given.items():
        if isinstance(value, list | tuple) and all(isinstance(label, str) for label in value):
            traits[kind] = tuple(dict.fromkeys(value))
        elif isinstance(value, int | float | np.number) and _is_small(value):
            traits[kind] = float(value)
        else:
            raise DataError(
                f"item_features: {kind!r} of item {row} is {value!r}; it must be a list of labels "
                "or a finite number"
            )
    return traits


def _is_small(value: Any) -> bool:
    return bool(abs(value) < 2**53)  # a NaN is not


def times_of(given: Matrix, histories: Histories) -> NDArray[np.int64]:
    """In the order of the histories' entries; one that has no time there is an error."""
    times = matrix_from(given, "times")
    if times.shape != (histories.n_users, histories.n_items):
        raise DataError(
            f"times must have the shape of user_items, {histories.n_users} x {histories.n_items}, "
            f"not {times.shape[0]} x {times.shape[1]}"
        )
    if not histories.n_interactions:
        return np.zeros(0, np.int64)
    at = sparse.csr_array(times, copy=True)
    at.sort_indices()
    users, known = histories.users_of_entries(), at.tocoo()
    places = np.searchsorted(
        known.row.astype(np.int64) * histories.n_items + known.col,
        users.astype(np.int64) * histories.n_items + histories.indices,
    )
    found = np.minimum(places, max(at.nnz - 1, 0))
    if not at.nnz or ((known.row[found] != users) | (known.col[found] != histories.indices)).any():
        raise DataError("times must have an entry wherever user_items has an interaction")
    when = known.data[found]
    if not np.isfinite(when).all():
        raise DataError("times must be finite numbers")
    return np.unique(when, return_inverse=True)[1].astype(np.int64)


def all_scores(model: WideModel, histories: Histories, weights: Float64 | None) -> Float32:
    """Of every item for everybody, N x M; somebody without a history is shown what is popular."""
    X = wide_vectors(model, histories, weights).astype(np.float64)
    lengths = np.diff(histories.indptr)
    return np.array(
        [model.list_scores(x, n_own) for x, n_own in zip(X, lengths, strict=True)], np.float32
    )
