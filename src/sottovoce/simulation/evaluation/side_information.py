"""Ranks of what devices recommend: item matrix, tags and the order of a history together."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.core import Histories
from sottovoce.core.model import solve_systems
from sottovoce.core.recommending import WideModel, weigh_histories
from sottovoce.core.tags import Tags, build_tags, make_empty_tags
from sottovoce.data import Interactions, Split
from sottovoce.errors import DataError
from sottovoce.simulation.evaluation.ranking import NUMPY_WORK, Candidates, Ranks, rank_factors

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SideInformation:
    """What devices know besides the model, and use without telling anybody."""

    tags: Tags
    weights: Float64 | None
    """Of the training entries, by their order; None: all weigh alike."""

    @classmethod
    def from_split(cls, data: Interactions, split: Split, *, tags: bool, time: bool | None) -> Self:
        """With `time` None the order counts where the latest item is asked for, or the next.

        A random split asks for an item of any time, which an order says nothing about.
        """
        if time and split.times is None:
            raise DataError(f"{data.name} has no timestamps, which the order of items needs")
        ordered = split.rule != "random" if time is None else time
        return cls(
            build_tags(data.tags.tolist())
            if tags and data.tags is not None
            else make_empty_tags(data.histories.n_items),
            weigh_histories(split.train, split.times)
            if ordered and split.times is not None
            else None,
        )

    def __bool__(self) -> bool:
        """Whether it is anything at all."""
        return bool(self.tags.names) or self.weights is not None

    def __str__(self) -> str:
        said = [f"{len(self.tags.names)} tags"] if self.tags.names else []
        return " and ".join([*said, *(["time"] if self.weights is not None else [])])

    def compute_ranks(
        self, V: Float32, candidates: Candidates, *, alpha: float, regularization: float
    ) -> Ranks:
        """Of an item matrix, as devices that know this much use it."""
        model = WideModel.from_model(V, self.tags, alpha=alpha, regularization=regularization)
        return rank_devices(model, candidates, self.weights)


def solve_wide_vectors(
    model: WideModel, histories: Histories, weights: Float64 | None = None
) -> Float32:
    """Everybody's vector over `[V | D]`, N x (F + K), zero where there is none.

    `weights` of the entries of the histories; None weighs all alike. What `WideModel.shares` sums
    up to, for many at once.
    """
    n, n_entries, size = histories.n_users, histories.n_interactions, len(model.gram)
    weights = np.ones(n_entries) if weights is None else weights
    longest = int(np.diff(histories.indptr).max(initial=0))
    ridges = np.array([model.ridges(length) for length in range(longest + 1)])
    out = np.zeros((n, size), np.float32)
    if NUMPY_WORK.is_worth_compiling(n_entries * model.V.shape[1] ** 2 + n * size**3 / 3):
        from sottovoce.simulation.evaluation import kernels

        # One layout and type of each, so that one loop is compiled for all models.
        V, gram = (np.require(each, np.float64, ["C", "W"]) for each in (model.V, model.gram))
        D = model.D.indptr.astype(np.int64), model.D.indices.astype(np.int64), model.D.data
        arrays = histories.indptr, histories.indices, weights, V, *D, gram, ridges, model.alpha, out
        kernels.run_in_threads(
            n, lambda begin, end, _: kernels.solve_wide_vectors(begin, end, *arrays), 64
        )
        return out
    outer, rows = _outer(model), model.rows(np.arange(len(model.V)))
    columns = np.repeat([0, 1], (model.V.shape[1], model.D.shape[1]))
    at_once, diagonal = max(NUMBERS_AT_ONCE // size**2, 1), np.arange(size)
    for begin in range(0, n, at_once):
        some = histories.some(begin, min(begin + at_once, n))
        start = histories.indptr[begin]
        own = sparse.csr_array(
            (weights[start : start + some.n_interactions], some.indices, some.indptr),
            shape=(some.n_users, some.n_items),
        )
        system = model.gram + model.alpha * (own @ outer).toarray().reshape(-1, size, size)
        system[:, diagonal, diagonal] += ridges[np.diff(some.indptr)][:, columns]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            x = solve_systems(system, (1 + model.alpha) * np.asarray(own @ rows))
            x[~np.isfinite(x).all(axis=1)] = 0
            out[begin : begin + some.n_users] = x
    return out


NUMBERS_AT_ONCE = 1 << 18
"""Of the systems that are solved together: what a cache holds."""


def _outer(model: WideModel) -> sparse.csr_array:
    """For each item the products of all pairs of entries of its row of W, M x (F + K)^2."""
    W = sparse.csr_array(sparse.hstack([sparse.csr_array(model.V), model.D]))
    lengths = np.diff(W.indptr)
    first = np.repeat(np.arange(W.nnz), np.repeat(lengths, lengths))
    entries = Histories(W.indptr.astype(np.int64), np.arange(W.nnz, dtype=np.int32), W.nnz)
    second = entries.take(np.repeat(np.arange(W.shape[0]), lengths)).indices
    size = W.shape[1]
    pairs = W.indices[first].astype(np.int64) * size + W.indices[second]
    indptr = np.concatenate([[0], np.cumsum(lengths**2)])
    shape = (W.shape[0], size * size)
    return sparse.csr_array((W.data[first] * W.data[second], pairs, indptr), shape=shape)


def rank_devices(model: WideModel, candidates: Candidates, weights: Float64 | None = None) -> Ranks:
    """Ranks under the scores that each person's device computes from the training history."""
    X = solve_wide_vectors(model, candidates.split.train, weights)
    W = model.rows(np.arange(len(model.V))).astype(np.float32)
    return rank_factors(X, W, candidates)
