"""The side information of devices, and the ranks of what they recommend with it."""

from dataclasses import dataclass
from importlib.util import find_spec
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
from sottovoce.simulation.evaluation.ranking import Candidates, Ranks, rank_factors

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

# Systems with this number of entries in all are solved together, so that a cache holds them.
NUMBERS_PER_BLOCK = 1 << 18
# Numpy solves for about this time before a loop is compiled. Compiling takes about as long. So
# nobody waits more than twice as long as with the better choice, and small work waits for no
# compiler.
MAX_NUMPY_SECONDS = 3.0
# Approximate number of products that numpy adds up in a second.
STEPS_PER_SECOND = 1e8


@dataclass
class NumpyWork:
    """The time for which numpy has solved vectors in this process."""

    seconds: float = 0.0

    def is_worth_compiling(self, steps: float) -> bool:
        """Return whether to compile a loop for this many products; if not, count them for numpy."""
        total = self.seconds + steps / STEPS_PER_SECOND
        if total > MAX_NUMPY_SECONDS and find_spec("numba") is not None:
            return True
        self.seconds = total
        return False


NUMPY_WORK = NumpyWork()


@dataclass(frozen=True, eq=False)
class SideInformation:
    """Tags of items and the order of histories, which a device uses without telling anybody."""

    tags: Tags
    weights: Float64 | None
    """Weights of the training entries, by their order in time; None: all weigh alike."""

    @classmethod
    def from_split(cls, data: Interactions, split: Split, *, tags: bool, time: bool | None) -> Self:
        """Return the side information that devices have with this split.

        Args:
            data: The data with its tags.
            split: The training histories, with times if the data has them.
            tags: Whether tags are known.
            time: Whether the order in time is known. None means that it is known unless the split
                is random, because then a test item may be older than training items.

        Raises:
            DataError: The data has no timestamps.
        """
        if time and split.times is None:
            raise DataError(f"{data.name} has no timestamps, which the order of items needs")
        uses_order = split.rule != "random" if time is None else time
        item_tags = make_empty_tags(data.histories.n_items)
        if tags and data.tags is not None:
            item_tags = build_tags(data.tags.tolist())
        weights = None
        if uses_order and split.times is not None:
            weights = weigh_histories(split.train, split.times)
        return cls(item_tags, weights)

    def __bool__(self) -> bool:
        """Return whether there is any side information."""
        return bool(self.tags.names) or self.weights is not None

    def __str__(self) -> str:
        parts = [f"{len(self.tags.names)} tags"] if self.tags.names else []
        if self.weights is not None:
            parts.append("time")
        return " and ".join(parts)

    def compute_ranks(
        self,
        V: Float32,
        candidates: Candidates,
        *,
        alpha: float,
        regularization: float,
        has_shares: bool = False,
    ) -> Ranks:
        """Rank the test items as devices with an item matrix and this side information do."""
        model = WideModel.from_model(
            V, self.tags, alpha=alpha, regularization=regularization, has_shares=has_shares
        )
        return rank_devices(model, candidates, self.weights)


def solve_wide_vectors(
    model: WideModel, histories: Histories, weights: Float64 | None = None
) -> Float32:
    """Return everybody's vector over `[V | D]`, N x (F + K); it is zero if there is no solution.

    A vector is what `WideModel.shares` sums up to, here for many people at once.

    Args:
        model: The model with tags.
        histories: What people touched.
        weights: Weights of the entries of the histories; None: all weigh alike.
    """
    n, n_entries, size = histories.n_users, histories.n_interactions, len(model.gram)
    weights = np.ones(n_entries) if weights is None else weights
    longest = int(np.diff(histories.indptr).max(initial=0))
    ridges = np.array([model.ridges(length) for length in range(longest + 1)])
    out = np.zeros((n, size), np.float32)
    if NUMPY_WORK.is_worth_compiling(n_entries * model.V.shape[1] ** 2 + n * size**3 / 3):
        from sottovoce.simulation.evaluation import kernels

        # The arrays of all models get the same layout and type, so that only one loop is compiled.
        V, gram = (np.require(array, np.float64, ["C", "W"]) for array in (model.V, model.gram))
        D = model.D.indptr.astype(np.int64), model.D.indices.astype(np.int64), model.D.data
        arrays = histories.indptr, histories.indices, weights, V, *D, gram, ridges, model.alpha, out
        kernels.run_in_threads(
            n, lambda begin, end, _: kernels.solve_wide_vectors(begin, end, *arrays), 64
        )
        return out
    outer, rows = _compute_outer(model), model.rows(np.arange(len(model.V)))
    columns = np.repeat([0, 1], (model.V.shape[1], model.D.shape[1]))
    block_size, diagonal = max(NUMBERS_PER_BLOCK // size**2, 1), np.arange(size)
    for begin in range(0, n, block_size):
        some = histories.slice(begin, min(begin + block_size, n))
        start = histories.indptr[begin]
        own = sparse.csr_array(
            (weights[start : start + some.n_interactions], some.indices, some.indptr),
            shape=(some.n_users, some.n_items),
        )
        system = model.gram + model.alpha * (own @ outer).toarray().reshape(-1, size, size)
        # The ridge depends on the length of a history, and differs between factors and tags.
        system[:, diagonal, diagonal] += ridges[np.diff(some.indptr)][:, columns]
        # A person whose system has no solution has the vector 0.
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            x = solve_systems(system, (1 + model.alpha) * np.asarray(own @ rows))
            x[~np.isfinite(x).all(axis=1)] = 0
            out[begin : begin + some.n_users] = x
    return out


def _compute_outer(model: WideModel) -> sparse.csr_array:
    """Return the products of all pairs of entries of each item's row of W, M x (F + K)^2."""
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
    """Rank test items by the scores that each person's device computes."""
    X = solve_wide_vectors(model, candidates.split.train, weights)
    W = model.rows(np.arange(len(model.V))).astype(np.float32)
    return rank_factors(X, W, candidates)
