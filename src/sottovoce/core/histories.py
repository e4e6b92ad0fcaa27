"""The items that users touched: the input of all equations, as a sparse binary matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import DataError

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, eq=False)
class Histories:
    """The items that each of N users touched, out of `n_items`.

    Feedback is binary (the paper's `r_ui` in {0, 1}), so two arrays hold it: the items of user `u`
    are `indices[indptr[u]:indptr[u + 1]]`. A live client has one user.

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

    def __repr__(self) -> str:
        return (
            f"Histories({self.n_users:,} users x {self.n_items:,} items, "
            f"{self.n_interactions:,} interactions)"
        )

    @classmethod
    def from_arrays(
        cls, indptr: NDArray[np.integer], indices: NDArray[np.integer], n_items: int
    ) -> Histories:
        """Make histories of the arrays of a CSR matrix, after checking them and sorting the items.

        Raises:
            DataError: Offsets or item numbers are invalid, or an item repeats within a user.
        """
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
        if not _is_ascending(offsets, items):
            users = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
            items = items[np.lexsort((items, users))]
            # Items that are still not strictly ascending are equal.
            if not _is_ascending(offsets, items):
                raise DataError("an item must not repeat within one user; collapse duplicates")
        return cls(offsets, items, n_items)

    @classmethod
    def from_csr(cls, matrix: sparse.csr_matrix | sparse.csr_array) -> Histories:
        """Convert a sparse matrix; every stored value above 0 is one interaction."""
        data = np.asarray(matrix.data)
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            raise DataError("the matrix must hold finite numbers")
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
        """Convert one sequence of items for each user; repeated items count once."""
        rows = [np.unique(np.asarray(items, dtype=np.int64)) for items in lists]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        indices = np.concatenate(rows) if rows else np.empty(0, np.int64)
        return cls.from_arrays(indptr, indices, n_items)

    @property
    def n_users(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_interactions(self) -> int:
        return len(self.indices)

    def __getitem__(self, user: int) -> NDArray[np.int32]:
        return self.indices[self.indptr[user] : self.indptr[user + 1]]

    def slice(self, begin: int, end: int) -> Histories:
        """Return a view of the users from `begin` to `end - 1`; `take` returns a copy."""
        indptr = self.indptr[begin : end + 1]
        return Histories(indptr - indptr[0], self.indices[indptr[0] : indptr[-1]], self.n_items)

    def take(self, users: NDArray[np.integer]) -> Histories:
        """Return a copy with only these users, in this order."""
        lengths = np.diff(self.indptr)[users]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[users] - indptr[:-1], lengths)
        return Histories(indptr, self.indices[entries], self.n_items)

    def users_of_entries(self) -> NDArray[np.int64]:
        """Return the user number of every entry of `indices`."""
        return np.repeat(np.arange(self.n_users), np.diff(self.indptr))

    def typical_length(self) -> float:
        """Return the median length of a history, rounded to two digits and at least 1.

        Without users, it is 0. The planner uses no other number about histories.
        """
        if not self.n_users:
            return 0.0
        return max(float(f"{np.median(np.diff(self.indptr)):.2g}"), 1.0)

    def popularity(self) -> NDArray[np.int64]:
        """Count the users of every item."""
        return np.bincount(self.indices, minlength=self.n_items)

    def to_csr(self) -> sparse.csr_matrix:
        """Return the binary matrix, for libraries that need one."""
        from scipy import sparse  # slow to import, and no device needs it

        ones = np.ones(self.n_interactions, np.float32)
        shape = (self.n_users, self.n_items)
        return sparse.csr_matrix((ones, self.indices, self.indptr), shape=shape)


def _is_ascending(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> bool:
    """Return whether items ascend strictly within every user."""
    if len(indices) < 2:
        return True
    ascends = indices[1:] > indices[:-1]
    # The last item of a user and the first of the next need no order.
    starts = indptr[1:-1]
    starts = starts[(starts > 0) & (starts < len(indices))]
    ascends[starts - 1] = True
    return bool(ascends.all())
