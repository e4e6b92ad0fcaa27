"""Sparse matrices that scipy saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import sparse

from sottovoce.data import load
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DENSE = np.array([[1.0, 0.0, 4.5, -1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array])
def test_matrices(tmp_path: Path, kind: Callable[[np.ndarray], sparse.csr_matrix]) -> None:
    path = tmp_path / "m.npz"
    sparse.save_npz(path, kind(DENSE))
    data = load(path)
    assert data.user_ids.tolist() == [0, 1, 2]
    assert data.item_ids.tolist() == [0, 1, 2, 3]
    assert [data.histories[user].tolist() for user in range(3)] == [[0, 2], [], [1]]
    assert data.loaded is not None
    assert (data.loaded.rows, data.loaded.not_positive) == (4, 1)


def test_repeated_entries(tmp_path: Path) -> None:
    values, rows, columns = np.array([1, 1, -5]), np.zeros(3, int), np.ones(3, int)
    matrix = sparse.coo_matrix((values, (rows, columns)), shape=(1, 2))
    sparse.save_npz(tmp_path / "m.npz", matrix)
    data = load(tmp_path / "m.npz")
    assert data.histories[0].tolist() == [1]
    assert data.loaded is not None
    assert (data.loaded.not_positive, data.loaded.duplicates) == (1, 1)


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "NaN or an infinity"), (-1.0, "no value above 0")]
)
def test_values(tmp_path: Path, value: float, message: str) -> None:
    path = tmp_path / "m.npz"
    sparse.save_npz(path, sparse.csr_matrix(np.array([[value]])))
    with pytest.raises(DataError, match=message):
        load(path)


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    np.savez(path, a=np.arange(3))
    with pytest.raises(DataError, match=r"m\.npz: .*save_npz"):
        load(path)
    path.write_bytes(b"PK nothing")
    with pytest.raises(DataError, match=r"m\.npz"):
        load(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"m\.npz"):
        load(path)
