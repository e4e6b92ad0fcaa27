"""Who touched what: the one input of the paper's equations.

Implicit feedback is binary here (the paper's `r_ui` in {0, 1}), so a set of users is two arrays:
the items of user `u` are `indices[indptr[u]:indptr[u + 1]]`, ascending and without repeats.
A live client is a batch of one user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from scipy import sparse


@dataclass(frozen=True, eq=False)
class Histories:
    """The items that each of N users touched, out of `n_items`.

    >>> h = Histories.from_lists([[2, 0], []], n_items=3)
    >>> h.n_users, h[0].tolist(), h[1].tolist()
    (2, [0, 2], [])
    """

    indptr: NDArray[np.int64]
    """N + 1 offsets into `indices`."""
    indices: NDArray[np.int32]
    """Item numbers, ascending within a user."""
    n_items: int
    """M, the size of the catalogue."""

    @classmethod
    def from_arrays(
        cls, indptr: NDArray[np.integer], indices: NDArray[np.integer], n_items: int
    ) -> Histories:
        """Check and take over the arrays of a CSR matrix; items are sorted and must not repeat."""
        offsets: NDArray[np.int64] = np.ascontiguousarray(indptr, dtype=np.int64)
        if offsets.ndim != 1 or offsets.size == 0 or offsets[0] != 0 or offsets[-1] != len(indices):
            raise DataError("offsets must start at 0 and end at the number of interactions")
        if np.any(np.diff(offsets) < 0):
            raise DataError("offsets must not decrease")
        if len(indices) and (indices.min() < 0 or indices.max() >= n_items):
            raise DataError(
                f"item numbers must be from 0 to {n_items - 1}, "
                f"found {indices.min()}..{indices.max()}"
            )
        items: NDArray[np.int32] = np.ascontiguousarray(indices, dtype=np.int32)
        if not _ascending(offsets, items):
            items = _sort_rows(offsets, items, n_items)
        return cls(offsets, items, n_items)

    @classmethod
    def from_csr(cls, matrix: sparse.csr_matrix | sparse.csr_array) -> Histories:
        """Every stored value above 0 is an interaction, whatever its size."""
        data = np.asarray(matrix.data)
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            raise DataError("the matrix holds a NaN or an infinity")
        if len(data) and data.min() <= 0:
            matrix = matrix.copy()
            matrix.data = (data > 0).astype(np.int8)
            matrix.eliminate_zeros()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return cls.from_arrays(matrix.indptr, matrix.indices, int(matrix.shape[1]))

    @classmethod
    def from_lists(cls, lists: Iterable[Sequence[int]], n_items: int) -> Histories:
        """From one sequence of items for each user; repeats collapse."""
        rows = [np.unique(np.asarray(items, dtype=np.int64)) for items in lists]
        indptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
        flat = np.concatenate(rows) if rows else np.empty(0, np.int64)
        return cls.from_arrays(indptr, flat, n_items)

    @property
    def n_users(self) -> int:
        """N."""
        return len(self.indptr) - 1

    @property
    def n_interactions(self) -> int:
        """How many (user, item) pairs there are."""
        return len(self.indices)

    def __getitem__(self, user: int) -> NDArray[np.int32]:
        return self.indices[self.indptr[user] : self.indptr[user + 1]]

    def some(self, begin: int, end: int) -> Histories:
        """The users from one number up to another; a view where `take` copies."""
        indptr = self.indptr[begin : end + 1]
        return Histories(indptr - indptr[0], self.indices[indptr[0] : indptr[-1]], self.n_items)

    def take(self, users: NDArray[np.integer]) -> Histories:
        """The same catalogue, these users only, in this order."""
        lengths = np.diff(self.indptr)[users]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        position = np.arange(indptr[-1]) + np.repeat(self.indptr[users] - indptr[:-1], lengths)
        return Histories(indptr, self.indices[position], self.n_items)

    def users_of_entries(self) -> NDArray[np.int64]:
        """The user number of every entry of `indices`."""
        return np.repeat(np.arange(self.n_users), np.diff(self.indptr))

    def typical_length(self) -> float:
        """The median number of items, to two digits: all that a plan is told about histories.

        At least one, where there is anybody.
        """
        if not self.n_users:
            return 0.0
        return max(float(f"{np.median(np.diff(self.indptr)):.2g}"), 1.0)

    def popularity(self) -> NDArray[np.int64]:
        """How many users touched each item."""
        return np.bincount(self.indices, minlength=self.n_items)

    def to_csr(self) -> sparse.csr_matrix:
        """The binary matrix, for libraries that want one."""
        from scipy import sparse  # slow to import, and no device needs it

        ones = np.ones(self.n_interactions, np.float32)
        shape = (self.n_users, self.n_items)
        return sparse.csr_matrix((ones, self.indices, self.indptr), shape=shape)


def _ascending(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> bool:
    """Whether items strictly ascend within every user."""
    if len(indices) < 2:
        return True
    grows = indices[1:] > indices[:-1]
    starts = indptr[1:-1]
    starts = starts[(starts > 0) & (starts < len(indices))]
    grows[starts - 1] = True
    return bool(grows.all())


def _sort_rows(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], n_items: int
) -> NDArray[np.int32]:
    from scipy import sparse  # slow to import, and no device needs it: it has one sorted row

    shape = (len(indptr) - 1, n_items)
    matrix = sparse.csr_matrix((np.ones(len(indices), np.int8), indices, indptr), shape=shape)
    matrix = matrix.copy()
    matrix.sort_indices()
    ordered = np.asarray(matrix.indices, dtype=np.int32)
    if not _ascending(indptr, ordered):
        raise DataError("an item repeats within one user; collapse duplicates first")
    return ordered
