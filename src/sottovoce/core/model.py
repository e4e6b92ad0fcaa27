"""Implicit-feedback matrix factorisation, one function for each equation of the paper (section 2).

`V` is the item matrix, M x F, float32 as it travels. `x` is a user vector, `p` the 0/1 preference,
`c = 1 + alpha p` the confidence. Nothing here is random and nothing here is private: what may leave
a device is decided in `sottovoce.core`.

Every engine must give the same bits as this file, so the order of every sum is part of the
definition: over a user's items ascending, over factors ascending, one rounding for each operation,
no fused multiply-add. User vectors are solved in float64 and rounded to float32 once; everything
behind them is float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import MOST_ENTRY, usable
from sottovoce.errors import DataError, DivergedError, SettingsError

if TYPE_CHECKING:
    from scipy import sparse


Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


def initial_items(
    n_items: int, factors: int, scale: float, seed: int, head_start: float = 0.0
) -> Float32:
    """The server's first V: independent normal entries of standard deviation `scale`.

    With a head start the first factor is the constant `head_start * scale` instead. A matrix of
    zeros and ones has a leading direction without negative entries, so this is where a power
    iteration should begin: everybody's first reports pull the same way, and popularity is learnt in
    one epoch.
    """
    stream = np.random.Generator(np.random.Philox(key=[seed, _INITIAL_ITEMS]))
    V = scale * stream.standard_normal((n_items, factors))
    if head_start:
        V[:, 0] = head_start * scale
    return V.astype(np.float32)


def rotate_factors(V: Float32, seed: int, epoch: int) -> Float32:
    """V in another orthonormal basis of the factors, drawn uniformly for each epoch.

    Nobody's scores change, since user vectors are solved in the new basis. But one sign says more
    about a person's large factors than about their small ones; where these lie in the basis decides
    who is heard, and a fresh basis every epoch makes that fair.
    """
    factors = V.shape[1]
    basis = factor_basis(factors, seed, epoch)
    wide = V.astype(np.float64)
    turned = wide[:, :1] * basis[:1]
    for f in range(1, factors):
        turned = turned + wide[:, f : f + 1] * basis[f : f + 1]
    return turned.astype(np.float32)


def factor_basis(factors: int, seed: int, epoch: int) -> Float64:
    """The orthonormal basis of an epoch, one vector a row."""
    stream = np.random.Generator(np.random.Philox(key=[seed, _BASES], counter=[0, 0, 0, epoch]))
    return _orthonormal(stream.standard_normal((factors, factors)))


def _orthonormal(rows: Float64) -> Float64:
    """Gram-Schmidt: of normal rows it makes a uniformly distributed orthonormal basis.

    Not LAPACK's QR, whose last bits differ from machine to machine.
    """
    for i in range(len(rows)):
        for _ in range(2):  # twice is enough to be orthogonal to rounding
            for j in range(i):
                rows[i] -= (rows[i] * rows[j]).sum() * rows[j]
        rows[i] /= np.sqrt((rows[i] * rows[i]).sum())
    return rows


_INITIAL_ITEMS, _BASES = 0x56, 0x57
"""Keep these streams apart from each other and from every other one of the same seed."""


def gram(V: Float32) -> Float64:
    """`G = V^T V`, once an epoch: it turns the paper's O(M F^2) for each user into O(n_u F^2)."""
    wide = V.astype(np.float64)
    # cumsum adds one row after the other; sum() and matmul choose an order of their own. The last
    # row is copied: a view of it would keep all of them, M F^2 numbers in the end.
    rows = [np.cumsum(wide * wide[:, f : f + 1], axis=0)[-1].copy() for f in range(V.shape[1])]
    return np.stack(rows, axis=0)


def user_vectors(
    V: Float32, histories: Histories, *, alpha: float, regularization: float
) -> Float32:
    """Equation (4), for a whole batch: each user's vector in closed form, N x F.

    `x = (G + alpha sum v v^T + lambda I)^-1 (1 + alpha) sum v`, sums over the user's own items.
    A user with no history gets the zero vector, and so does one whose equations have no usable
    solution: see `sottovoce.core.bounds` why that must not fail.
    """
    factors, n = V.shape[1], histories.n_users
    users = histories.users_of_entries()
    own = V[histories.indices].astype(np.float64)

    def by_user(values: Float64) -> Float64:
        """Sums over each user's items; bincount adds in the order of its input."""
        return np.asarray(np.bincount(users, weights=values, minlength=n), np.float64)

    G, system = gram(V), np.zeros((n, factors, factors))
    for i in range(factors):
        for j in range(i + 1):
            system[:, i, j] = G[i, j] + alpha * by_user(own[:, i] * own[:, j])
        system[:, i, i] += regularization
    right = np.stack([(1.0 + alpha) * by_user(own[:, f]) for f in range(factors)], axis=1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return usable(solve_systems(system, right).astype(np.float32))


def solve_systems(system: Float64, right: Float64) -> Float64:
    """Solve small positive definite systems (lower triangles given), in a fixed order."""
    lower, x = system, right.copy()
    size = right.shape[1]
    # Column after column, each taken off all that follow: every entry loses the same products in
    # the same order as in a loop over k, but a device with 256 factors is not seconds later.
    for k in range(size):
        lower[:, k, k] = np.sqrt(lower[:, k, k])
        lower[:, k + 1 :, k] /= lower[:, k, k, None]
        column = lower[:, k + 1 :, k]
        lower[:, k + 1 :, k + 1 :] -= column[:, :, None] * column[:, None, :]
    for k in range(size):
        x[:, k] /= lower[:, k, k]
        x[:, k + 1 :] -= lower[:, k + 1 :, k] * x[:, k, None]
    for i in reversed(range(size)):
        taken_off = lower[:, i + 1 :, i] * x[:, i + 1 :]
        left = np.concatenate([x[:, i, None], taken_off], axis=1)
        x[:, i] = np.subtract.accumulate(left, axis=1)[:, -1] / lower[:, i, i]
    return x


def predictions(X: Float32, rows: Float32) -> Float32:
    """`x . v`, factor by factor in float32; `X` is (..., F) and broadcasts against `rows`."""
    total = X[..., 0] * rows[..., 0]
    for f in range(1, X.shape[-1]):
        total = total + X[..., f] * rows[..., f]
    return np.asarray(total, dtype=np.float32)


def residuals(V: Float32, X: Float32, histories: Histories, *, alpha: float) -> Float32:
    """`e = c (p - V x)`, dense: N x M."""
    p = np.zeros((histories.n_users, histories.n_items), np.float32)
    p[histories.users_of_entries(), histories.indices] = 1
    c = np.float32(1) + np.float32(alpha) * p
    return np.asarray(c * (p - predictions(X[:, None, :], V[None, :, :])), dtype=np.float32)


def gradients(e: Float32, X: Float32) -> Float32:
    """Equation (6) for one user each: `g[i, f] = -2 e_i x_f`, N x M x F.

    The paper's (5) drops the -2 that its (6) has; without it Algorithm 2 climbs.
    """
    return np.asarray((np.float32(-2) * e)[:, :, None] * X[:, None, :], dtype=np.float32)


def update(
    V: Float32,
    estimate: Float64,
    *,
    rate: float,
    steps: int,
    regularization: float,
    fade: float = 1.0,
) -> Float32:
    """Algorithm 2's last line: `V <- V - rate (g + 2 lambda V)`, `steps` times.

    All steps of one epoch reuse the same estimate: new reports would cost as many times the budget.
    Before them V is multiplied by `fade`: where tastes move, what is old has to give way.
    """
    if steps < 1:
        raise SettingsError(f"steps must be at least 1, got {steps}")
    wide = fade * V.astype(np.float64)
    for _ in range(steps):
        wide = wide - rate * (estimate + 2.0 * regularization * wide)
    if not (np.abs(wide) <= most_updated(V.shape[1])).all():
        raise diverged(rate)
    return wide.astype(np.float32)


def most_updated(factors: int) -> float:
    """Of an entry: turned to another basis, it can become larger by the root of F."""
    return float(MOST_ENTRY / np.sqrt(factors))


def diverged(rate: float) -> DivergedError:
    """What to raise when an update leaves it behind."""
    return DivergedError(
        f"the item matrix is beyond what devices accept ({MOST_ENTRY:g}) after an update with "
        f"rate {rate}: lower the learning rate"
    )


@dataclass(frozen=True, eq=False)
class Histories:
    """The items that each of N users touched, out of `n_items`: the input of all equations.

    Feedback is binary (the paper's `r_ui` in {0, 1}), so two arrays hold it: the items of user `u`
    are `indices[indptr[u]:indptr[u + 1]]`. A live client is a batch of one user.

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
            users = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
            items = items[np.lexsort((items, users))]
            if not _ascending(offsets, items):
                raise DataError("an item must not repeat within one user; collapse duplicates")
        return cls(offsets, items, n_items)

    @classmethod
    def from_csr(cls, matrix: sparse.csr_matrix | sparse.csr_array) -> Histories:
        """Every stored value above 0 is an interaction, whatever its size."""
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
        """From one sequence of items for each user; repeats collapse."""
        rows = [np.unique(np.asarray(items, dtype=np.int64)) for items in lists]
        indptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
        flat = np.concatenate(rows) if rows else np.empty(0, np.int64)
        return cls.from_arrays(indptr, flat, n_items)

    @property
    def n_users(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_interactions(self) -> int:
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
        return np.bincount(self.indices, minlength=self.n_items)

    def to_csr(self) -> sparse.csr_matrix:
        """The binary matrix, for libraries that want one."""
        from scipy import sparse  # slow to import, and no device needs it

        ones = np.ones(self.n_interactions, np.float32)
        shape = (self.n_users, self.n_items)
        return sparse.csr_matrix((ones, self.indices, self.indptr), shape=shape)


def _ascending(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> bool:
    if len(indices) < 2:
        return True
    grows = indices[1:] > indices[:-1]
    starts = indptr[1:-1]
    starts = starts[(starts > 0) & (starts < len(indices))]
    grows[starts - 1] = True
    return bool(grows.all())
